<?php

declare(strict_types=1);

namespace RedisLease\Tests\Topology;

use RedisLease\Tests\torture\ClusterFailovers;
use RedisLease\Tests\torture\Run;
use RedisLease\Tests\torture\SentinelFailovers;
use RedisLease\Tests\torture\TortureTestCase;

/**
 * The torture run on servers that replace one another: primaries are killed and hang, one after the other. What such a
 * failover can lose excuses a second owner, and nothing else does.
 */
final class TortureTest extends TortureTestCase
{
    public function testSentinelUnderTortureKeepsEveryPromise(): void
    {
        $this->throughFailovers('SENTINEL=1', SentinelFailovers::class);
    }

    public function testAClusterUnderTortureKeepsEveryPromise(): void
    {
        $this->throughFailovers('CLUSTER=1', ClusterFailovers::class);
    }

    private function throughFailovers(string $how, string $group): void
    {
        $make = static fn ($random, $events) => new $group($random, $events);
        $run = static fn (int $seed, float $seconds) => new Run($seed, $seconds, group: $make);
        [$seconds, $counts] = self::torture(5, $run, $how);

        self::assertGreaterThan($seconds * 3, $counts['grants'], 'there was something to check');
        // Each failover is noted as one.
        self::assertGreaterThan(0, $counts['losses of data']);
    }
}
