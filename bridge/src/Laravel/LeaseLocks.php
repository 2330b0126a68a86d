<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Laravel;

use BadMethodCallException;
use InvalidArgumentException;
use RedisLease\Bridge\HeldByRequest;
use RedisLease\Bridge\LeaseFactory;
use Stringable;

/**
 * The locks of a cache store, whatever kind of store keeps the values.
 *
 * @internal
 */
final class LeaseLocks
{
    /**
     * @param float $longTtl seconds, for locks that are to have no end
     * @param Owed $debts keeps what is still to be given back when its lock's object goes
     */
    public function __construct(
        private readonly LeaseFactory $leases,
        private readonly float $longTtl,
        private readonly ?HeldByRequest $held = null,
        private readonly Owed $debts = new Owed(),
    ) {
    }

    /**
     * @param string|int|Stringable $name
     * @param int|float $seconds 0: no end that the caller would name. It ends all the same, as LeaseLock says.
     * @param string|null $owner of a lock that is held already
     */
    public function lock($name, $seconds, $owner): LeaseLock
    {
        return new LeaseLock($this->leases, $name, $seconds, $owner, $this->longTtl, $this->held, $this->debts);
    }

    /**
     * The lock of an owner that has it already, in another process.
     *
     * @param string|int|Stringable $name
     * @param string $owner what owner() said once the lock was acquired
     *
     * @throws InvalidArgumentException when the owner is empty
     */
    public function restore($name, $owner): LeaseLock
    {
        if ((string) $owner === '') {
            throw new InvalidArgumentException('A lock has an owner to restore it by once it was acquired.');
        }

        return $this->lock($name, 0, $owner);
    }

    /**
     * Refused, whatever the store of the values can: its locks are not these.
     *
     * @throws BadMethodCallException always
     */
    public function flush(): never
    {
        throw new BadMethodCallException('Leases are not flushed: lease:release removes one lock.');
    }
}
