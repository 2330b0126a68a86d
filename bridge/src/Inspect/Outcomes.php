<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Inspect;

use Error;
use RedisLease\Metrics;

/**
 * How acquisitions end, per second, between two looks at the counters of RedisLease\Metrics.
 *
 * The counters are one host's, and shared by the processes that come from one parent. A console command is not one of
 * FPM's: to see FPM's it reads the page from which Prometheus does.
 *
 * @internal
 */
final class Outcomes
{
    private const COUNTERS = ['acquires' => 'outcome', 'prefix_contention' => 'prefix'];

    /** @var array<string, array<string, float>>|null */
    private ?array $before = null;
    private float $since = 0.0;

    /**
     * @param string|null $page a URL or file with Prometheus's text; null takes this process's own counters. The
     *     environment variable METRICS_TOKEN is sent along.
     */
    public function __construct(private readonly ?string $page)
    {
    }

    /**
     * @return array<string, array<string, float>>|null counter to label to its rate per second since the last call, of
     *     those that are not zero; null where nothing is counted, or at the first call
     */
    public function rates(): ?array
    {
        [$before, $seconds] = [$this->before, self::now() - $this->since];
        [$this->before, $this->since] = [$this->page === null ? self::own() : self::read($this->page), self::now()];
        if ($before === null || $this->before === null) {
            return null;
        }
        $rates = [];
        foreach ($this->before as $counter => $values) {
            foreach ($values as $label => $value) {
                // Lower than before: a worker was started anew, or the counters were reset.
                $rate = max(0.0, $value - ($before[$counter][$label] ?? 0.0)) / max($seconds, 0.001);
                if ($rate > 0.0) {
                    $rates[$counter][$label] = $rate;
                }
            }
        }
        foreach ($rates as &$values) {
            arsort($values);
        }

        return $rates;
    }

    /** Why there are no rates, in words for an operator; null when there are. */
    public function trouble(): ?string
    {
        return $this->before !== null || $this->page === null ? null : "{$this->page} cannot be read, or is no page of metrics.";
    }

    /** @return array<string, array<string, float>>|null */
    private static function own(): ?array
    {
        if (!class_exists(Metrics::class)) {
            return null;
        }
        try {
            $all = Metrics::snapshot();
        } catch (Error) {
            return null;    // switched off
        }

        return array_map(
            static fn (array $values): array => array_map(floatval(...), $values),
            array_intersect_key($all, self::COUNTERS),
        );
    }

    /** @return array<string, array<string, float>>|null */
    private static function read(string $page): ?array
    {
        $http = ['timeout' => 2.0];
        // As examples/metrics.php demands it; a redirection must not carry it elsewhere.
        if (is_string($token = getenv('METRICS_TOKEN'))) {
            $http += ['header' => "Authorization: Bearer $token", 'follow_location' => 0];
        }
        $context = stream_context_create(['http' => $http]);
        $text = @file_get_contents($page, false, $context);
        if ($text === false || !str_contains($text, 'redis_lease_')) {
            return null;
        }
        $all = [];
        foreach (self::COUNTERS as $counter => $label) {
            preg_match_all(
                "/^redis_lease_{$counter}_total\\{(?:[^}]*,)?$label=\"((?:[^\"\\\\]|\\\\.)*)\"[^}]*\\} (\\S+)/m",
                $text,
                $found,
                PREG_SET_ORDER,
            );
            foreach ($found as [, $name, $value]) {
                $name = stripcslashes($name);
                $all[$counter][$name] = ($all[$counter][$name] ?? 0.0) + (float) $value;
            }
        }

        return $all;
    }

    private static function now(): float
    {
        return hrtime(true) / 1e9;
    }
}
