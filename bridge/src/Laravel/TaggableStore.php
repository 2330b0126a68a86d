<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Laravel;

use Illuminate\Cache\Repository;
use Illuminate\Contracts\Cache\Store;

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
        $tagged = $this->values->tags(is_array($names) ? $names : func_get_args());
        if ($tagged instanceof Repository) {
            // Its locks are leases too: those of the store it was made with would not exclude them. Laravel 8 has no
            // setStore().
            (function (Store $store): void {
                $this->store = $store;
            })->call($tagged, $this);
        }

        return $tagged;
    }
}
