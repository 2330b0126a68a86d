<?php

declare(strict_types=1);

namespace RedisLease\Bridge;

use Closure;
use DistributedLock;
use RedisLease\Connection;
use ValueError;

/**
 * Makes leases on one connection with one default TTL: what a framework's configuration says, in one service.
 *
 *     $lock = $leases->create('order:42');
 *     if ($lock->acquire(wait: 0.5)) { ... }
 */
final class LeaseFactory
{
    /**
     * @param Connection|(Closure(): Connection)|null $connection null takes the one that the ini setting
     *     redis_lease.dsn names. A closure is called for the first lease: until then a wrong DSN disturbs nobody.
     * @param float|null $ttl seconds for leases that name none, 0.01 to 31536000 (one year).
     *     Null takes the ini setting redis_lease.ttl.
     * @param HeldByRequest|null $held told of every lease, to give it back at the end of a request where PHP ends none
     */
    public function __construct(
        private Connection|Closure|null $connection = null,
        private readonly ?float $ttl = null,
        private readonly ?HeldByRequest $held = null,
    ) {
    }

    /**
     * A lock that is not held yet; the arguments are those of DistributedLock.
     *
     * @throws ValueError when the resource is empty or too long, or the TTL is out of range
     */
    public function create(
        string $resource,
        ?float $ttl = null,
        bool $autoRenew = false,
        bool $abortOnLoss = false,
    ): DistributedLock {
        return $this->watched(
            new DistributedLock($resource, $ttl ?? $this->ttl, $autoRenew, $this->connection(), $abortOnLoss),
        );
    }

    /**
     * The lock of a token that exists already: another process's after detach(), or a framework's owner string.
     *
     * @throws ValueError when an argument is out of range
     */
    public function restore(string $resource, string $token, ?float $ttl = null): DistributedLock
    {
        return $this->watched(DistributedLock::restore($resource, $token, $ttl ?? $this->ttl, $this->connection()));
    }

    private function connection(): ?Connection
    {
        if ($this->connection instanceof Closure) {
            $this->connection = ($this->connection)();
        }

        return $this->connection;
    }

    private function watched(DistributedLock $lease): DistributedLock
    {
        return $this->held?->add($lease) ?? $lease;
    }
}
