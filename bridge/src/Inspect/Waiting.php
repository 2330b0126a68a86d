<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Inspect;

/**
 * Finds in the answer of CLIENT LIST who waits for a lock. Redis does not tell for which.
 *
 * @internal
 */
final class Waiting
{
    public static function count(string $clients): int
    {
        $count = 0;
        foreach (explode("\n", $clients) as $client) {
            // The extension names its connections; the flag b is for blocked.
            $count += preg_match('/ name=redis_lease-\S* .* flags=[A-Za-z]*b/', $client);
        }

        return $count;
    }
}
