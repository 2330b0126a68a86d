<?php

declare(strict_types=1);

namespace RedisLease\Tests\Quorum;

use DistributedLock;
use PHPUnit\Framework\TestCase;
use RedisLease\Connection;
use RedisLease\LeaseException;
use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\Proc;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\Worker;

use function RedisLease\Tests\Support\eventually;

/**
 * Independent servers that are started once for a class, and mended, set right and emptied before each test. They are looked at
 * behind the extension's back.
 */
abstract class QuorumTestCase extends TestCase
{
    protected const NODES = 3;
    protected const CONNECT = 0.3;
    protected const COMMAND = 0.3;
    /** A noisy machine's part of any limit. */
    protected const NOISE = 0.15;

    /** @var list<RedisServer> */
    protected static array $servers = [];
    /** @var list<Connection> */
    private array $connections = [];
    /** @var list<FaultProxy> */
    private array $proxies = [];

    public static function setUpBeforeClass(): void
    {
        self::$servers = array_map(static fn () => RedisServer::start(tcp: true), range(1, static::NODES));
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
        self::mend();
        foreach (self::$servers as $server) {
            $server->command('ACL', 'SETUSER', 'default', '+@all');
            $server->command('CONFIG', 'SET', 'maxmemory', 0);
            $server->command('REPLICAOF', 'NO', 'ONE');
            $server->flush();
        }
    }

    protected function tearDown(): void
    {
        foreach ($this->connections as $connection) {
            $connection->close();
        }
        foreach ($this->proxies as $proxy) {
            $proxy->stop();
        }
        $this->connections = $this->proxies = [];
    }

    /** Every server runs again: one that was killed has lost its data. */
    protected static function mend(): void
    {
        foreach (self::$servers as $server) {
            $server->isRunning() ? $server->resume() : $server->restart(keepData: false);
        }
    }

    protected static function dsn(string $option = ''): string
    {
        return implode(' ', array_map(static fn (RedisServer $server) => $server->dsn(), self::$servers)) . $option;
    }

    protected static function tcpDsn(string $option = ''): string
    {
        return implode(' ', array_map(static fn (RedisServer $server) => $server->tcpDsn(), self::$servers)) . $option;
    }

    /**
     * A proxy before each of these nodes.
     *
     * @return array<int, FaultProxy> by the node's place
     */
    protected function proxies(int ...$places): array
    {
        $proxies = [];
        foreach ($places as $place) {
            $this->proxies[] = $proxies[$place] = FaultProxy::start(self::$servers[$place]);
        }

        return $proxies;
    }

    /** @param array<int, FaultProxy> $proxies by the place of the node that is reached through it */
    protected static function dsnThrough(array $proxies): string
    {
        $name = static fn (int $place) => ($proxies[$place] ?? null)?->dsn() ?? self::$servers[$place]->dsn();

        return implode(' ', array_map($name, array_keys(self::$servers)));
    }

    protected function connection(?string $dsn = null, float $connect = self::CONNECT, float $command = self::COMMAND): Connection
    {
        return $this->connections[] = new Connection($dsn ?? self::dsn(), $connect, $command);
    }

    protected function lock(string $resource = 'order:1', float $ttl = 30.0, ?Connection $connection = null): DistributedLock
    {
        return new DistributedLock($resource, $ttl, connection: $connection ?? $this->connection());
    }

    /** Every node has been connected to and has answered all that it was asked. */
    protected static function settle(Connection $connection): void
    {
        foreach ($connection->ping() as $node => $answer) {
            self::assertIsFloat($answer, "$node: $answer");
        }
    }

    /** Every node is back, and has answered all that it had been asked. */
    protected static function drain(Connection $connection): void
    {
        eventually(static fn () => array_filter($connection->ping(), is_string(...)) === [], 'all nodes answer', 3.0);
    }

    /** A connection of which every node has answered already. */
    protected function warm(?string $dsn = null, float $connect = self::CONNECT, float $command = self::COMMAND): Connection
    {
        $connection = $this->connection($dsn, $connect, $command);
        self::settle($connection);

        return $connection;
    }

    /** Another program takes the lock on these nodes. */
    protected static function takeElsewhere(array $places, string $resource = 'order:1', string $token = 'somebody-else'): void
    {
        foreach ($places as $place) {
            self::$servers[$place]->command('SET', "lock:$resource", $token, 'PX', 30_000);
        }
    }

    /** @return list<string|null> what each node has under the lock's key */
    protected static function copies(string $resource = 'order:1'): array
    {
        return array_map(static fn (RedisServer $server) => $server->command('GET', "lock:$resource"), self::$servers);
    }

    /**
     * @param list<int>|null $places of the nodes to ask; null: all
     * @return array<int, int|null> the fence that each node remembers, by its place
     */
    protected static function fences(?array $places = null, string $resource = 'order:1'): array
    {
        $fences = [];
        foreach ($places ?? array_keys(self::$servers) as $place) {
            $stored = self::$servers[$place]->command('GET', "lock~{lock:$resource}:fence");
            $fences[$place] = $stored === null ? null : (int) substr($stored, 0, 16);
        }

        return $fences;
    }

    protected static function setFence(int $place, int $fence, string $resource = 'order:1', string $token = 'earlier'): void
    {
        $key = "lock~{lock:$resource}:fence";
        self::$servers[$place]->command('SET', $key, sprintf('%016d:%s', $fence, $token), 'PX', 300_000);
    }

    /** @return array<string, int> every key of the node, and its PTTL at one moment */
    protected static function keys(int $place): array
    {
        $script = "local all = {} for _, key in ipairs(redis.call('KEYS', '*')) do
            table.insert(all, key) table.insert(all, redis.call('PTTL', key)) end return all";

        return array_column(array_chunk(self::$servers[$place]->command('EVAL', $script, 0), 2), 1, 0);
    }

    /** On no node is anything but fences and marks, which end by themselves; now, or once late commands are through. */
    protected static function assertNothingHeldAnywhere(string $message = ''): void
    {
        foreach (array_keys(self::$servers) as $place) {
            $held = static fn () => preg_grep('/:(fence|waiter|mark:[0-9a-f]{32})$/', array_keys(self::keys($place)), PREG_GREP_INVERT);
            eventually(static fn () => $held() === [], "$message: node $place holds nothing", 3.0);
            self::assertSame([], array_keys(self::keys($place), -1, true), "$message: keys without a TTL on node $place");
        }
    }

    /** What the call threw, and the seconds that it took of its own. */
    protected static function thrown(callable $call): array
    {
        return Proc::timed(static function () use ($call): ?LeaseException {
            try {
                $call();
            } catch (LeaseException $thrown) {
                return $thrown;
            }

            return null;
        });
    }

    /**
     * A worker whose snippet finds $dsn, $connection and $lock.
     *
     * @param array<string, mixed> $args dsn, resource, ttl and what else the snippet needs
     */
    protected static function worker(string $snippet, array $args = [], array $ini = []): Worker
    {
        $prepare = <<<'PHP'
            $dsn = $args['dsn'];
            $connection = new Connection($dsn, $args['connect'], $args['command']);
            $lock = new DistributedLock($args['resource'], $args['ttl'], connection: $connection);

            PHP;
        $args += [
            'dsn' => self::dsn(), 'resource' => 'order:1', 'ttl' => 30.0, 'connect' => self::CONNECT, 'command' => self::COMMAND,
        ];

        return Worker::start($prepare . $snippet, $args, $ini);
    }

    /** @param list<float> $values */
    protected static function median(array $values): float
    {
        sort($values);

        return $values[intdiv(count($values), 2)];
    }
}
