<?php

namespace RedisLease;

/**
 * DistributedLock::synchronized() could not get the lock: another owner held it until the wait ended.
 */
class LockTimeoutException extends LeaseException
{
}
