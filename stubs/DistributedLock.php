<?php

/**
 * A lease on a named resource: temporary, exclusive ownership, kept in Redis.
 *
 *     $lock = new DistributedLock('order:42', ttl: 5.0);
 *     if (!$lock->acquire(wait: 0.5)) {
 *         return 'somebody else works on this order';
 *     }
 *     try {
 *         // the critical section
 *     } finally {
 *         $lock->release();
 *     }
 *
 * All durations are seconds as float. A bool says who owns the lock; trouble is an exception.
 *
 * A lock that is held is released when the last reference to its object goes, and at the end of the request,
 * also after a fatal error, exit() or a time limit. A worker that is killed leaves it to its TTL. A forked child
 * never releases its parent's lock: the inherited object behaves as one that does not hold, without token and fence.
 *
 * A lease can end under the work (a pause longer than the TTL, lost data in Redis). It is exclusive only as
 * long as isHeld() is true. Where a late write would do harm, let the written resource check fence().
 *
 * With autoRenew a native thread extends the lease while it is held, whatever the PHP code is doing, so that the
 * TTL can be short. With abortOnLoss besides, its loss stops the PHP code with a LeaseLostException.
 *
 * The objects cannot be cloned or serialized: hand a lock over with detach() and restore().
 */
final class DistributedLock
{
    /**
     * Prepares a lock. Nothing is sent, and no connection is opened, before the first acquire().
     *
     * @param non-empty-string $resource the name of what is protected: any bytes, not empty, at most 64 KiB.
     *     The key in Redis is the connection's prefix followed by this name.
     * @param float|null $ttl seconds until the lease ends by itself, 0.01 to 31536000 (one year).
     *     Null takes the ini setting redis_lease.ttl. Choose it well above the longest time the work should take.
     * @param bool $autoRenew renew the lease at a third of its TTL, from the grant until release(), detach(), the
     *     end of the request or its loss, but not for longer than the ini setting redis_lease.max_hold. The thread
     *     that does it is started with the first lease, and has a connection of its own. isHeld(), remaining() and
     *     fence() follow it. It renews to $ttl, or to what renew() last asked for if that is more.
     * @param RedisLease\Connection|null $connection null takes the one that the ini setting redis_lease.dsn names
     * @param bool $abortOnLoss throw a LeaseLostException into the running PHP code when the lease is lost, as an
     *     asynchronous signal handler would: in loops, generators, fibers and synchronized(), once. A call
     *     into C (sleep(), a query) ends first; a wait in acquire() ends at once. Needs $autoRenew.
     *
     * @throws ValueError when $resource is empty or too long, $ttl is out of range, NAN or INF, $abortOnLoss is
     *     true and $autoRenew is not, or the setting redis_lease.dsn is needed and cannot be used
     */
    public function __construct(
        string $resource,
        ?float $ttl = null,
        bool $autoRenew = false,
        ?RedisLease\Connection $connection = null,
        bool $abortOnLoss = false,
    ) {
    }

    /**
     * The lock bound to a token that exists already: another process's after detach(), or the one of an
     * OutcomeUnknownException.
     *
     * The new object is not held, and has no fence, until Redis has answered a renew() or acquire() of it.
     *
     * @param non-empty-string $resource as in the constructor
     * @param non-empty-string $token the token that owns the lock: 1 to 255 bytes that do not begin with "reserved:"
     * @param float|null $ttl as in the constructor
     * @param RedisLease\Connection|null $connection as in the constructor
     *
     * @throws ValueError when an argument is out of range, or the setting redis_lease.dsn is needed and cannot be used
     */
    public static function restore(
        string $resource,
        string $token,
        ?float $ttl = null,
        ?RedisLease\Connection $connection = null,
    ): self {
    }

    /**
     * Tries to get the lease, for at most $wait seconds.
     *
     * On a lock that this object holds already, it asks Redis again and extends the lease, with the same
     * token and fence. It does not count: one release() ends it.
     *
     * When it throws, the lock is not held.
     *
     * @param float $wait seconds, 0.0 to 31536000. 0.0 tries once. It is a limit for waiting until another
     *     owner is done, and for trying again while Redis is away. No call takes longer than
     *     $wait + connect_timeout + command_timeout.
     *
     * @return bool true: held. False: another owner held it until the wait ended.
     *
     * @throws ValueError when $wait is out of range, NAN or INF
     * @throws RedisLease\ConnectionException when Redis could not be reached: nothing was executed
     * @throws RedisLease\OutcomeUnknownException when the request was sent, no answer came, and asking again
     *     did not settle it. The lock may or may not exist; it is gone at the latest after its TTL.
     * @throws RedisLease\ServerException when Redis refused
     * @throws RedisLease\LeaseLostException when the lease was granted so late that it could not be relied on
     *     any more; it was given back
     * @throws RedisLease\LeaseException when the thread for automatic renewal could not be started
     *
     * @phpstan-impure
     */
    public function acquire(float $wait = 0.0): bool
    {
    }

    /**
     * Extends the lease, if the token still owns it. Never creates a key, never touches another owner's.
     *
     * It only ever extends: where Redis would keep the lease longer than the new TTL, that stays.
     *
     * @param float|null $ttl at least so many seconds from now, 0.01 to 31536000. Null takes the object's own TTL.
     *
     * @return bool true: extended. False: lost, the lock is not held.
     *
     * @throws ValueError when $ttl is out of range, NAN or INF
     * @throws RedisLease\ConnectionException when Redis could not be reached. The validity stays as last confirmed.
     * @throws RedisLease\OutcomeUnknownException when no answer came. The validity stays as last confirmed.
     * @throws RedisLease\ServerException when Redis refused. The validity stays as last confirmed.
     *
     * @phpstan-impure
     */
    public function renew(?float $ttl = null): bool
    {
    }

