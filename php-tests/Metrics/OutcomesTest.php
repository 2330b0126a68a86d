<?php

declare(strict_types=1);

namespace RedisLease\Tests\Metrics;

use DistributedLock;
use RedisLease\Connection;
use RedisLease\ConnectionException;
use RedisLease\LeaseLostException;
use RedisLease\Metrics;
use RedisLease\OutcomeUnknownException;
use RedisLease\ServerException;
use RedisLease\Tests\Support\BlackHole;
use RedisLease\Tests\Support\FakeServer;
use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\PhpProcess;
use RedisLease\Tests\Support\RedisServer;
use RuntimeException;

use function RedisLease\Tests\Support\eventually;

/** Whatever comes of a call is counted once, as what it was. */
final class OutcomesTest extends MetricsTestCase
{
    public function testAnUncontendedCycle(): void
    {
        $lock = $this->lock('order:1', 10.0);
        self::assertTrue($lock->acquire());
        self::assertTrue($lock->acquire());
        self::assertTrue($lock->renew());
        usleep(20_000);
        self::assertTrue($lock->release());
        self::assertFalse($lock->release());

        self::assertSame(['acquired' => 1, 'extended' => 1], self::counted('acquires'));
        self::assertSame(['released' => 1], self::counted('releases'), 'the second one is not sent');
        self::assertSame(['caller' => ['renewed' => 1]], self::counted('renewals'));
        self::assertSame([], self::counted('losses'));
        $snapshot = Metrics::snapshot();
        self::assertSame(0, $snapshot['contention']);
        self::assertSame(1, $snapshot['hold_seconds']['count']);
        self::assertGreaterThan(0.02, $snapshot['hold_seconds']['sum']);
        self::assertLessThan(5.0, $snapshot['hold_seconds']['sum']);
        self::assertSame(0, $snapshot['hold_seconds']['buckets']['0.01']);
        self::assertSame(1, $snapshot['hold_seconds']['buckets']['+Inf']);
        self::assertSame(1, $snapshot['validity_left_ratio']['count']);
        self::assertGreaterThan(0.5, $snapshot['validity_left_ratio']['sum']);
        self::assertLessThanOrEqual(1.0, $snapshot['validity_left_ratio']['sum']);
        $node = array_keys(self::counted('node_answers'));
        self::assertCount(1, $node, 'the others, of earlier tests, have no answers since');
        self::assertStringContainsString(self::$server->socket(), $node[0]);
    }

    public function testALeaseIsHeldFromItsGrantOnHoweverOftenItIsExtended(): void
    {
        $lock = $this->lock('order:1', 30.0);
        foreach (['acquire', 'renew', 'acquire', 'renew'] as $extend) {
            self::assertTrue($lock->$extend());
            usleep(20_000);
        }
        $lock->release();
        self::assertGreaterThan(0.08, Metrics::snapshot()['hold_seconds']['sum']);
        self::assertSame(1, Metrics::snapshot()['hold_seconds']['count']);
    }

    public function testALockThatAnotherHolds(): void
    {
        $holder = $this->heldLock('order:1');
        self::assertFalse($this->lock('order:1')->acquire());
        self::assertSame(0, Metrics::snapshot()['wait_seconds']['count'], 'it had no time to wait');
        self::assertFalse($this->lock('order:1')->acquire(0.05));

        self::assertSame(['acquired' => 1, 'contended' => 2], self::counted('acquires'));
        $snapshot = Metrics::snapshot();
        self::assertSame(2, $snapshot['contention']);
        self::assertSame(1, $snapshot['wait_seconds']['count']);
        self::assertEqualsWithDelta(0.05, $snapshot['wait_seconds']['sum'], 0.045);
        self::assertSame(1, array_sum($snapshot['wakeups']));
        $holder->release();
    }

    public function testAWaiterIsWokenByTheReleaseByTheExpiryOrForNothing(): void
    {
        $waiter = self::worker(<<<'PHP'
            foreach (['signal', 'timer', 'spurious'] as $source) {
                hear();
                RedisLease\Metrics::reset();
                $lock = new DistributedLock("order:$source", 30.0, connection: $connection);
                $acquired = $lock->acquire(20.0);
                $lock->release();
                say([$acquired, RedisLease\Metrics::snapshot()['wakeups']]);
            }
            PHP);
        $waits = static fn (): bool => str_contains((string) self::$server->command('INFO', 'clients'), 'blocked_clients:1');
        foreach (['signal', 'timer', 'spurious'] as $source) {
            $holder = $this->heldLock("order:$source", $source === 'timer' ? 0.3 : 30.0);
            $waiter->say();
            $wake = "lock~{lock:order:$source}:wake";
            eventually($waits, 'it waits');
            if ($source === 'spurious') {
                self::$server->command('RPUSH', $wake, 'reserved:nothing');
                eventually(static fn () => self::$server->command('EXISTS', $wake) === 0, 'it was woken');
                eventually($waits, 'it waits again');
            }
            if ($source !== 'timer') {
                $holder->release();
            }
            [$acquired, $wakeups] = $waiter->hear();
            self::assertTrue($acquired);
            self::assertGreaterThan(0, $wakeups[$source], json_encode($wakeups));
            self::assertSame($source === 'signal' || $source === 'spurious' ? 1 : 0, $wakeups['signal'], json_encode($wakeups));
            $holder->release();
        }
        $waiter->finish();
    }

