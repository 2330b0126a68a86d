<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use RedisLease\Tests\Support\RedisServer;

final class SingleStoreOverUnixSocketTest extends StoreConformanceTestCase
{
    protected static function startServers(): array
    {
        return [RedisServer::start()];
    }

    protected static function dsn(): string
    {
        return self::$servers[0]->dsn();
    }
}
