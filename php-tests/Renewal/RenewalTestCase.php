<?php

declare(strict_types=1);

namespace RedisLease\Tests\Renewal;

use RedisLease\Tests\Support\Monitor;
use RedisLease\Tests\Support\MonitorLine;
use RedisLease\Tests\Support\ServerTestCase;
use RedisLease\Tests\Support\Worker;

/**
 * Workers whose leases are renewed by themselves, and what the server saw of it. REDIS_LEASE_THOROUGH=1 takes the
 * numbers that were promised where the ordinary run takes smaller ones.
 */
abstract class RenewalTestCase extends ServerTestCase
{
    /** Seconds that an interrupt may take, and what a machine with busy cores may add where the kernel tells nothing. */
    protected const AT_ONCE = 0.05;

    /** What snippets find beside $connection: $new() makes a lock that renews itself, $now() is a clock of all processes. */
    private const PREPARE = <<<'PHP'
        $new = static fn (string $resource, float $ttl = 1.0, bool $abort = false, ?Connection $on = null): DistributedLock
            => new DistributedLock($resource, $ttl, true, $on ?? $GLOBALS['connection'], $abort);
        $now = static fn (): float => hrtime(true) / 1e9;
        /** Seconds that this process has waited for a processor since this was last asked with true. */
        $delay = static function (bool $anew = false): float {
            static $start = 0.0;
            $waited = (int) explode(' ', @file_get_contents('/proc/self/schedstat') ?: '0 0')[1] / 1e9;
            $since = $waited - $start;
            $start = $anew ? $waited : $start;
            return $since;
        };
        /** Names of this process's threads but the first. */
        $threads = static fn (): array => array_values(array_diff(
            array_map(static fn ($file) => trim((string) @file_get_contents($file)), glob('/proc/self/task/*/comm')),
            [trim(file_get_contents('/proc/self/comm'))],
        ));

        PHP;

    protected static function thorough(int $promised, int $ordinary): int
    {
        return getenv('REDIS_LEASE_THOROUGH') ? $promised : $ordinary;
    }

    /**
     * @param array<string, mixed> $args
     * @param array<string, string> $ini
     */
    protected static function renewing(string $snippet, array $args = [], array $ini = []): Worker
    {
        return self::worker(self::PREPARE . $snippet, $args, $ini);
    }

    protected static function needsPcntl(): void
    {
        if (!function_exists('pcntl_fork')) {
            self::markTestSkipped('PHP was built without pcntl');
        }
    }

    /** Which script a command runs: acquire, renew, release, force_release; null for another command. */
    protected static function script(MonitorLine $line): ?string
    {
        static $names = [];
        if ($names === []) {
            $scripts = dirname(__DIR__, 2) . '/src/store/scripts/';
            $prelude = file_get_contents($scripts . 'free.lua');
            foreach (['acquire', 'renew', 'release', 'force_release'] as $name) {
                $source = file_get_contents("$scripts$name.lua");
                foreach ([$source, $prelude . $source] as $text) {
                    $names[sha1($text)] = $name;
                }
            }
        }

        return match ($line->name()) {
            'EVALSHA' => $names[$line->words[1]] ?? null,
            'EVAL' => $names[sha1($line->words[1])] ?? null,
            default => null,
        };
    }

    /**
     * The scripts that were run, in their order, each with its lock: ['renew', 'order:1'].
     *
     * @return list<array{string, string}>
     */
    protected static function scripts(Monitor $monitor): array
    {
        $found = [];
        foreach ($monitor->commands() as $line) {
            // A script that the server does not know yet is sent again in full: one run.
            if ($line->name() === 'EVALSHA' && ($script = self::script($line)) !== null) {
                $found[] = [$script, substr($line->words[3], strlen('lock:'))];
            }
        }

        return $found;
    }

    protected static function renewals(Monitor $monitor, string $resource = 'order:1'): int
    {
        return count(array_keys(self::scripts($monitor), ['renew', $resource], true));
    }

    /** Asserts that a moment came within so many seconds after another, without those in which there was no CPU. */
    protected static function assertSoon(float $from, float $to, float $noise, string $what, float $limit = self::AT_ONCE): void
    {
        self::assertGreaterThanOrEqual(0.0, $to - $from, "$what: too early");
        self::assertLessThan($limit, $to - $from - $noise, $what);
    }
}
