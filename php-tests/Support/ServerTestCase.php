<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

use DistributedLock;
use PHPUnit\Framework\TestCase;
use RedisLease\Connection;

/** A test class with one private server for all of its tests, emptied before each. */
abstract class ServerTestCase extends TestCase
{
    protected static RedisServer $server;

    public static function setUpBeforeClass(): void
    {
        self::$server = static::startServer();
    }

    public static function tearDownAfterClass(): void
    {
        self::$server->stop();
    }

    protected static function startServer(): RedisServer
    {
        return RedisServer::start();
    }

    protected function setUp(): void
    {
        self::$server->flush();
    }

    protected function connection(): Connection
    {
        return new Connection(self::$server->dsn(), 5.0, 5.0);
    }

    protected function lock(string $resource, float $ttl = 30.0): DistributedLock
    {
        return new DistributedLock($resource, $ttl, connection: $this->connection());
    }

    protected function heldLock(string $resource, float $ttl = 30.0): DistributedLock
    {
        $lock = $this->lock($resource, $ttl);
        self::assertTrue($lock->acquire(), 'the lock should have been free');

        return $lock;
    }

    /** What Redis has under the lock's key. */
    protected static function stored(string $resource): ?string
    {
        return self::$server->command('GET', "lock:$resource");
    }

    /**
     * A worker whose snippet finds $dsn and $connection, and $args beside them.
     *
     * @param array<string, mixed> $args
     * @param array<string, string> $ini
     */
    protected static function worker(string $snippet, array $args = [], array $ini = []): Worker
    {
        $prepare = "\$dsn = \$args['dsn'];\n\$connection = new Connection(\$dsn, 5.0, 5.0);\n";

        return Worker::start($prepare . $snippet, $args + ['dsn' => self::$server->dsn()], $ini);
    }
}
