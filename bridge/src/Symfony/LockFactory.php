<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Symfony;

use Symfony\Component\Lock\Exception\InvalidTtlException;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\Lock;
use Symfony\Component\Lock\LockFactory as SymfonyLockFactory;
use Symfony\Component\Lock\PersistingStoreInterface;
use Symfony\Component\Lock\SharedLockInterface;

/**
 * Symfony's factory, which also tells a LeaseStore each lock's TTL before the lock is taken: so acquire() is one round
 * trip, and a dead process's lock ends with its own TTL. With any other store it does what Symfony's does.
 *
 * A lock with autoRelease is also given back after a fatal error, exit() or a time limit.
 */
final class LockFactory extends SymfonyLockFactory
{
    public function __construct(private readonly PersistingStoreInterface $store)
    {
        parent::__construct($store);
    }

    /**
     * @param float|null $ttl seconds, 0.01 to 31536000 (one year); null takes the store's own
     *
     * @throws InvalidTtlException when the TTL is out of range
     */
    public function createLockFromKey(Key $key, ?float $ttl = 300.0, bool $autoRelease = true): SharedLockInterface
    {
        $store = $this->store instanceof LeaseStore ? $this->store->forLock($ttl, $autoRelease, $key) : $this->store;
        $lock = new Lock($key, $store, $ttl, $autoRelease);
        if ($this->logger !== null) {
            $lock->setLogger($this->logger);
        }

        return $lock;
    }
}
