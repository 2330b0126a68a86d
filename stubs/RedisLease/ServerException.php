<?php

namespace RedisLease;

/**
 * Redis answered, and said no: READONLY, LOADING, OOM, NOAUTH, WRONGPASS, NOPERM, WRONGTYPE and others.
 */
class ServerException extends LeaseException
{
    /** The first word of the server's error, such as "READONLY". */
    public string $redisCode = '';
}
