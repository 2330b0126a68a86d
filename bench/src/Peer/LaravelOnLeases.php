<?php

declare(strict_types=1);

namespace RedisLease\Bench\Peer;

use Illuminate\Cache\ArrayStore;
use Illuminate\Contracts\Cache\LockProvider;
use RedisLease\Bench\Address;
use RedisLease\Bridge\Laravel\LeaseCacheStore;
use RedisLease\Bridge\Laravel\LeaseLocks;
use RedisLease\Bridge\LeaseFactory;
use RedisLease\Connection;

/** Laravel's cache lock on leases: the store that the driver redis_lease makes. */
final class LaravelOnLeases extends Laravel
{
    public static function isThere(): bool
    {
        return Ours::isThere() && stream_resolve_include_path(self::LIBRARY) !== false;
    }

    protected function store(Address $address): LockProvider
    {
        return LeaseCacheStore::over(
            new ArrayStore(),
            new LeaseLocks(new LeaseFactory(new Connection($address->dsn())), 86_400.0),
        );
    }
}
