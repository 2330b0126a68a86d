<?php

declare(strict_types=1);

namespace RedisLease\Bench\Peer;

use DistributedLock;
use RedisLease\Bench\Address;
use RedisLease\Bench\Peer;
use RuntimeException;

/** This extension, one object for all cycles. */
class Ours implements Peer
{
    protected readonly DistributedLock $lock;

    public static function package(): ?string
    {
        return null;
    }

    public static function isThere(): bool
    {
        return extension_loaded('redis_lease');
    }

    public function __construct(Address $address, protected readonly string $name)
    {
        ini_set('redis_lease.dsn', $address->dsn());
        $this->lock = new DistributedLock($name, 10.0);
    }

    public function cycles(int $count): void
    {
        for ($i = 0; $i < $count; $i++) {
            if (!$this->lock->acquire() || !$this->lock->release()) {
                throw new RuntimeException('not held');
            }
        }
    }

    public function acquire(): void
    {
        if (!$this->lock->acquire(600.0)) {
            throw new RuntimeException('not held');
        }
    }

    public function release(): void
    {
        if (!$this->lock->release()) {
            throw new RuntimeException('lost');
        }
    }
}
