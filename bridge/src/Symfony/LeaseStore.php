<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Symfony;

use DistributedLock;
use RedisLease\Bridge\HeldByRequest;
use RedisLease\Bridge\Patience;
use RedisLease\Connection;
use RedisLease\LeaseException;
use RedisLease\LeaseLostException;
use Symfony\Component\Lock\BlockingStoreInterface;
use Symfony\Component\Lock\Exception\InvalidArgumentException;
use Symfony\Component\Lock\Exception\InvalidTtlException;
use Symfony\Component\Lock\Exception\LockAcquiringException;
use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\Exception\LockExpiredException;
use Symfony\Component\Lock\Exception\LockReleasingException;
use Symfony\Component\Lock\Exception\LockStorageException;
use Symfony\Component\Lock\Key;
use ValueError;
use WeakMap;

/**
 * Symfony's locks on leases. A conflict is LockConflictedException and nothing else is: trouble with Redis has the
 * extension's own exception as its previous one.
 *
 *     $factory = new LockFactory(new LeaseStore());     // RedisLease\Bridge\Symfony\LockFactory
 *     $lock = $factory->createLock('order:42', ttl: 30);
 *
 * The key's state is one string, the token: a serialized key hands the lock over to another process. A forked child
 * inherits the key, or clones it, and does not own the lock.
 *
 * A lease is never shortened. So the store must know the TTL when it takes the lock, and Symfony tells it only
 * afterwards: this package's LockFactory tells it before. With Symfony's own factory a lock of a dead process lives for
 * $initialTtl at least.
 *
 * There is no shared (read) lock. For every store without them Symfony's Lock itself takes an exclusive one in
 * acquireRead(), and says so to its logger: the store is not told that it is for reading, so it cannot refuse.
 */
final class LeaseStore implements BlockingStoreInterface
{
    private const YEAR = 31_536_000.0;
    /** Lock::acquire() sets the TTL right after it has taken the lock: in so many seconds, and not again. */
    private const AT_ONCE = 0.01;

    /** @var WeakMap<Key, Grant> */
    private readonly WeakMap $grants;
    private bool $releasesItself = false;

    /**
     * @param Connection|null $connection null takes the one that the ini setting redis_lease.dsn names
     * @param float $initialTtl seconds, 0.01 to 31536000 (one year), for locks that name no TTL
     * @param float $longestWait seconds, 0 to 31536000, for which acquire(true) waits before it throws
     *     LockConflictedException. An outage that it meets at its start ends it after three seconds.
     * @param HeldByRequest|null $held told of locks with autoRelease, to give them back at the end of a request where
     *     PHP ends none
     *
     * @throws InvalidTtlException when $initialTtl is out of range
     * @throws InvalidArgumentException when $longestWait is out of range
     */
    public function __construct(
        private readonly ?Connection $connection = null,
        private float $initialTtl = 300.0,
        private readonly float $longestWait = 300.0,
        private readonly ?HeldByRequest $held = null,
    ) {
        self::checkTtl($initialTtl);
        if (!($longestWait >= 0.0 && $longestWait <= self::YEAR)) {
            throw new InvalidArgumentException('The longest wait must be between 0 and 31536000 seconds.');
        }
        $this->grants = new WeakMap();
    }

    /**
     * This store for one lock, whose TTL and fate it then knows.
     *
     * @param float|null $ttl seconds; null or 0 takes $initialTtl
     * @param bool $releasesItself whether the lock is given back with its key and at the end of the request, also
     *     after a fatal error; else it stays for another process, or its TTL
     * @param Key|null $key the lock's. What it has already is this process's from here on, and no forked child's.
     *
     * @throws InvalidTtlException when $ttl is out of range
     */
    public function forLock(?float $ttl, bool $releasesItself, ?Key $key = null): self
    {
        $store = clone $this;
        $store->initialTtl = $ttl ?: $this->initialTtl;
        $store->releasesItself = $releasesItself;
        self::checkTtl($store->initialTtl);
        if ($key !== null) {
            $store->grant($key);
        }

        return $store;
    }

    /**
     * Takes the lock, or extends it if the key has it already.
     *
     * @throws LockConflictedException when another owner has it
     * @throws LockExpiredException when it was granted too late to be relied on, and was given back
     * @throws LockAcquiringException when Redis could not be asked, or its answer is unknown
     * @throws InvalidArgumentException when the resource is empty or longer than 64 KiB
     */
    public function save(Key $key): void
    {
        $this->take($key, 0.0);
    }

    /**
     * Waits on Redis, without polling: a release wakes the one that has waited longest. Signals are served meanwhile.
     *
     * @throws LockConflictedException when another owner had it until $longestWait had passed
     * @throws LockExpiredException when it was granted too late to be relied on, and was given back
     * @throws LockAcquiringException when Redis could not be asked, or its answer is unknown
     * @throws InvalidArgumentException when the resource is empty or longer than 64 KiB
     */
    public function waitAndSave(Key $key): void
    {
        $this->take($key, $this->longestWait);
    }

    /**
     * Extends the lock to at least $ttl seconds from now, if the key still has it.
     *
     * @throws LockConflictedException when it was lost
     * @throws InvalidTtlException when $ttl is out of range
     * @throws LockStorageException when Redis could not be asked; the key's lifetime is as before
     */
    public function putOffExpiration(Key $key, float $ttl): void
    {
        self::checkTtl($ttl);
        $grant = $this->grant($key) ?? throw new LockConflictedException();
        $isGranted = $grant->unusedTtl === $ttl && $grant->age() <= self::AT_ONCE;
        $grant->unusedTtl = null;
        if (!$isGranted) {
            $lease = $this->lease($key, $grant);
            try {
                $isExtended = $lease->renew($ttl);
            } catch (LeaseException $failure) {
                throw new LockStorageException($failure->getMessage(), 0, $failure);
            }
            $grant = $this->note($key, $lease, null);
            if (!$isExtended) {
                throw new LockConflictedException();
            }
        }
        $key->reduceLifetime(min($ttl, $grant->validity()));
    }

