<?php

namespace RedisLease;

/**
 * Nothing was executed: Redis was unreachable, refused the connection, or took no command in time.
 */
class ConnectionException extends LeaseException
{
}
