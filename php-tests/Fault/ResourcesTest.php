<?php

declare(strict_types=1);

namespace RedisLease\Tests\Fault;

use DistributedLock;
use RedisLease\Connection;
use RedisLease\Tests\Support\BlackHole;
use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\Proc;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\ServerTestCase;

/**
 * A worker lives for weeks: nothing may grow. LEASE_CYCLES=1000000 runs the long form, in which the
 * resident memory may grow by 1 MB; fewer cycles may grow it by less, down to what the kernel's pages allow.
 */
final class ResourcesTest extends ServerTestCase
{
    private const CYCLES = 20_000;
    /** kB: PHP's and the C library's allocators settle within this. */
    private const GRAIN = 128;

    /** What a worker does all day, and not only in its good days. */
    private const LIVES = [
        'acquire and release' => '$lock->acquire(); $lock->release();',
        'everything' => <<<'PHP'
            $each = new DistributedLock("order:$i", 30.0, connection: new Connection($dsn, 5.0, 5.0));
            $each->acquire() && $each->renew() && $each->owner();
            (new DistributedLock("order:$i", 30.0, connection: $connection))->acquire();
            $each->synchronized(static fn ($held) => $held->fence());
            $heir = DistributedLock::restore("order:$i", $lock->acquire() ? $lock->detach() : 'x', 30.0, $connection);
            $heir->release();
            $lock->forceRelease();
            PHP,
        'exceptions' => <<<'PHP'
            try {
                (new DistributedLock('list', 30.0, connection: $connection))->acquire();
            } catch (ServerException $refused) {
            }
            try {
                (new DistributedLock("order:$i", 30.0, connection: $nobody))->acquire();
            } catch (ConnectionException $unavailable) {
            }
            try {
                $lock->synchronized(static fn () => throw new LogicException());
            } catch (LogicException $own) {
            }
            PHP,
        'new connections' => '$connection->close(); $lock->acquire(); $lock->release();',
    ];

    protected static function startServer(): RedisServer
    {
        return RedisServer::start(tcp: true);
    }

    protected function setUp(): void
    {
        parent::setUp();
        if (!is_dir('/proc/self/fd')) {
            self::markTestSkipped('there is no /proc here to measure with');
        }
    }

    public function testMemoryDoesNotGrowWithTheCycles(): void
    {
        $cycles = (int) (getenv('LEASE_CYCLES') ?: self::CYCLES);
        self::$server->command('RPUSH', 'lock:list', 'item');
        foreach (self::LIVES as $life => $code) {
            // Only the first life is lived in full: the others cost several commands a cycle.
            $rounds = $life === 'acquire and release' ? $cycles : intdiv($cycles, 10);
            $worker = self::worker(<<<PHP
                \$nobody = new Connection('unix:///nobody/there', 0.1, 0.1);
                \$lock = new DistributedLock('order', 30.0, connection: \$connection);
                \$run = static function (int \$rounds) use (\$dsn, \$connection, \$nobody, \$lock): void {
                    for (\$i = 0; \$i < \$rounds; \$i++) {
                        $code
                    }
                };
                \$run(hear());
                say('warm');
                \$run(hear());
                say('done');
                hear();
                PHP);
            $worker->say(max(500, intdiv($rounds, 10)));
            self::assertSame('warm', $worker->hear(60.0), $life);
            [$memory, $descriptors] = [Proc::memory($worker->pid()), Proc::descriptors($worker->pid())];
            $worker->say($rounds);
            self::assertSame('done', $worker->hear(1200.0), $life);

            $allowed = max(self::GRAIN, (int) (1024 * $rounds / 1_000_000));
            self::assertLessThan($allowed, Proc::memory($worker->pid()) - $memory, "$life: kB more after $rounds cycles");
            self::assertSame($descriptors, Proc::descriptors($worker->pid()), $life);
            $worker->say();
            $worker->finish();
        }
    }

    public function testDescriptorsDoNotGrowWithTheReconnects(): void
    {
        foreach ([self::$server->dsn(), self::$server->tcpDsn()] as $dsn) {
            $connection = new Connection($dsn, 5.0, 5.0);
            $lock = new DistributedLock('order:1', 30.0, connection: $connection);
            self::assertTrue($lock->acquire());
            self::$server->command('PING');
            $made = self::connectionsMade();
            $before = Proc::descriptors();
            for ($i = 0; $i < 500; $i++) {
                self::$server->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
                self::assertTrue($lock->renew());
                self::assertSame($before, Proc::descriptors());
            }
            self::assertGreaterThanOrEqual(500, self::connectionsMade() - $made, 'each was a new connection');
            $connection->close();
        }
    }

    public function testDescriptorsDoNotGrowWithTheFailures(): void
    {
        $proxy = FaultProxy::start(self::$server);
        $holes = [BlackHole::open('tcp://127.0.0.1:0'), BlackHole::open('unix://' . Janitor::path('.hole'))];
        $dsns = ['redis://127.0.0.1:1', 'unix:///nobody/there', $proxy->dsn(), $holes[0]->dsn(), $holes[1]->dsn()];
        $proxy->newConnections('reject');
        $fail = static function () use ($dsns): void {
            foreach ($dsns as $dsn) {
                try {
                    (new DistributedLock('order:1', 30.0, connection: new Connection($dsn, 0.005, 0.005)))->acquire();
                    self::fail($dsn);
                } catch (\RedisLease\LeaseException) {
                }
            }
        };
        $fail();
        $before = Proc::descriptors();
        for ($i = 0; $i < 100; $i++) {
            $fail();
        }
        self::assertSame($before, Proc::descriptors());
        array_map(static fn (BlackHole $hole) => $hole->close(), $holes);
        $proxy->stop();
    }

    private static function connectionsMade(): int
    {
        preg_match('/total_connections_received:(\d+)/', self::$server->command('INFO', 'stats'), $found);

        return (int) $found[1];
    }
}
