<?php

namespace RedisLease;

/**
 * The lease ended under the critical section of DistributedLock::synchronized(): another owner may have been
 * at work at the same time.
 */
class LeaseLostException extends LeaseException
{
    /** What the critical section returned. */
    public mixed $result = null;
}