    public function testWhatFailsIsToldApartAndCountedForItsServer(): void
    {
        $hole = BlackHole::open('tcp://127.0.0.1:0');
        $fake = FakeServer::start();
        $fake->answerWith("nonsense\r\n");
        $closed = RedisServer::freePort();
        $guarded = RedisServer::start(tcp: true, password: 'secret');
        $cases = [
            'connect' => ["redis://127.0.0.1:$closed", ConnectionException::class, 'unavailable'],
            'timeout' => [$hole->dsn(), ConnectionException::class, 'unavailable'],
            'resolve' => ['redis://no-such-host.invalid', ConnectionException::class, 'unavailable'],
            'protocol' => [$fake->dsn(), OutcomeUnknownException::class, 'unknown'],
            'login' => [$guarded->tcpDsn(':wrong'), ServerException::class, 'refused'],
        ];
        foreach ($cases as $kind => [$dsn, $class, $outcome]) {
            Metrics::reset();
            $lock = new DistributedLock('order:1', 5.0, connection: new Connection($dsn, 0.2, 0.2));
            try {
                $lock->acquire();
                self::fail("$kind: it cannot be acquired");
            } catch (ConnectionException | OutcomeUnknownException | ServerException $trouble) {
                self::assertInstanceOf($class, $trouble, $kind);
            }
            self::assertSame([$outcome => 1], self::counted('acquires'), $kind . $trouble->getMessage());
            $errors = self::counted('node_errors');
            self::assertCount(1, $errors, $kind . json_encode($errors));
            // An answer that is none is followed by further tries.
            self::assertSame([$kind], array_keys(current($errors)), key($errors) . ': ' . $trouble->getMessage());
            // It may try once more to give back what it may have taken.
            unset($lock);
            self::assertTrue($kind === 'protocol' || current($errors)[$kind] === 1, $kind);
        }
        $guarded->stop();
        $fake->stop();
        $hole->close();
    }

    public function testARefusalOfTheServer(): void
    {
        self::$server->command('RPUSH', 'lock:order:1', 'another program uses it');
        try {
            $this->lock('order:1')->acquire();
            self::fail('it cannot be acquired');
        } catch (ServerException $refused) {
            self::assertSame('WRONGTYPE', $refused->redisCode);
        }
        self::assertSame(['refused' => 1], self::counted('acquires'));
        self::assertSame([['refused' => 1]], array_values(self::counted('node_errors')));
    }

    public function testAnUnknownOutcomeAndHowItWasSettled(): void
    {
        $proxy = FaultProxy::start(self::$server);
        $lock = new DistributedLock('order:1', 30.0, connection: new Connection($proxy->dsn(), 0.3, 0.3));
        self::assertTrue($lock->acquire() && $lock->release());
        Metrics::reset();

        $proxy->breakAfter('reply', 0, 'hold', later: 'hang');
        try {
            $lock->acquire();
            self::fail('no answer comes');
        } catch (OutcomeUnknownException) {
        }
        self::assertSame(['unknown' => 1], self::counted('acquires'));
        self::assertSame(['reported' => 1], self::counted('unknown_outcomes'));
        self::assertGreaterThan(0, self::counted('retries')['unanswered'] ?? 0);
        $proxy->stop();

        $proxy = FaultProxy::start(self::$server);
        $lock = new DistributedLock('order:2', 30.0, connection: new Connection($proxy->dsn(), 2.0, 2.0));
        self::assertTrue($lock->acquire() && $lock->release());
        Metrics::reset();
        // The answer is lost, the connection is not.
        $proxy->breakAfter('reply', 0, 'fin');
        self::assertTrue($lock->acquire());
        self::assertSame(['resent' => 1], self::counted('unknown_outcomes'));
        self::assertSame(['unanswered' => 1], self::counted('retries'));
        self::assertSame([1], array_values(self::counted('node_reconnects')));
        $lock->release();
    }

