<?php

namespace RedisLease;

/**
 * Anything that went wrong with a lease, other than a bad argument. Not thrown itself, only its children.
 *
 * "Somebody else holds it" is no exception: acquire() answers false.
 */
class LeaseException extends \RuntimeException
{
    /** The name of the resource, without prefix. Null where no lock was concerned. */
    public ?string $resource = null;
}
