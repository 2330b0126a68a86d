<?php

declare(strict_types=1);

namespace RedisLease\Bridge;

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

    private static function now(): float
    {
        return hrtime(true) / 1e9;
    }
}
