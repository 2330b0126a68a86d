<?php

declare(strict_types=1);

namespace RedisLease\Bridge;

use Closure;
use DistributedLock;
use RedisLease\ConnectionException;
use RedisLease\LeaseException;
use RedisLease\OutcomeUnknownException;
use RedisLease\ServerException;

/**
 * How long a framework's lock waits for another owner, and how long for Redis. Whoever waits for an owner means
 * minutes; an outage is reported after seconds, or it would tie up every worker that comes.
 *
 * One call cannot tell the two apart. So a first one asks whether Redis answers, and the whole wait is one call: who
 * called again would be the last in the line. An outage that begins during the wait therefore lasts as long as it does.
 *
 * @internal
 */
final class Patience
{
    /** Seconds of an outage. */
    private const OUTAGE = 3.0;
    /** Microseconds between two tries. */
    private const PAUSE = 50_000;
    /** Seconds: a year. */
    private const LONGEST = 31_536_000.0;

    /**
     * @param float $wait seconds; more than a year is a year
     *
     * @return bool false: contended until the wait ended
     *
     * @throws LeaseException as DistributedLock::acquire() does
     */
    public static function acquire(DistributedLock $lease, float $wait): bool
    {
        if (!($wait > self::OUTAGE)) {
            return $lease->acquire(max(0.0, $wait));
        }
        $deadline = self::now() + min($wait, self::LONGEST);
        try {
            $isHeld = $lease->acquire();
        } catch (ConnectionException | OutcomeUnknownException | ServerException) {
            $isHeld = $lease->acquire(self::OUTAGE);
        }

        return $isHeld || $lease->acquire(max(0.0, $deadline - self::now()));
    }

    /**
     * Asks again while Redis is away, for as long as an outage is borne.
     *
     * @param Closure(): mixed $ask
     * @param float $wait seconds
     *
     * @return float seconds of the wait that are left
     *
     * @throws LeaseException of the last time that it asked
     */
    public static function bear(Closure $ask, float $wait): float
    {
        $start = self::now();
        for (;;) {
            try {
                $ask();

                return max(0.0, $wait - (self::now() - $start));
            } catch (ConnectionException | OutcomeUnknownException $outage) {
                if (!(self::now() - $start < min($wait, self::OUTAGE))) {
                    throw $outage;
                }
                usleep(self::PAUSE);
            }
        }
    }

    private static function now(): float
    {
        return hrtime(true) / 1e9;
    }
}
