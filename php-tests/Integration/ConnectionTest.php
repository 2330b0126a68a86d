<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use DistributedLock;
use RedisLease\Connection;
use RedisLease\ConnectionException;
use RedisLease\ServerException;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\ServerTestCase;
use Throwable;

use function RedisLease\Tests\Support\eventually;
use function RedisLease\Tests\Support\timed;

/** One socket for the worker's life: made late, kept long, replaced without a word. */
final class ConnectionTest extends ServerTestCase
{
    protected static function startServer(): RedisServer
    {
        return RedisServer::start(tcp: true, password: 'pass word');
    }

    public function testObjectsWithTheSameSettingsShareOneSocket(): void
    {
        $before = $this->clientIds();
        $seen = [];
        for ($i = 0; $i < 5; $i++) {
            $lock = new DistributedLock("order:$i", 5.0, connection: new Connection(self::$server->dsn(), 3.0, 3.0));
            $lock->acquire();
            $seen[] = array_diff($this->clientIds(), $before);
            $lock->release();
        }

        self::assertCount(1, $seen[0]);
        foreach ($seen as $ids) {
            self::assertSame($seen[0], $ids, 'the same client throughout');
        }
        (new Connection(self::$server->dsn(), 3.0, 3.0))->close();
    }

    public function testTheSocketStaysWhenEveryObjectIsGone(): void
    {
        $first = new DistributedLock('order:1', 5.0, connection: new Connection(self::$server->dsn(), 3.1, 3.1));
        $first->acquire();
        $ids = $this->clientIds();
        unset($first);
        gc_collect_cycles();

        (new DistributedLock('order:1', 5.0, connection: new Connection(self::$server->dsn(), 3.1, 3.1)))->acquire();

        self::assertSame($ids, $this->clientIds());
        (new Connection(self::$server->dsn(), 3.1, 3.1))->close();
    }

    public function testDifferentServersUsersAndDatabasesNeverShareASocket(): void
    {
        $before = count($this->clientIds());
        $held = [];
        foreach ([self::$server->dsn(['db' => 1]), self::$server->dsn(['db' => 2]), self::$server->tcpDsn(database: 1)] as $dsn) {
            $held[] = $lock = new DistributedLock('order:1', 5.0, connection: new Connection($dsn, 3.2, 3.2));
            $lock->acquire();
        }

        self::assertSame($before + 3, count($this->clientIds()));
        foreach (array_slice($held, 0, 2) as $lock) {
            self::assertTrue($lock->isHeld());
        }
    }

    public function testADroppedSocketIsReplacedWithoutTheCallerNoticing(): void
    {
        foreach ([self::$server->dsn(), self::$server->tcpDsn()] as $dsn) {
            $connection = new Connection($dsn, 3.3, 3.3);
            $lock = new DistributedLock('order:1', 30.0, connection: $connection);
            foreach (['acquire', 'renew', 'acquire', 'owner', 'release', 'acquire', 'forceRelease'] as $call) {
                self::$server->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
                self::assertNotEmpty($lock->$call(), "$call over $dsn");
            }
            $connection->close();
        }
    }

    public function testASocketOfARestartedServerIsReplaced(): void
    {
        $server = RedisServer::start();
        $lock = new DistributedLock('order:1', 30.0, connection: new Connection($server->dsn()));
        $lock->acquire();
        $fence = $lock->fence();
        $server->restart(keepData: false);

        self::assertFalse($lock->renew(), 'the data is gone, and the lock with it');
        self::assertTrue($lock->acquire());
        self::assertGreaterThan($fence, $lock->fence());
        $lock->release();
        $server->stop();
    }

