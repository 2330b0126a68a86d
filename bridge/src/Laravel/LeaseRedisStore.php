<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Laravel;

use BadMethodCallException;
use Illuminate\Cache\RedisStore;
use InvalidArgumentException;
use Stringable;

/**
 * Laravel's own store in Redis, whose locks are leases. It is one itself, not around one, for what Laravel does with no
 * other kind: its RateLimiter would not count behind a serializer, and stale tags would not be pruned.
 */
final class LeaseRedisStore extends RedisStore
{
    private readonly LeaseLocks $leases;

    /** @param RedisStore $values of that very class: what a subclass does is not taken over */
    public function __construct(RedisStore $values, LeaseLocks $leases)
    {
        // Not by the parent's constructor: each version of Laravel has another, and the prefix is complete already.
        foreach (get_object_vars($values) as $name => $value) {
            $this->$name = $value;
        }
        $this->leases = $leases;
    }

    /**
     * @param string|int|Stringable $name
     * @param int|float $seconds 0: no end that the caller would name. It ends all the same, as LeaseLock says.
     * @param string|null $owner of a lock that is held already
     */
    public function lock($name, $seconds = 0, $owner = null): LeaseLock
    {
        return $this->leases->lock($name, $seconds, $owner);
    }

    /**
     * The lock of an owner that has it already, in another process.
     *
     * @param string|int|Stringable $name
     * @param string $owner what owner() said once the lock was acquired
     *
     * @throws InvalidArgumentException when the owner is empty
     */
    public function restoreLock($name, $owner): LeaseLock
    {
        return $this->leases->restore($name, $owner);
    }

    /** @throws BadMethodCallException always: lease:release removes one lock */
    public function flushLocks(): never
    {
        $this->leases->flush();
    }
}
