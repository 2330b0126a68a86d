<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Laravel;

/**
 * Over a store of values without tags.
 *
 * @internal
 */
final class UntaggedStore extends LeaseCacheStore
{
}
