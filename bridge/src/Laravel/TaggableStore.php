<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Laravel;

/**
 * Over a store of values with tags.
 *
 * @internal
 */
final class TaggableStore extends LeaseCacheStore
{
    /** @param list<string>|string $names */
    public function tags($names): mixed
    {
        return $this->values->tags(is_array($names) ? $names : func_get_args());
    }
}
