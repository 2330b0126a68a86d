<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Laravel;

use DistributedLock;
use RedisLease\Bridge\LeaseFactory;
use RedisLease\LeaseException;

/**
 * Leases that are still to be given back: it is unknown whether they were granted, or their release was not answered.
 *
 * Laravel makes a lock's object for one call, and its last try to give the lease back meets the server that hangs. So
 * they are kept here, for the next who asks for that name, the end of a request or a job, and the end of the process.
 *
 * @internal
 */
final class Owed
{
    /** @var list<array{LeaseFactory, DistributedLock}> what made the lease, and the lease */
    private array $leases = [];

    public function add(LeaseFactory $leases, DistributedLock $lease): void
    {
        $this->leases[] = [$leases, $lease];
    }

    /**
     * Gives back what is owed of that name.
     *
     * @return bool true: some of it was still there
     *
     * @throws LeaseException when Redis could not be asked; it stays owed
     */
    public function settle(LeaseFactory $leases, string $name): bool
    {
        $wasThere = false;
        foreach ($this->leases as $place => [$of, $lease]) {
            if ($of === $leases && $lease->resource() === $name) {
                $wasThere = $lease->release() || $wasThere;
                unset($this->leases[$place]);
            }
        }
        $this->leases = array_values($this->leases);

        return $wasThere;
    }

    /** Gives back all, up to the first that Redis does not answer. Never throws: who has to know was told. */
    public function settleAll(): void
    {
        foreach ($this->leases as [$leases, $lease]) {
            try {
                $this->settle($leases, $lease->resource());
            } catch (LeaseException) {
                return;
            }
        }
    }
}
