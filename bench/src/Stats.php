<?php

declare(strict_types=1);

namespace RedisLease\Bench;

final class Stats
{
    /** @param list<float|int> $values */
    public static function median(array $values): float
    {
        return self::quantile($values, 0.5);
    }

    /**
     * Between two values, their weighted mean.
     *
     * @param list<float|int> $values
     */
    public static function quantile(array $values, float $share): float
    {
        sort($values);
        $place = $share * (count($values) - 1);
        $low = (int) $place;
        $high = min($low + 1, count($values) - 1);

        return $values[$low] + ($place - $low) * ($values[$high] - $values[$low]);
    }
}
