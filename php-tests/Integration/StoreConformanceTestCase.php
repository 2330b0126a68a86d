<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use DistributedLock;
use PHPUnit\Framework\TestCase;
use RedisLease\Connection;
use RedisLease\Tests\Support\RedisServer;

/**
 * What a caller may demand of every store, whether it is one server, several independent ones, or
 * servers behind Sentinel or Cluster. A store's test class says how to start it and how to reach it;
 * the demands are the traits. The servers are looked at behind the extension's back, so that it
 * cannot vouch for itself.
 */
abstract class StoreConformanceTestCase extends TestCase
{
    use Conformance\Ownership;
    use Conformance\Renewal;
    use Conformance\Validity;
    use Conformance\Fencing;
    use Conformance\HandOff;
    use Conformance\CriticalSections;
    use Conformance\Names;
    use Conformance\Waiting;

    protected const PREFIX = 'lock:';

    private static int $resources = 0;

    /**
     * Starts the store, once for the class.
     *
     * @return list<RedisServer> every server that can hold a lock
     */
    abstract protected static function startServers(): array;

    /** How a caller names the store. */
    abstract protected static function dsn(): string;

    /** @var list<RedisServer> */
    protected static array $servers = [];

    public static function setUpBeforeClass(): void
    {
        self::$servers = static::startServers();
    }

    public static function tearDownAfterClass(): void
    {
        foreach (self::$servers as $server) {
            $server->stop();
        }
        self::$servers = [];
    }

    protected function setUp(): void
    {
        $this->loseAllData();
    }

    /** Waits until the servers have done all that this process asked of them, where a call does not. */
    protected function settle(): void
    {
    }

    /** The database of the servers in which the store keeps its locks. */
    protected static function database(): int
    {
        return 0;
    }

    /**
     * The servers that keep a copy of this key.
     *
     * @return list<RedisServer>
     */
    protected function serversOf(string $key): array
    {
        return self::$servers;
    }

    protected function connection(?string $prefix = null): Connection
    {
        // Generous time-outs: no demand here is about a slow server, and the machine may be busy.
        return new Connection(static::dsn(), 5.0, 5.0, $prefix);
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

    /** A name no other test has used. */
    protected function resource(): string
    {
        return 'order:' . ++self::$resources;
    }

    protected function loseAllData(): void
    {
        foreach (self::$servers as $server) {
            $server->flush();
        }
    }

    /** @return list<string|null> what each server has as the lock's value */
    protected function storedValues(string $resource): array
    {
        return $this->onEachServer('GET', static::PREFIX . $resource);
    }

    /** @return list<int> the milliseconds the lock has left on each server, as PTTL says it */
    protected function storedTtls(string $resource): array
    {
        return $this->onEachServer('PTTL', static::PREFIX . $resource);
    }

    protected function isStored(string $resource): bool
    {
        return array_filter($this->storedValues($resource), is_string(...)) !== [];
    }

    /** The lock's key vanishes, as by an operator's DEL or an eviction. */
    protected function removeKey(string $resource): void
    {
        $this->onEachServer('DEL', static::PREFIX . $resource);
    }

    /** Another program takes the lock, by the convention that all Redis locks share. */
    protected function storeForeign(string $resource, string $token = 'somebody-else', int $milliseconds = 30_000): void
    {
        $this->onEachServer('SET', static::PREFIX . $resource, $token, 'PX', $milliseconds);
    }

    protected function setStoredTtl(string $resource, int $milliseconds): void
    {
        $this->onEachServer('PEXPIRE', static::PREFIX . $resource, $milliseconds);
    }

    /** @return array<string, int> every key of every server with its PTTL */
    protected function allKeys(): array
    {
        $this->settle();
        $keys = [];
        foreach (self::$servers as $server) {
            $client = $server->connect(static::database());
            foreach ($client->command('KEYS', '*') as $key) {
                $ttl = $client->command('PTTL', $key);
                if ($ttl !== -2) {
                    $keys[$key] = $ttl;
                }
            }
            $client->close();
        }

        return $keys;
    }

    protected static function assertOwner(DistributedLock $lock): void
    {
        self::assertTrue($lock->isHeld(), 'the handle should hold its lock');
        self::assertGreaterThan(0.0, $lock->remaining());
        self::assertGreaterThan(0, $lock->fence());
        self::assertSame($lock->token(), $lock->owner(), 'Redis should name the handle as the owner');
    }

    protected static function assertNotOwner(DistributedLock $lock): void
    {
        self::assertFalse($lock->isHeld(), 'the handle should not hold the lock');
        self::assertSame(0.0, $lock->remaining());
    }

    /** @return list<mixed> */
    private function onEachServer(string|int ...$words): array
    {
        $this->settle();
        $replies = [];
        foreach ($this->serversOf((string) $words[1]) as $server) {
            $client = $server->connect(static::database());
            $replies[] = $client->command(...$words);
            $client->close();
        }

        return $replies;
    }
}
