<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use RedisLease\Connection;
use RedisLease\Tests\Support\RedisServer;

final class SingleStoreInAnotherDatabaseTest extends StoreConformanceTestCase
{
    protected static function startServers(): array
    {
        return [RedisServer::start(tcp: true)];
    }

    protected static function database(): int
    {
        return 7;
    }

    protected static function dsn(): string
    {
        return self::$servers[0]->tcpDsn(database: 7);
    }

    public function testDatabasesAreSeparateOverTcpAndUnixSocketAlike(): void
    {
        $server = self::$servers[0];
        $held = [];
        foreach ([0, 3, 7] as $database) {
            foreach ([$server->tcpDsn(database: $database), $server->dsn(['db' => $database])] as $way => $dsn) {
                $lock = new \DistributedLock("same name $way", 5.0, connection: new Connection($dsn));
                self::assertTrue($lock->acquire(), "database $database of $dsn");
                self::assertSame($lock->token(), $server->connect($database)->command('GET', "lock:same name $way"));
                $held[] = $lock;
            }
        }
        foreach ($held as $lock) {
            self::assertTrue($lock->release());
        }
    }
}
