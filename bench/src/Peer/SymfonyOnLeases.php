<?php

declare(strict_types=1);

namespace RedisLease\Bench\Peer;

use RedisLease\Bench\Address;
use RedisLease\Bridge\Symfony\LeaseStore;
use RedisLease\Bridge\Symfony\LockFactory as LeaseLockFactory;
use RedisLease\Connection;
use Symfony\Component\Lock\LockFactory;

/** symfony/lock on leases: the store and the factory that the bundle puts in its place. */
final class SymfonyOnLeases extends Symfony
{
    public static function isThere(): bool
    {
        return Ours::isThere() && stream_resolve_include_path(self::LIBRARY) !== false;
    }

    protected function factory(Address $address): LockFactory
    {
        return new LeaseLockFactory(new LeaseStore(new Connection($address->dsn())));
    }

    /** The connection's prefix comes before it. */
    protected function key(string $name): string
    {
        return $name;
    }
}
