<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use RedisLease\Tests\Support\RedisCluster;
use RedisLease\Tests\Support\RedisServer;

/** A cluster of three primaries: the caller knows nothing of slots. */
final class ClusterTest extends StoreConformanceTestCase
{
    private static RedisCluster $cluster;

    protected static function startServers(): array
    {
        self::$cluster = RedisCluster::start();

        return self::$cluster->primaries;
    }

    protected static function dsn(): string
    {
        return self::$cluster->dsn();
    }

    protected function serversOf(string $key): array
    {
        return [self::$cluster->primaryOf($key)];
    }
}
