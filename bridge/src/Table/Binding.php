<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Table;

use PDO;
use Stringable;
use TypeError;

/**
 * PHP values as PDO binds them: each with its PDO::PARAM_*.
 *
 * @internal
 */
final class Binding
{
    /**
     * @param array<mixed> $values
     *
     * @return list<array{mixed, int}>
     *
     * @throws TypeError when one of them cannot be bound
     */
    public static function of(array $values): array
    {
        $bound = [];
        foreach ($values as $column => $value) {
            $bound[] = match (true) {
                $value === null => [null, PDO::PARAM_NULL],
                is_bool($value) => [$value, PDO::PARAM_BOOL],
                is_int($value) => [$value, PDO::PARAM_INT],
                is_float($value) => [self::float($value), PDO::PARAM_STR],
                is_string($value), $value instanceof Stringable => [(string) $value, PDO::PARAM_STR],
                // Read here, for the statement may have to run again.
                is_resource($value) => [stream_get_contents($value), PDO::PARAM_LOB],
                default => throw new TypeError(
                    "FencedTable: the value for $column must be null, bool, int, float, string or a stream, "
                    . get_debug_type($value) . ' given',
                ),
            };
        }

        return $bound;
    }

    /** PDO knows no floats, and would round them to the ini setting precision, which is less than they have. */
    private static function float(float $value): string
    {
        return is_finite($value) ? json_encode($value) : (string) $value;
    }
}
