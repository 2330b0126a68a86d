<?php

declare(strict_types=1);

namespace RedisLease\Tests\Docs\Mishaps;

use DistributedLock;
use PHPUnit\Framework\AssertionFailedError;
use RedisLease\Connection;
use Throwable;

use function RedisLease\Tests\Support\eventually;

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

    /** What acquire() says to servers that do not give the lock. Only to those that say nothing it is short. */
    public static function ofAcquire(string $dsn, float $connectTimeout = 10.0, float $commandTimeout = 10.0): string
    {
        $connection = new Connection($dsn, $connectTimeout, $commandTimeout);
        try {
            return self::by(static fn () => self::lock($connection)->acquire());
        } finally {
            $connection->close();
        }
    }

    /**
     * What the action says of a server that answers at once, which a slow machine can be too late to hear.
     *
     * @param callable(): string $action
     */
    public static function inTime(callable $action): string
    {
        $attempt = static fn () => str_contains($said = $action(), 'time-out') ? '' : $said;

        return eventually($attempt, 'it is heard in time', 60.0);
    }

    /** A connection that is open: what happens to its next command happens after the log-in. */
    public static function opened(string $dsn, float $timeout): Connection
    {
        $connection = new Connection($dsn, $timeout, $timeout);
        $isOpen = static fn () => array_filter($connection->ping(), is_string(...)) === [];
        eventually($isOpen, "a connection to $dsn", 30.0);

        return $connection;
    }

    public static function lock(Connection $connection, float $ttl = 30.0): DistributedLock
    {
        return new DistributedLock('order:42', $ttl, connection: $connection);
    }
}
