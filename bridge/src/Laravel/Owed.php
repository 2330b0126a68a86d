<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Laravel;

use DistributedLock;
use RedisLease\Bridge\HeldByRequest;
use RedisLease\LeaseException;

/**
 * Leases that are still to be given back: it is unknown whether they were granted, or their release was not answered.
 *
 * Laravel makes a lock's object for one call, and its last try to give the lease back meets the server that hangs. So
 * they are kept here, for the next who asks for that name, the end of the request and the end of the process.
 *
 * @internal
 */
final class Owed
{
    /** @var array<array<int, DistributedLock>> by name, then by object */
    private array $leases = [];

    public function __construct(private readonly ?HeldByRequest $held = null)
    {
    }

    public function add(DistributedLock $lease): void
    {
        $this->forgetSettled();
        $this->leases[$lease->resource()][spl_object_id($lease)] = $lease;
        $this->held?->add($lease);
    }

    /**
     * Gives back what is owed of that name.
     *
     * @return bool true: some of it was still there
     *
     * @throws LeaseException when Redis could not be asked; it stays owed
     */
    public function settle(string $name): bool
    {
        $wasThere = false;
        foreach ($this->leases[$name] ?? [] as $lease) {
            $wasThere = $lease->release() || $wasThere;
        }
        unset($this->leases[$name]);

        return $wasThere;
    }

    /** Their lock's further release, or the end of a request, has had its answer. */
    private function forgetSettled(): void
    {
        $isOwed = static fn (DistributedLock $lease): bool => $lease->token() !== null;
        foreach ($this->leases as $name => $leases) {
            $this->leases[$name] = array_filter($leases, $isOwed);
        }
        $this->leases = array_filter($this->leases);
    }
}