    /**
     * Gives the lock back if the key has it; another owner's is never touched.
     *
     * @throws LockReleasingException when Redis could not be asked. A further call gives the final answer.
     */
    public function delete(Key $key): void
    {
        $grant = $this->grant($key);
        if ($grant === null) {
            return;
        }
        $lease = $this->lease($key, $grant);
        try {
            $lease->release();
        } catch (LeaseException $failure) {
            // Kept, whatever becomes of locks here: it is owed, and the end of the request tries again.
            $this->grants[$key] = new Grant($lease, $grant->token, $grant->fence, 0.0);
            throw new LockReleasingException($failure->getMessage(), 0, $failure);
        }
        unset($this->grants[$key]);
        self::mark($key, null);
    }

    /**
     * Asks Redis whether the key has the lock. False without asking when its lifetime is over.
     *
     * @throws LockStorageException when Redis could not be asked
     */
    public function exists(Key $key): bool
    {
        $grant = $this->grant($key);
        if ($grant === null || $key->isExpired()) {
            return false;
        }
        try {
            return $this->lease($key, $grant)->owner() === $grant->token;
        } catch (LeaseException $failure) {
            throw new LockStorageException($failure->getMessage(), 0, $failure);
        }
    }

    /**
     * The number of the key's grant, for what is written under the lock: a late write can then be refused. Null when
     * this process has not taken or extended the lock.
     */
    public function fence(Key $key): ?int
    {
        return $this->grant($key)?->fence;
    }

    private function take(Key $key, float $wait): void
    {
        $grant = $this->grant($key);
        $lease = $grant === null ? $this->newLease($key) : $this->lease($key, $grant);
        try {
            $isHeld = Patience::acquire($lease, $wait);
        } catch (LeaseLostException $late) {
            throw new LockExpiredException($late->getMessage(), 0, $late);
        } catch (LeaseException $failure) {
            throw new LockAcquiringException($failure->getMessage(), 0, $failure);
        } finally {
            $grant = $this->note($key, $lease, $this->initialTtl);
        }
        if (!$isHeld) {
            throw new LockConflictedException();
        }
        $key->reduceLifetime($grant->validity());
    }

    /**
     * What this process owns by the key; null when it owns nothing.
     *
     * @throws InvalidArgumentException when the key comes from elsewhere and what it holds is no token
     */
    private function grant(Key $key): ?Grant
    {
        $grant = $this->grants[$key] ?? null;
        if ($grant !== null) {
            return $grant->isOurs() && $grant->token !== null ? $grant : null;
        }
        if (!$key->hasState(self::class) || ($origin = self::origin($key))?->isOurs() === false) {
            return null;
        }
        $token = $key->getState(self::class);
        if (!is_string($token) || $token === '' || strlen($token) > 255 || str_starts_with($token, 'reserved:')) {
            throw new InvalidArgumentException("The key of the lock \"$key\" was tampered with: it holds no token.");
        }
        if ($origin === null) {
            self::mark($key, $token);
        }

        // The key comes from another process, or another store's hand. Remembered, since a forked child inherits it.
        return $this->grants[$key] = new Grant(null, $token, null, 0.0);
    }

    private function newLease(Key $key): DistributedLock
    {
        try {
            return new DistributedLock((string) $key, $this->initialTtl, connection: $this->connection);
        } catch (ValueError $refusal) {
            throw new InvalidArgumentException($refusal->getMessage(), 0, $refusal);
        }
    }

    private function lease(Key $key, Grant $grant): DistributedLock
    {
        try {
            return $grant->lease
                ?? DistributedLock::restore((string) $key, $grant->token, $this->initialTtl, $this->connection);
        } catch (ValueError $refusal) {
            throw new InvalidArgumentException($refusal->getMessage(), 0, $refusal);
        }
    }

    /** Remembers what became of the lease, and whether anything here shall give it back. */
    private function note(Key $key, DistributedLock $lease, ?float $unusedTtl): Grant
    {
        [$token, $fence, $validity] = [$lease->token(), $lease->fence(), $lease->remaining()];
        if ($validity > 0.0 && $this->releasesItself) {
            $this->held?->add($lease);
        } elseif ($validity > 0.0) {
            $lease->detach();
            $lease = null;
        }
        self::mark($key, $token);

        return $this->grants[$key] = new Grant($lease, $token, $fence, $validity, $unusedTtl);
    }

    private static function mark(Key $key, ?string $token): void
    {
        if ($token === null) {
            $key->removeState(self::class);
            $key->removeState(Origin::class);
        } else {
            $key->setState(self::class, $token);
            $key->setState(Origin::class, new Origin());
        }
    }

    private static function origin(Key $key): ?Origin
    {
        $origin = $key->hasState(Origin::class) ? $key->getState(Origin::class) : null;

        return $origin instanceof Origin ? $origin : null;
    }

    private static function checkTtl(float $ttl): void
    {
        if (!($ttl >= 0.01 && $ttl <= self::YEAR)) {
            throw new InvalidTtlException(sprintf('The TTL must be between 0.01 and 31536000 seconds, %s given.', $ttl));
        }
    }
}