    public function testCloseEndsTheSocketButNotTheLocks(): void
    {
        $connection = new Connection(self::$server->dsn(), 3.4, 3.4);
        $lock = new DistributedLock('order:1', 30.0, connection: $connection);
        $before = $this->clientIds();
        $lock->acquire();
        self::assertCount(count($before) + 1, $this->clientIds());

        $connection->close();

        eventually(fn () => $this->clientIds() === $before, 'the server sees the end of the socket');
        self::assertTrue($lock->isHeld());
        self::assertSame($lock->token(), self::stored('order:1'));
        $connection->close();
        self::assertTrue($lock->renew());
        self::assertTrue($lock->release());
    }

    public function testPingGivesTheRoundTripOrTheError(): void
    {
        foreach ([self::$server->dsn(), self::$server->tcpDsn()] as $dsn) {
            $pong = (new Connection($dsn))->ping();
            self::assertCount(1, $pong);
            self::assertIsString(key($pong));
            self::assertIsFloat(current($pong));
            self::assertGreaterThan(0.0, current($pong));
            self::assertLessThan(0.5, current($pong));
            self::assertStringNotContainsString('pass', key($pong));
        }
        self::assertSame('127.0.0.1:' . self::$server->port(), key($pong));

        $server = RedisServer::start();
        $connection = new Connection($server->dsn(), 0.1, 0.1);
        $server->pause();
        [$pong, $seconds] = timed(static fn () => $connection->ping());
        self::assertIsString(current($pong), 'it hangs');
        self::assertLessThan(0.6, $seconds);
        $server->resume();
        $server->kill();
        $pong = $connection->ping();
        self::assertIsString(current($pong), 'it is gone');
        self::assertNotSame('', current($pong));
        $server->stop();
    }

    public function testAWrongPasswordIsTheServersRefusal(): void
    {
        $address = '127.0.0.1:' . self::$server->port();
        $socket = 'unix://' . self::$server->socket();
        $refused = [
            "redis://:hunter2@$address" => 'WRONGPASS', "redis://nobody:hunter2@$address" => 'WRONGPASS',
            "$socket?pass=hunter2" => 'WRONGPASS', $socket => 'NOAUTH', "redis://$address" => 'NOAUTH',
        ];
        foreach ($refused as $dsn => $code) {
            $lock = new DistributedLock('order:1', 5.0, connection: new Connection($dsn));
            foreach (['acquire', 'owner', 'forceRelease'] as $call) {
                $caught = self::caught(static fn () => $lock->$call());
                self::assertInstanceOf(ServerException::class, $caught, "$call with $dsn");
                self::assertSame($code, $caught->redisCode, "$call with $dsn");
                self::assertStringNotContainsString('hunter2', (string) $caught);
            }
            $pong = (new Connection($dsn))->ping();
            self::assertStringContainsString($code, current($pong), $dsn);
        }
    }

    public function testADatabaseThatIsNotThereIsTheServersRefusal(): void
    {
        $lock = new DistributedLock('order:1', 5.0, connection: new Connection(self::$server->dsn(['db' => 999])));
        $caught = self::caught(static fn () => $lock->acquire());

        self::assertInstanceOf(ServerException::class, $caught);
        self::assertFalse($lock->isHeld());
        self::assertSame([], self::$server->command('KEYS', '*'));
    }

    public function testEveryPasswordWorksWhenItIsPercentEncoded(): void
    {
        $passwords = [
            implode('', array_map(chr(...), range(33, 126))), 'with space', 'пароль', '+', '%41', 'a&b=c;d', '://@/?#',
        ];
        foreach ($passwords as $password) {
            self::$server->command('CONFIG', 'SET', 'requirepass', $password);
            try {
                $encoded = implode('', array_map(static fn ($byte) => sprintf('%%%02x', ord($byte)), str_split($password)));
                foreach ([rawurlencode($password), $encoded] as $written) {
                    $tcp = new Connection('redis://:' . $written . '@127.0.0.1:' . self::$server->port());
                    self::assertIsFloat(current($tcp->ping()), "$password over TCP");
                    $unix = new Connection('unix://' . self::$server->socket() . '?pass=' . $written);
                    self::assertIsFloat(current($unix->ping()), "$password over the socket");
                    $tcp->close();
                    $unix->close();
                }
            } finally {
                self::$server->command('CONFIG', 'SET', 'requirepass', 'pass word');
            }
        }
    }

