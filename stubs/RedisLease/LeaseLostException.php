<?php

namespace RedisLease;

/**
 * The lease ended under the critical section of DistributedLock::synchronized(), or under the code of a lock
 * made with abortOnLoss: another owner may have been at work at the same time.
 */
class LeaseLostException extends LeaseException
{
    /** What the critical section returned; null when it was stopped. */
    public mixed $result = null;

    /**
     * How it was lost: see DistributedLock::loss(). Null where that is not known.
     *
     * @var 'expired'|'deleted'|'taken'|'unreachable'|'max_hold'|null
     */
    public ?string $loss = null;
}
