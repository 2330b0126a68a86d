<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use RedisLease\Tests\Support\RedisServer;

/** Five independent servers, all of them well. */
final class QuorumOfFiveTest extends StoreConformanceTestCase
{
    protected static function startServers(): array
    {
        return array_map(static fn () => RedisServer::start(), range(1, 5));
    }

    protected static function dsn(): string
    {
        return implode(' ', array_map(static fn (RedisServer $server) => $server->dsn(), self::$servers));
    }
}