    public function testAReportedOutcomeThatALaterReleaseSettles(): void
    {
        $server = RedisServer::start();
        $lock = new DistributedLock('order:1', 30.0, connection: new Connection($server->dsn(), 0.3, 0.3));
        self::assertTrue($lock->acquire() && $lock->release());
        Metrics::reset();
        $server->pause();
        try {
            $lock->acquire();
            self::fail('no answer comes');
        } catch (OutcomeUnknownException) {
        }
        $server->resume();
        $lock->release();
        self::assertSame(['reported' => 1, 'released' => 1], self::counted('unknown_outcomes'));
        self::assertSame([], self::counted('losses'), 'there was no lease');
        $server->stop();
    }

    /** Of synchronized() whose release goes unanswered nobody is told: its lease covered the work. */
    public function testAnUnansweredReleaseOfWhichNobodyIsTold(): void
    {
        $server = RedisServer::start();
        $lock = new DistributedLock('order:1', 30.0, connection: new Connection($server->dsn(), 0.2, 0.2));
        self::assertSame(7, $lock->synchronized(static function () use ($server): int {
            $server->pause();

            return 7;
        }));
        self::assertSame([], self::counted('unknown_outcomes'));
        self::assertSame(['unknown' => 1], self::counted('releases'));
        $server->resume();
        self::assertTrue($lock->release());
        self::assertSame(['unknown' => 1, 'released' => 1], array_reverse(self::counted('releases')));
        $server->stop();
    }

    public function testMoreServersThanAreToldApartAreCountedTogether(): void
    {
        $process = PhpProcess::run(<<<'PHP'
            for ($port = 1; $port <= 40; $port++) {
                try {
                    (new DistributedLock('order:1', connection: new RedisLease\Connection("redis://127.0.0.1:$port", 1.0)))->acquire();
                } catch (RedisLease\ConnectionException) {
                }
            }
            echo json_encode(RedisLease\Metrics::snapshot()['node_errors']);
            PHP);
        $errors = self::used(json_decode($process->output(), true));
        self::assertCount(33, $errors);
        self::assertSame(['connect' => 1], $errors['127.0.0.1:32']);
        self::assertSame(['connect' => 8], $errors['other']);
    }

    public function testARenewalThatComesLateTellsByHowMuch(): void
    {
        $worker = self::worker(<<<'PHP'
            $lock = new DistributedLock('order:1', 3.0, true, $connection);
            $lock->acquire();
            say('held');
            hear();
            say(RedisLease\Metrics::snapshot()['renewal_lag_seconds']);
            PHP);
        $worker->hear();
        $worker->pause();
        // Due after one second.
        $paused = hrtime(true);
        eventually(static fn () => hrtime(true) - $paused > 1.6e9, 'it is late');
        $worker->resume();
        eventually(static fn () => self::$server->command('PTTL', 'lock:order:1') > 2_500, 'it was renewed');
        $worker->say();
        $lag = $worker->hear();
        self::assertGreaterThanOrEqual(0.5, $lag['sum']);
        self::assertSame(1, $lag['count']);
        $worker->finish();
    }

    public function testAWaitThroughAnOutage(): void
    {
        $port = RedisServer::freePort();
        $lock = new DistributedLock('order:1', 5.0, connection: new Connection("redis://127.0.0.1:$port", 0.2, 0.2));
        try {
            $lock->acquire(0.2);
            self::fail('nobody is there');
        } catch (ConnectionException) {
        }
        self::assertSame(['unavailable' => 1], self::counted('acquires'));
        self::assertGreaterThan(1, self::counted('retries')['outage']);
        self::assertSame(0, Metrics::snapshot()['wait_seconds']['count'], 'nobody held it');
    }

    public function testAnAnswerThatComesTooLateAndAHandlerThatThrows(): void
    {
        $proxy = FaultProxy::start(self::$server);
        $connection = new Connection($proxy->dsn(), 2.0, 2.0);
        $connection->ping();
        $proxy->delay(0.0, 0.1);
        try {
            (new DistributedLock('order:1', 0.05, connection: $connection))->acquire();
            self::fail('it is over when the answer comes');
        } catch (LeaseLostException) {
        }
        self::assertSame(['late' => 1], self::counted('acquires'));
        self::needsPcntl();

        Metrics::reset();
        $holder = $this->heldLock('order:2');
        pcntl_async_signals(true);
        pcntl_signal(SIGALRM, static fn () => throw new RuntimeException('stop'));
        pcntl_alarm(1);
        try {
            $this->lock('order:2')->acquire(20.0);
            self::fail('the handler throws');
        } catch (RuntimeException $stop) {
            self::assertSame('stop', $stop->getMessage());
        } finally {
            pcntl_signal(SIGALRM, SIG_DFL);
        }
        self::assertSame(['acquired' => 1, 'interrupted' => 1], self::counted('acquires'));
        $holder->release();
    }
}
