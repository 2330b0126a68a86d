<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use RedisLease\Tests\Support\RedisServer;

final class SingleStoreWithPasswordTest extends StoreConformanceTestCase
{
    protected static function startServers(): array
    {
        return [RedisServer::start(tcp: true, password: "p@ss:w/o?r#d %41 \"quoted\" \\ & = + é \x7f")];
    }

    protected static function dsn(): string
    {
        return self::$servers[0]->tcpDsn();
    }
}
