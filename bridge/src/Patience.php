<?php

declare(strict_types=1);

namespace RedisLease\Bridge;

use DistributedLock;
use RedisLease\LeaseException;

/**
 * How long a framework's lock waits for another owner, and how long for Redis. Whoever waits for an owner means
 * minutes; an outage is reported after seconds, or it would tie up every worker.
 *
 * @internal
 */
final class Patience
{
    /** Seconds of an outage. */
    private const OUTAGE = 3.0;

    /**
     * @param float $wait seconds
     *
     * @return bool false: contended until the wait ended
     *
     * @throws LeaseException as DistributedLock::acquire() does
     */
    public static function acquire(DistributedLock $lease, float $wait): bool
    {
        if ($wait <= 0.0) {
            return $lease->acquire();
        }
        $deadline = self::now() + $wait;
        do {
            $left = max(0.0, $deadline - self::now());
            if ($lease->acquire(min($left, self::OUTAGE))) {
                return true;
            }
        } while ($left > self::OUTAGE);

        return false;
    }

    private static function now(): float
    {
        return hrtime(true) / 1e9;
    }
}
