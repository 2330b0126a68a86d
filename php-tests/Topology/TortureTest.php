<?php

declare(strict_types=1);

namespace RedisLease\Tests\Topology;

use PHPUnit\Framework\TestCase;
use RedisLease\Tests\torture\Checker;
use RedisLease\Tests\torture\ClusterFailovers;
use RedisLease\Tests\torture\Run;
use RedisLease\Tests\torture\SentinelFailovers;

/**
 * The torture run on servers that replace one another: primaries are killed and hang, one after the other. What such a
 * failover can lose excuses a second owner, and nothing else does. The environment may set SEED and TORTURE_SECONDS.
 */
final class TortureTest extends TestCase
{
    private const SECONDS = 5;

    public function testSentinelUnderTortureKeepsEveryPromise(): void
    {
        $this->torture('SENTINEL', SentinelFailovers::class);
    }

    public function testAClusterUnderTortureKeepsEveryPromise(): void
    {
        $this->torture('CLUSTER', ClusterFailovers::class);
    }

    private function torture(string $what, string $group): void
    {
        if (!function_exists('pcntl_fork')) {
            self::markTestSkipped('PHP was built without pcntl');
        }
        $seed = (int) (getenv('SEED') ?: random_int(1, 999_999));
        $seconds = (float) (getenv('TORTURE_SECONDS') ?: self::SECONDS);
        fwrite(STDERR, "\ntorture: SEED=$seed, $what=1, $seconds s\n");
        $run = new Run($seed, $seconds, group: static fn ($random, $events) => new $group($random, $events));
        $events = $run->history();
        $file = getenv('HISTORY');
        if ($file !== false) {
            file_put_contents($file, implode("\n", array_map(json_encode(...), $events)) . "\n");
        }
        $checker = new Checker($events);
        $failovers = count(array_filter($events, static fn (array $event) => $event['e'] === 'lost data'));
        foreach (['failovers' => $failovers] + $checker->counts() as $name => $count) {
            fwrite(STDERR, sprintf("%8d  %s\n", $count, $name));
        }

        self::assertSame([], $checker->violations(), "SEED=$seed $what=1");
        self::assertGreaterThan($seconds * 3, $checker->counts()['grants'], 'there was something to check');
        self::assertGreaterThan(0, $failovers);
    }
}