    public function testAPasswordIsNeverChangedSilently(): void
    {
        // Bytes that are not UTF-8, and a plus, which forms turn into a space: to be taken as written or refused.
        foreach (['%ff%fe' => "\xff\xfe", 'a+b' => 'a+b'] as $written => $password) {
            self::$server->command('CONFIG', 'SET', 'requirepass', $password);
            try {
                $dsns = [
                    "redis://:$written@127.0.0.1:" . self::$server->port(),
                    'unix://' . self::$server->socket() . "?pass=$written",
                ];
                foreach ($dsns as $dsn) {
                    $outcome = null;
                    $caught = self::caught(static function () use ($dsn, &$outcome): void {
                        $outcome = current((new Connection($dsn))->ping());
                    });
                    self::assertTrue(
                        is_float($outcome) || $caught instanceof \ValueError,
                        "$written: " . var_export($outcome, true),
                    );
                }
            } finally {
                self::$server->command('CONFIG', 'SET', 'requirepass', 'pass word');
            }
        }
    }

    public function testADeadServerCostsNoMoreThanTheTimeouts(): void
    {
        $server = RedisServer::start(tcp: true);
        $server->pause();
        foreach ([$server->dsn(), $server->tcpDsn()] as $dsn) {
            $lock = new DistributedLock('order:1', 5.0, connection: new Connection($dsn, 0.15, 0.15));
            foreach (['acquire', 'owner', 'forceRelease'] as $call) {
                [$caught, $seconds] = timed(static fn () => self::caught(static fn () => $lock->$call()));
                self::assertNotNull($caught, "$call over $dsn");
                self::assertLessThan(0.15 + 0.15 + 0.1, $seconds, "$call over $dsn");
            }
        }
        $server->resume();
        $server->kill();
        foreach ([$server->dsn(), $server->tcpDsn()] as $dsn) {
            $lock = new DistributedLock('order:1', 5.0, connection: new Connection($dsn, 1.0, 1.0));
            [$caught, $seconds] = timed(static fn () => self::caught(static fn () => $lock->acquire()));
            self::assertInstanceOf(ConnectionException::class, $caught, $dsn);
            self::assertLessThan(0.5, $seconds, "$dsn: a refusal needs no time-out");
        }
        $server->stop();
    }

    public function testWhileRedisIsDownAWaitTriesAgainUntilItIsBack(): void
    {
        $server = RedisServer::start();
        $server->kill();
        $lock = new DistributedLock('order:1', 5.0, connection: new Connection($server->dsn(), 0.2, 0.2));
        [$caught, $seconds] = timed(static fn () => self::caught(static fn () => $lock->acquire(0.3)));
        self::assertInstanceOf(ConnectionException::class, $caught);
        self::assertGreaterThanOrEqual(0.29, $seconds);
        self::assertLessThan(0.3 + 0.4 + 0.1, $seconds);

        $worker = self::worker(<<<'PHP'
            $lock = new DistributedLock('order:1', 5.0, connection: new Connection($args['down'], 0.2, 0.2));
            say('trying');
            say($lock->acquire(20.0));
            PHP, ['down' => $server->dsn()]);
        $worker->hear();
        $server->restart(keepData: false);
        self::assertTrue($worker->hear());
        $worker->finish();
        $server->stop();
    }

    /** @return list<string> the ids of the server's clients, without the test's own */
    private function clientIds(): array
    {
        $own = self::$server->command('CLIENT', 'ID');
        preg_match_all('/^id=(\d+)/m', self::$server->command('CLIENT', 'LIST', 'TYPE', 'normal'), $found);

        return array_values(array_diff($found[1], [(string) $own]));
    }

    private static function caught(callable $action): ?Throwable
    {
        try {
            $action();
        } catch (Throwable $caught) {
            return $caught;
        }

        return null;
    }
}
