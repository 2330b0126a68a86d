<?php

declare(strict_types=1);

namespace RedisLease\Tests\Fault;

use DistributedLock;
use Fiber;
use RedisLease\Connection;
use RedisLease\ConnectionException;
use RedisLease\LeaseException;
use RedisLease\OutcomeUnknownException;
use RedisLease\ServerException;
use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\Proc;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\ServerTestCase;
use RedisLease\Tests\Support\WebServer;

/** What users of other libraries reported about connections: each symptom once, as it must not be here. */
final class PeersConnectionsTest extends ServerTestCase
{
    public function testForkedWorkersDoNotReadEachOthersReplies(): void
    {
        $worker = self::worker(<<<'PHP'
            $warm = new DistributedLock('warm', 60.0, connection: $connection);
            $warm->acquire();
            $wrong = static function (string $who) use ($connection): int {
                for ($i = $wrong = 0; $i < 200; $i++) {
                    $lock = new DistributedLock("$who:$i", 60.0, connection: $connection);
                    $wrong += !$lock->acquire() || $lock->owner() !== $lock->token() || !$lock->release();
                }
                return $wrong;
            };
            for ($child = 0; $child < 3; $child++) {
                if (pcntl_fork() === 0) {
                    say($wrong("child $child"));
                    exit;
                }
            }
            say($wrong('parent'));
            while (pcntl_wait($status) > 0);
            PHP);
        for ($process = 0; $process < 4; $process++) {
            self::assertSame(0, $worker->hear(30.0));
        }
        $worker->finish();
    }

    public function testACallAfterATimeoutDoesNotReadTheStaleReply(): void
    {
        $proxy = FaultProxy::start(self::$server);
        $connection = new Connection($proxy->dsn(), 0.2, 0.1);
        $lock = new DistributedLock('order:1', 30.0, connection: $connection);
        $lock->owner();
        for ($round = 0; $round < 5; $round++) {
            self::$server->command('SET', 'lock:order:1', "owner $round", 'PX', 60_000);
            $proxy->delay(0.0, 0.6);
            try {
                $lock->owner();
                self::fail('the reply came too early');
            } catch (OutcomeUnknownException) {
            }
            $proxy->delay(0.0, 0.0);
            self::$server->command('SET', 'lock:order:1', "owner $round and a half", 'PX', 60_000);

            // Patient, and on the same connection: were it used again, the late reply would come first.
            $patient = new DistributedLock('order:1', 30.0, connection: new Connection($proxy->dsn(), 5.0, 5.0));
            $owner = Cuts\Runner::persist(static fn () => $patient->owner());
            self::assertSame("owner $round and a half", $owner, 'the reply of the call before');
        }
        $proxy->stop();
    }

    public function testADeadConnectionIsNotUsedAgainAndNothingFloodsTheLog(): void
    {
        $log = Janitor::path('.log');
        $worker = self::worker(<<<'PHP'
            $connection = new Connection($args['dsn'], 0.5, 0.5);
            for ($i = 0; $i < 100; $i++) {
                $lock = new DistributedLock("order:$i", 60.0, connection: $connection);
                say($lock->acquire());
                hear();
                say($lock->release());
            }
            say('now it is down');
            hear();
            $threw = 0;
            for ($i = 0; $i < 500; $i++) {
                try {
                    (new DistributedLock("order:$i", 60.0, connection: $connection))->acquire();
                } catch (ConnectionException) {
                    $threw++;
                }
            }
            say($threw);
            PHP, [], ['log_errors' => '1', 'error_log' => $log, 'display_errors' => '0']);
        for ($i = 0; $i < 100; $i++) {
            self::assertTrue($worker->hear());
            self::$server->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
            $worker->say();
            self::assertTrue($worker->hear(), 'the dead connection was used again');
        }
        self::assertSame('now it is down', $worker->hear());
        self::$server->kill();
        $worker->say();
        self::assertSame(500, $worker->hear(30.0));
        $worker->finish();
        self::$server->restart(keepData: false);

        self::assertFileDoesNotExist($log);
    }

