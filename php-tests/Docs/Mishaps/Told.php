<?php

declare(strict_types=1);

namespace RedisLease\Tests\Docs\Mishaps;

use DistributedLock;
use PHPUnit\Framework\AssertionFailedError;
use RedisLease\Connection;
use Throwable;

/** What an exception says. */
final class Told
{
    public static function by(callable $action): string
    {
        try {
            $action();
        } catch (Throwable $thrown) {
            return $thrown->getMessage();
        }
        throw new AssertionFailedError('nothing was thrown');
    }

    /** What acquire() says to servers that do not give the lock. */
    public static function ofAcquire(string $dsn, float $connectTimeout = 0.2): string
    {
        $connection = new Connection($dsn, $connectTimeout, 0.2);
        try {
            return self::by(static fn () => self::lock($connection)->acquire());
        } finally {
            $connection->close();
        }
    }

    public static function lock(Connection $connection, float $ttl = 30.0): DistributedLock
    {
        return new DistributedLock('order:42', $ttl, connection: $connection);
    }
}
