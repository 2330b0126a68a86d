<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Laravel;

use BadMethodCallException;
use Illuminate\Cache\RedisStore;
use Illuminate\Contracts\Cache\LockProvider;
use Illuminate\Contracts\Cache\Store;
use InvalidArgumentException;
use Stringable;

/**
 * A cache store whose locks are leases. Its values are another store's, the one that it is given.
 *
 * @mixin Store
 */
abstract class LeaseCacheStore implements LockProvider, Store
{
    final public function __construct(protected Store $values, private readonly LeaseLocks $leases)
    {
    }

    /** What is set in a copy, as Laravel does for sessions, is not set in the store that was given. */
    public function __clone(): void
    {
        $this->values = clone $this->values;
    }

    /** The one that can what the store of the values can: Laravel asks for its class, and for tags() by the name. */
    public static function over(Store $values, LeaseLocks $leases): LockProvider&Store
    {
        return match (true) {
            $values::class === RedisStore::class => new LeaseRedisStore($values, $leases),
            method_exists($values, 'tags') => new TaggableStore($values, $leases),
            default => new UntaggedStore($values, $leases),
        };
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

    public function get($key): mixed
    {
        return $this->values->get($key);
    }

    public function many(array $keys): array
    {
        return $this->values->many($keys);
    }

    public function put($key, $value, $seconds): bool
    {
        return (bool) $this->values->put($key, $value, $seconds);
    }

    public function putMany(array $values, $seconds): bool
    {
        return (bool) $this->values->putMany($values, $seconds);
    }

    /**
     * Laravel asks whether a store has this, and does it itself where it has not.
     *
     * @param string $key
     * @param mixed $value
     * @param int $seconds
     */
    public function add($key, $value, $seconds): bool
    {
        if (method_exists($this->values, 'add')) {
            return (bool) $this->values->add($key, $value, $seconds);
        }

        return $this->values->get($key) === null && $this->values->put($key, $value, $seconds);
    }

    public function increment($key, $value = 1): mixed
    {
        return $this->values->increment($key, $value);
    }

    public function decrement($key, $value = 1): mixed
    {
        return $this->values->decrement($key, $value);
    }

    public function forever($key, $value): bool
    {
        return (bool) $this->values->forever($key, $value);
    }

    /**
     * Every store has it from Laravel 13 on.
     *
     * @param string $key
     * @param int $seconds
     */
    public function touch($key, $seconds): bool
    {
        if (method_exists($this->values, 'touch')) {
            return (bool) $this->values->touch($key, $seconds);
        }
        $value = $this->values->get($key);

        return $value !== null && $this->values->put($key, $value, $seconds);
    }

    public function forget($key): bool
    {
        return (bool) $this->values->forget($key);
    }

    /** The values. The locks stay, unless they are in the same Redis database. */
    public function flush(): bool
    {
        return (bool) $this->values->flush();
    }

    public function getPrefix(): string
    {
        return $this->values->getPrefix();
    }

    /** @throws BadMethodCallException always: lease:release removes one lock */
    public function flushLocks(): never
    {
        $this->leases->flush();
    }

    /**
     * Whatever else the store of the values can do.
     *
     * @param list<mixed> $arguments
     */
    public function __call(string $method, array $arguments): mixed
    {
        return $this->values->$method(...$arguments);
    }
}
