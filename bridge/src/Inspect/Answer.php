<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Inspect;

use InvalidArgumentException;
use Throwable;
use ValueError;

/**
 * What the exit code of lease:show and lease:release tells a script. That nothing was found out is no answer: a script
 * must not take an outage for a free lock.
 *
 * @internal
 */
final class Answer
{
    /** It is held; it was removed. */
    public const YES = 0;
    /** It is free; nothing was removed. */
    public const NO = 1;
    /** It could not be found out, or was asked in a wrong way. */
    public const NONE = 2;

    /** The trouble in words of the command line, where the extension speaks of its own arguments. */
    public static function trouble(Throwable $trouble): Throwable
    {
        $pattern = '/^DistributedLock::\w+\(\): Argument #\d+ \(\$(resource|token)\) /';
        if (!$trouble instanceof ValueError || preg_match($pattern, $trouble->getMessage(), $found) !== 1) {
            return $trouble;
        }
        $what = $found[1] === 'token' ? 'The option --owner ' : 'The name of the lock ';

        return new InvalidArgumentException($what . substr($trouble->getMessage(), strlen($found[0])));
    }
}
