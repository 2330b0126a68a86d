<?php

namespace RedisLease;

/**
 * The command was sent, its answer did not come, and asking again did not settle it in time.
 *
 * After acquire(): the lock may exist in Redis under $token. Neither go on as if it were held nor as if it
 * were free. DistributedLock::restore($resource, $token) can ask again with acquire() or renew(), or give it
 * back with release(). Otherwise it ends by its TTL.
 */
class OutcomeUnknownException extends LeaseException
{
    /**
     * The token of the attempt.
     *
     * @var non-empty-string|null
     */
    public ?string $token = null;

    /**
     * The fence last confirmed for this token, null where none was.
     *
     * @var positive-int|null
     */
    public ?int $fence = null;
}
