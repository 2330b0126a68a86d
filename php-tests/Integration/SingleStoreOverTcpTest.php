<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use RedisLease\Tests\Support\RedisServer;

final class SingleStoreOverTcpTest extends StoreConformanceTestCase
{
    protected static function startServers(): array
    {
        return [RedisServer::start(tcp: true)];
    }

    protected static function dsn(): string
    {
        return self::$servers[0]->tcpDsn();
    }
}
