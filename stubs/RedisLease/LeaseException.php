<?php

namespace RedisLease;

/**
 * Anything that went wrong with a lease, other than a bad argument. Thrown itself only when the system gives no
 * random bytes for a token; else one of its children.
 *
 * "Somebody else holds it" is no exception: acquire() answers false.
 */
class LeaseException extends \RuntimeException
{
    /**
     * The name of the resource, without prefix. Null where no lock was concerned.
     *
     * @var non-empty-string|null
     */
    public ?string $resource = null;
}
