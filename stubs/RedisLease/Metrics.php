<?php

namespace RedisLease;

/**
 * What happened to leases, counted since the start: by all workers of one FPM master, or of one command that forks,
 * together. They count in memory made before the fork, without locks; a worker that is killed leaves it in order.
 * Commands that are started one by one count each for itself.
 *
 * Counting can be turned off with redis_lease.metrics=0 in php.ini.
 *
 * No resource's name is told. Which names are too coarse can be seen with the setting redis_lease.metrics_prefixes: up
 * to 32 prefixes, separated by white space; a resource is counted under the longest that its name begins with.
 */
final class Metrics
{
    private function __construct()
    {
    }

    /**
     * The numbers, for programs. Each has the name that prometheus() gives it, less `redis_lease_` and `_total`, and
     * lies below the values of its labels. Time is in seconds. A histogram's buckets count the values up to each bound,
     * the last bound is `+Inf`.
     *
     * @return array{
     *     info: array<string, int>,
     *     metrics_shared: int,
     *     metrics_start_time_seconds: float,
     *     acquires: array{acquired: int, extended: int, contended: int, unavailable: int, unknown: int, refused: int, late: int, interrupted: int, failed: int},
     *     contention: int,
     *     wait_seconds: array{count: int, sum: float, buckets: array<string, int>},
     *     wakeups: array{signal: int, timer: int, spurious: int},
     *     hold_seconds: array{count: int, sum: float, buckets: array<string, int>},
     *     validity_left_ratio: array{count: int, sum: float, buckets: array<string, int>},
     *     releases: array{released: int, lost: int, unavailable: int, unknown: int, refused: int},
     *     renewals: array{caller: array{renewed: int, lost: int, failed: int}, thread: array{renewed: int, lost: int, failed: int}},
     *     renewal_lag_seconds: array{count: int, sum: float, buckets: array<string, int>},
     *     losses: array{expired: int, deleted: int, taken: int, unreachable: int, max_hold: int, unknown: int},
     *     aborts: int,
     *     unknown_outcomes: array{resent: int, reported: int, released: int},
     *     retries: array{unanswered: int, outage: int, split: int},
     *     node_answers: array<string, int>,
     *     node_connects: array<string, int>,
     *     node_reconnects: array<string, int>,
     *     node_errors: array<string, array{resolve: int, connect: int, tls: int, login: int, timeout: int, closed: int, protocol: int, refused: int, no_primary: int}>,
     *     node_votes: array<string, array{granted: int, held: int, refused: int, silent: int, absent: int}>,
     *     prefix_acquires: array<array-key, int>,
     *     prefix_contention: array<array-key, int>,
     *     prefix_wait_seconds: array<array-key, float>,
     *     prefix_hold_seconds: array<array-key, float>,
     *     prefix_losses: array<array-key, int>,
     * }
     *
     * @throws \Error when counting is turned off
     *
     * @phpstan-impure
     */
    public static function snapshot(): array
    {
    }

    /**
     * The numbers as Prometheus reads them: text exposition format 0.0.4, to be served as
     * `text/plain; version=0.0.4; charset=utf-8`.
     *
     * @return non-empty-string
     *
     * @throws \Error when counting is turned off
     *
     * @phpstan-impure
     */
    public static function prometheus(): string
    {
    }

    /**
     * Sets every number to zero, for all workers that count together.
     *
     * @throws \Error when counting is turned off
     */
    public static function reset(): void
    {
    }
}