    public function testAfterAFailoverAWorkerDoesNotMeetReadonlyForEver(): void
    {
        $next = RedisServer::start();
        $proxy = FaultProxy::start(self::$server);
        $lock = new DistributedLock('order:1', 30.0, connection: new Connection($proxy->dsn(), 1.0, 1.0));
        self::assertTrue($lock->acquire());
        self::assertTrue($lock->release());
        // The name leads to the new primary; connections that are open still end at the old one.
        self::$server->command('REPLICAOF', '127.0.0.1', 1);
        $proxy->leadTo($next);
        try {
            $lock->acquire();
            self::fail('the old primary is read-only');
        } catch (ServerException $refusal) {
            self::assertSame('READONLY', $refusal->redisCode);
        }
        self::assertTrue($lock->acquire(), 'it stayed with the old primary');
        self::assertSame($lock->token(), $next->command('GET', 'lock:order:1'));
        self::$server->command('REPLICAOF', 'NO', 'ONE');
        $proxy->stop();
        $next->stop();
    }

    public function testAThousandOperationsDoNotExhaustThePorts(): void
    {
        $connection = new Connection(self::$server->dsn(), 4.9, 4.9);
        $lock = new DistributedLock('order:1', 30.0, connection: $connection);
        $lock->acquire();
        $made = self::connectionsMade();
        $descriptors = Proc::descriptors();
        for ($i = 0; $i < 1_000; $i++) {
            $each = new DistributedLock("order:$i", 30.0, connection: new Connection(self::$server->dsn(), 4.9, 4.9));
            $each->acquire() && $each->renew() && $each->release();
        }
        self::assertSame($made, self::connectionsMade());
        self::assertSame($descriptors, Proc::descriptors());
    }

    public function testPersistenceIsNoEmptyWordFromRequestToRequest(): void
    {
        // On a PHP built ZTS too: this test runs on whichever PHP runs the suite.
        $web = WebServer::start('echo json_encode((new DistributedLock("order:1"))->acquire());', [
            'redis_lease.dsn' => self::$server->dsn(), 'redis_lease.command_timeout' => '5',
        ]);
        self::assertSame('true', $web->get());
        $made = self::connectionsMade();
        for ($request = 0; $request < 20; $request++) {
            self::assertSame('true', $web->get());
        }
        self::assertSame($made, self::connectionsMade());
        $web->stop();
    }

    public function testTwoFibersThatTakeTurnsDoNotMixTheirReplies(): void
    {
        $connection = $this->connection();
        $fibers = [];
        foreach (range(1, 5) as $number) {
            $fibers[] = $fiber = new Fiber(static function () use ($connection, $number): int {
                for ($i = $right = 0; $i < 20; $i++) {
                    $lock = new DistributedLock("fiber:$number", 30.0, connection: $connection);
                    $right += $lock->synchronized(static function (DistributedLock $held) use ($number): int {
                        Fiber::suspend();
                        $owner = $held->owner();
                        Fiber::suspend();

                        return (int) ($owner === $held->token() && $held->renew() && $held->resource() === "fiber:$number");
                    });
                }

                return $right;
            });
            $fiber->start();
        }
        while (array_filter($fibers, static fn (Fiber $fiber) => !$fiber->isTerminated())) {
            foreach ($fibers as $fiber) {
                $fiber->isTerminated() || $fiber->resume();
            }
        }
        self::assertSame([20, 20, 20, 20, 20], array_map(static fn (Fiber $fiber) => $fiber->getReturn(), $fibers));
    }

    public function testAFiberThatIsNeverResumedGivesItsLockBack(): void
    {
        $fiber = new Fiber(fn () => $this->lock('order:1')->synchronized(static fn () => Fiber::suspend()));
        $fiber->start();
        self::assertIsString(self::stored('order:1'));
        unset($fiber);
        gc_collect_cycles();

        self::assertNull(self::stored('order:1'));
    }

    private static function connectionsMade(): int
    {
        preg_match('/total_connections_received:(\d+)/', self::$server->command('INFO', 'stats'), $found);

        return (int) $found[1];
    }
}
