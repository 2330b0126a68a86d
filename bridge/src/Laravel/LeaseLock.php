<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Laravel;

use DistributedLock;
use Illuminate\Cache\Lock;
use Illuminate\Contracts\Cache\LockTimeoutException;
use RedisLease\Bridge\HeldByRequest;
use RedisLease\Bridge\LeaseFactory;
use RedisLease\Bridge\Patience;
use RedisLease\LeaseException;
use Stringable;
use Throwable;
use ValueError;

/**
 * A lock of Laravel's on a lease. As with Laravel's own, it stays when the object goes and when the request ends: for
 * the job that restoreLock() is called in, or until its seconds are over.
 *
 * The owner is the lease's token, new with each grant, so owner() has its answer once the lock was acquired. An owner
 * that the caller brings names a lock that is held already; a grant replaces it.
 *
 * False is contention and nothing else: trouble with Redis is a RedisLease\LeaseException.
 */
final class LeaseLock extends Lock
{
    /** Set where the object has to stay for the renewal to go on. */
    private ?DistributedLock $lease = null;
    private ?int $fence = null;
    /** The process that it was granted to, or restored in. A forked child inherits the object, and owns nothing. */
    private int $pid;
    private bool $isReleased = false;

    /**
     * @param string|int|Stringable $name
     * @param int|float $seconds 0: the lease lives for $longTtl, and is renewed while this object lives
     * @param string|null $owner of a lock that is held already
     * @param float $longTtl seconds
     * @param HeldByRequest|null $held told of a lease that is renewed, to end the renewal with the request
     * @param Owed $debts keeps what is still to be given back when this object goes
     */
    public function __construct(
        private readonly LeaseFactory $leases,
        $name,
        $seconds,
        $owner,
        private readonly float $longTtl,
        private readonly ?HeldByRequest $held = null,
        private readonly Owed $debts = new Owed(),
    ) {
        if (!is_numeric($seconds ?? 0) || is_nan((float) $seconds)) {
            throw new ValueError('The seconds of a lock are a number, and no point in time.');
        }
        parent::__construct((string) $name, $seconds, (string) $owner);
        $this->pid = (int) getmypid();
    }

    /** The lock stays: only the renewal ends with the object. */
    public function __destruct()
    {
        $this->lease?->detach();
    }

    /** A clone has the owner. The renewal stays with the original. */
    public function __clone(): void
    {
        $this->lease = null;
    }

    /**
     * Takes the lock if it is free. As with Laravel's own, it is not free for its present owner either.
     *
     * @return bool true: acquired. False: somebody has it.
     *
     * @throws LeaseException when Redis could not be asked, or its answer is unknown
     */
    public function acquire(): bool
    {
        return $this->take(0.0);
    }

    /**
     * Takes the lock if it is free, and runs the callback under it.
     *
     * @param callable|null $callback called with the lock held, which is released then. What becomes of the callback
     *     counts: a release without an answer is tried again later.
     *
     * @return mixed what the callback returned, or true. False: somebody has it.
     *
     * @throws LeaseException as acquire() does
     */
    public function get($callback = null): mixed
    {
        if (!$this->acquire()) {
            return false;
        }

        return is_callable($callback) ? $this->run($callback) : true;
    }

    /**
     * Waits on Redis, without polling: a release wakes the one that has waited longest. Signals are served meanwhile.
     *
     * @param int|float $seconds how long to wait; an outage that it meets at its start ends it after three seconds
     * @param callable|null $callback as in get()
     *
     * @return mixed what the callback returned, or true
     *
     * @throws LockTimeoutException when somebody had it until then
     * @throws LeaseException when Redis could not be asked, or its answer is unknown
     */
    public function block($seconds, $callback = null): mixed
    {
        if (!$this->take((float) $seconds)) {
            throw new LockTimeoutException("The lock [{$this->name}] was not free within $seconds seconds.");
        }

        return is_callable($callback) ? $this->run($callback) : true;
    }