    /**
     * Gives the lease back: deletes the key, if the token still owns it.
     *
     * When it throws, the lock counts as not held. The token is kept: a further release() gives the final
     * answer, and the end of the request tries once more.
     *
     * @return bool true: our key is gone, by us. False: it was lost before, or there was nothing to release.
     *
     * @throws RedisLease\ConnectionException when Redis could not be reached
     * @throws RedisLease\OutcomeUnknownException when no answer came
     * @throws RedisLease\ServerException when Redis refused
     *
     * @phpstan-impure
     */
    public function release(): bool
    {
    }

    /**
     * Runs the callable while holding the lock, and releases it whatever happens. Inside another synchronized()
     * of the same object it leaves the lock to the outer one.
     *
     * An exception of the callable always wins over one of the lock's own. When the callable returned and only the
     * release got no answer, its value is returned: the lease covered the work, and the release is tried
     * again at the end of the request.
     *
     * @template T
     *
     * @param callable(DistributedLock): T $criticalSection called with this lock
     * @param float $wait seconds, as in acquire()
     *
     * @return T what the callable returned
     *
     * @throws ValueError when $wait is out of range, NAN or INF
     * @throws RedisLease\LockTimeoutException when another owner held the lock until the wait ended
     * @throws RedisLease\LeaseLostException when the lease ended before the callable returned; its $result is
     *     what the callable returned
     * @throws RedisLease\ConnectionException as in acquire()
     * @throws RedisLease\OutcomeUnknownException as in acquire()
     * @throws RedisLease\ServerException as in acquire()
     */
    public function synchronized(callable $criticalSection, float $wait = 0.0): mixed
    {
    }

    /**
     * Whether the lease can be relied on now. Answered from the validity, without asking Redis.
     *
     * @return bool false too when this object never held the lock
     *
     * @phpstan-impure
     */
    public function isHeld(): bool
    {
    }

    /**
     * Seconds of validity left: the TTL, less the time since the last confirmed request was sent, less 1 % and
     * 2 ms for clock drift. 0.0 when not held. Answered without asking Redis.
     *
     * @return float 0.0 or more
     *
     * @phpstan-impure
     */
    public function remaining(): float
    {
    }

    /**
     * How the latest lease of this object was lost, as far as it is known here. Does not ask Redis: what release()
     * and renew() answered, and what the automatic renewal found.
     *
     * @return 'expired'|'deleted'|'taken'|'unreachable'|'max_hold'|null null: it was not lost, or nobody knows.
     *     'expired': its validity ended before it was extended. 'deleted': the key was gone before it can have expired.
     *     'taken': another owner has the lock. 'unreachable': the automatic renewal could not reach Redis, or was
     *     refused, until the validity ended. 'max_hold': it was held for redis_lease.max_hold and then not renewed any
     *     more.
     *
     * @phpstan-impure
     */
    public function loss(): ?string
    {
    }

    /**
     * The number of this grant: a later grant of the same resource has a higher one. Null when this object
     * never held the lock.
     *
     * Store it with what you write, and refuse a write whose fence is lower than the stored one: then a worker that
     * paused past its lease cannot overwrite its successor. The number keeps rising when Redis lost its
     * data, as long as the workers' clocks differ by less than the time between the two grants.
     *
     * @return positive-int|null at least the microseconds of the wall clock at the grant, some 1.8e15: store it in 64 bits
     *
     * @phpstan-impure
     */
    public function fence(): ?int
    {
    }

    /**
     * The value that proves ownership in Redis: 32 hexadecimal characters, new for every attempt. Null
     * before the first attempt and after detach().
     *
     * @return non-empty-string|null
     *
     * @phpstan-impure
     */
    public function token(): ?string
    {
    }

    /**
     * The name given to the constructor, without prefix.
     *
     * @return non-empty-string
     */
    public function resource(): string
    {
    }

    /**
     * Lets go of the lease without ending it, for another process to go on with: restore($resource, $token).
     *
     * The object no longer holds, and nothing releases the lease here. It ends by its TTL unless it is taken over.
     *
     * @return non-empty-string|null the token, or null when there is none to hand over
     *
     * @phpstan-impure
     */
    public function detach(): ?string
    {
    }

    /**
     * Asks Redis who owns the lock now.
     *
     * @return non-empty-string|null the owner's token, or null when the lock is free
     *
     * @throws RedisLease\ConnectionException when Redis could not be reached
     * @throws RedisLease\OutcomeUnknownException when no answer came
     * @throws RedisLease\ServerException when Redis refused
     *
     * @phpstan-impure
     */
    public function owner(): ?string
    {
    }

    /**
     * Removes the lock, whoever owns it. An operator's tool: the owner is not asked, and may be at work.
     *
     * @return bool true: a lock was removed. False: it was free.
     *
     * @throws RedisLease\ConnectionException when Redis could not be reached
     * @throws RedisLease\OutcomeUnknownException when no answer came
     * @throws RedisLease\ServerException when Redis refused
     *
     * @phpstan-impure
     */
    public function forceRelease(): bool
    {
    }
}
