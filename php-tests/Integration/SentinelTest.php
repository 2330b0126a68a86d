<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use RedisLease\Tests\Support\Sentinels;

/** A primary that a sentinel names. */
final class SentinelTest extends StoreConformanceTestCase
{
    private static Sentinels $group;

    protected static function startServers(): array
    {
        self::$group = Sentinels::start(sentinels: 1, replicas: 0);

        return self::$group->servers;
    }

    public static function tearDownAfterClass(): void
    {
        self::$group->stop();
        self::$servers = [];
    }

    protected static function dsn(): string
    {
        return self::$group->dsn();
    }
}