    /**
     * Gives the lock back, if this owner has it.
     *
     * @return bool true: it was ours. False: it was lost before, or never ours, or this object has released it already.
     *     Another object with the same owner, in this process or any, is told true again for up to a minute
     *     after the release, and after each such answer, also while somebody else has the lock: Redis remembers a release, for
     *     who asks again because the first answer was lost.
     *
     * @throws LeaseException when Redis could not be asked; a further call gives the final answer
     */
    public function release(): bool
    {
        $wasOwed = $this->debts->settle($this->leases, $this->name);
        if (!$this->isOurs()) {
            return $wasOwed;
        }
        $lease = $this->lease();
        [$this->lease, $this->isReleased] = [null, true];
        try {
            return $lease->release();
        } catch (LeaseException $failure) {
            $this->debts->add($this->leases, $lease);
            throw $failure;
        }
    }

    /**
     * Extends the lock, if this owner has it. It never shortens it.
     *
     * @param int|float|null $seconds at least so many from now; null takes the lock's own, and where it has none, as after
     *     restoreLock(), its long TTL of a day
     *
     * @return bool true: extended. False: lost, or never ours.
     *
     * @throws LeaseException when Redis could not be asked
     */
    public function refresh($seconds = null): bool
    {
        if (!$this->isOurs()) {
            return false;
        }
        $lease = $this->lease();
        $isExtended = $lease->renew($seconds > 0 ? (float) $seconds : $this->ttl());
        if ($isExtended) {
            $this->fence = $lease->fence();
        }
        if ($lease !== $this->lease) {
            $lease->detach();
        }

        return $isExtended;
    }

    /**
     * Removes the lock, whoever's it is. Its owner is not asked, and may be at work.
     *
     * @throws LeaseException when Redis could not be asked
     */
    public function forceRelease(): void
    {
        ($this->lease ?? $this->leases->create($this->name))->forceRelease();
    }

    /**
     * Whether anybody has it.
     *
     * @throws LeaseException when Redis could not be asked
     */
    public function isLocked(): bool
    {
        return $this->getCurrentOwner() !== null;
    }

    /**
     * Whether this owner has it. A forked child does not.
     *
     * @throws LeaseException when Redis could not be asked
     */
    public function isOwnedByCurrentProcess(): bool
    {
        return $this->isOurs() && parent::isOwnedByCurrentProcess();
    }

    /**
     * The number of this grant, for what is written under the lock: a late write can then be refused. Null before the
     * lock was acquired or, if it was restored, refreshed.
     */
    public function fence(): ?int
    {
        return $this->fence;
    }

    protected function getCurrentOwner(): ?string
    {
        return $this->leases->create($this->name)->owner();
    }

    /** @param callable(): mixed $callback */
    private function run(callable $callback): mixed
    {
        try {
            return $callback();
        } finally {
            try {
                $this->release();
            } catch (LeaseException) {
                // The lease covered the work, and its end is owed.
            }
        }
    }

    private function take(float $wait): bool
    {
        $isEndless = $this->seconds <= 0;
        // An earlier attempt of this process that Redis may have granted would be in the way.
        $wait = Patience::bear(fn (): bool => $this->debts->settle($this->leases, $this->name), $wait);
        // A new lease each time: the one that this object has already is in the way as any other's.
        $lease = $this->leases->create($this->name, $this->ttl(), autoRenew: $isEndless);
        try {
            $isHeld = Patience::acquire($lease, $wait);
        } catch (Throwable $failure) {
            if ($lease->token() !== null) {
                $this->debts->add($this->leases, $lease);
            }
            throw $failure;
        }
        if (!$isHeld) {
            return false;
        }
        [$this->owner, $this->fence, $this->pid] = [$lease->token(), $lease->fence(), (int) getmypid()];
        $this->lease = $isEndless ? $lease : null;
        $this->isReleased = false;
        if ($isEndless) {
            $this->held?->add($lease, stays: true);
        } else {
            $lease->detach();
        }

        return true;
    }

    private function lease(): DistributedLock
    {
        // Detached at a request's end, it has no token any more.
        $lease = $this->lease?->token() === null ? null : $this->lease;

        return $lease ?? $this->leases->restore($this->name, $this->owner, $this->ttl());
    }

    private function ttl(): float
    {
        return $this->seconds > 0 ? (float) $this->seconds : $this->longTtl;
    }

    private function isOurs(): bool
    {
        return $this->canOwn() && !$this->isReleased && $this->pid === getmypid();
    }

    /** No grant ever has another owner than such a one, so Redis need not be asked. */
    private function canOwn(): bool
    {
        return $this->owner !== '' && strlen($this->owner) <= 255 && !str_starts_with($this->owner, 'reserved:');
    }
}
