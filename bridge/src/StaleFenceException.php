<?php

declare(strict_types=1);

namespace RedisLease\Bridge;

use RedisLease\LeaseException;

/**
 * A late write, refused: what it would have overwritten was written under a higher fence. The lease that the fence
 * came with is over, and another owner has been at work since.
 *
 * Nothing was written. Trying again with the same fence cannot help: stop, or acquire the lock anew, read what is
 * stored now and begin again.
 */
final class StaleFenceException extends LeaseException
{
    /**
     * @param string|null $table the table, as the guard was given it; null for a key in Redis
     * @param int|string|array<string, int|string> $key the row's key as it was given, or the name in Redis
     * @param int $fence the fence of the refused write
     * @param int $storedFence the fence that is stored, as it was seen right after the refusal; higher than $fence
     */
    public function __construct(
        public readonly ?string $table,
        public readonly int|string|array $key,
        public readonly int $fence,
        public readonly int $storedFence,
    ) {
        parent::__construct(sprintf(
            '%s: fence %d is stale, fence %d has written since',
            $table === null ? "key $key" : "table $table, row " . self::shown($key),
            $fence,
            $storedFence,
        ));
    }

    /** @param int|string|array<string, int|string> $key */
    private static function shown(int|string|array $key): string
    {
        if (!is_array($key)) {
            return (string) $key;
        }
        $parts = array_map(
            static fn (string $column, int|string $value): string => "$column = $value",
            array_keys($key),
            $key,
        );

        return implode(', ', $parts);
    }
}
