<?php

declare(strict_types=1);

namespace RedisLease\Tests\Metrics;

use DistributedLock;
use RedisLease\Connection;
use RedisLease\LeaseException;
use RedisLease\Metrics;
use RedisLease\Tests\Support\RedisServer;

use function RedisLease\Tests\Support\eventually;

/** A lease that is lost is counted once, by its cause, whoever finds out. */
final class LossesTest extends MetricsTestCase
{
    public function testEachLossIsCountedOnceHoweverOftenItIsAskedFor(): void
    {
        $cases = [
            'expired' => static fn (DistributedLock $lock) => eventually(static fn () => !$lock->isHeld() && self::stored('order:1') === null, 'it expired'),
            'deleted' => static fn (DistributedLock $lock) => self::$server->command('DEL', 'lock:order:1'),
            'taken' => static fn (DistributedLock $lock) => self::$server->command('SET', 'lock:order:1', 'another', 'PX', 60_000),
        ];
        foreach ($cases as $cause => $lose) {
            foreach ([['release', 'release'], ['renew', 'renew', 'release'], ['acquire']] as $calls) {
                self::$server->flush();
                Metrics::reset();
                $lock = $this->heldLock('order:1', $cause === 'expired' ? 0.05 : 30.0);
                $lose($lock);
                foreach ($calls as $call) {
                    $lock->$call();
                }
                $seen = self::counted('losses');
                self::assertSame([$cause => 1], $seen, $cause . json_encode($calls));
                unset($lock);
                self::$server->flush();
            }
        }
    }

    public function testALostHandleThatOnlyGoesIsCountedToo(): void
    {
        $lock = $this->heldLock('order:1', 0.05);
        eventually(static fn () => self::stored('order:1') === null, 'it expired');
        self::assertSame([], self::counted('losses'));
        unset($lock);
        self::assertSame(['expired' => 1], self::counted('losses'));
        self::assertSame(1, Metrics::snapshot()['validity_left_ratio']['buckets']['0'], 'nothing was left');
    }

    /** Its work outlasted its TTL, whoever has the lock by now, and whether Redis can be asked or not. */
    public function testALeaseWhoseValidityWasOverHasExpiredWhateverElseBecameOfIt(): void
    {
        $ways = [
            'release' => static fn (DistributedLock $lock) => $lock->release(),
            'renew' => static fn (DistributedLock $lock) => $lock->renew(),
            'acquire' => static fn (DistributedLock $lock) => $lock->acquire(),
            'detach' => static fn (DistributedLock $lock) => $lock->detach(),
            'drop' => static fn (DistributedLock $lock) => null,
        ];
        foreach ([false, true] as $isAway) {
            foreach ($ways as $way => $end) {
                $server = RedisServer::start();
                $lock = new DistributedLock('order:1', 0.1, connection: new Connection($server->dsn(), 0.05, 0.05));
                self::assertTrue($lock->acquire());
                eventually(static fn () => $server->command('GET', 'lock:order:1') === null, 'it expired');
                $isAway ? $server->pause() : $server->command('SET', 'lock:order:1', 'another', 'PX', 60_000);
                Metrics::reset();
                try {
                    $end($lock);
                } catch (LeaseException) {
                }
                unset($lock);
                self::assertSame(['expired' => 1], self::counted('losses'), $way . ($isAway ? ', Redis away' : ', taken by another'));
                $isAway && $server->resume();
                $server->stop();
            }
        }
    }

    public function testALeaseThatItsOwnerRemovesIsNotLost(): void
    {
        $lock = $this->heldLock('order:1');
        self::assertTrue($lock->forceRelease());
        self::assertFalse($lock->release());
        unset($lock);
        self::assertSame([], self::counted('losses'));
        self::assertSame([], self::counted('releases'));
        self::assertSame(1, Metrics::snapshot()['hold_seconds']['count']);
    }

    public function testARequestThatLeavesItsLeasesToTheirTtlStillCountsThoseThatWereOver(): void
    {
        self::needsPcntl();
        $worker = self::worker(<<<'PHP'
            if (pcntl_fork() === 0) {
                $over = new DistributedLock('order:1', 0.05, connection: $connection);
                $valid = new DistributedLock('order:2', 60.0, connection: $connection);
                $over->acquire();
                $valid->acquire();
                usleep(80_000);
                exit(0);
            }
            pcntl_wait($status);
            say(RedisLease\Metrics::snapshot()['losses']);
            PHP, ini: ['redis_lease.release_on_shutdown' => '0']);
        self::assertSame(['expired' => 1], self::used($worker->hear()));
        $worker->finish();
    }

    /** The thread finds the loss, or the release does, or both at the same instant. */
    public function testALossThatMeetsTheReleaseIsCountedOnce(): void
    {
        $rounds = getenv('REDIS_LEASE_THOROUGH') ? 300 : 40;
        $worker = self::worker(<<<'PHP'
            $raw = stream_socket_client($args['socket']);
            $lost = 0;
            for ($round = 0; $round < $args['rounds']; $round++) {
                $lock = new DistributedLock('order:1', 0.06, true, $connection);
                $lock->acquire(5.0);
                fwrite($raw, "DEL lock:order:1\r\n");
                fgets($raw);
                // The thread looks after 20 ms.
                usleep(18_500 + ($round % 10) * 400);
                $lost += $lock->release() ? 0 : 1;
            }
            say([$lost, RedisLease\Metrics::snapshot()['losses']]);
            PHP, ['rounds' => $rounds, 'socket' => 'unix://' . self::$server->socket()]);
        [$lost, $losses] = $worker->hear(60.0);
        self::assertSame($rounds, $lost);
        self::assertSame($rounds, array_sum($losses), json_encode($losses));
        $worker->finish();
    }

    public function testALeaseThatWasNeverConfirmedHereIsNotLostHere(): void
    {
        $lock = DistributedLock::restore('order:1', 'a token', 30.0, $this->connection());
        self::assertFalse($lock->renew());
        self::assertFalse($lock->release());
        self::assertSame([], self::counted('losses'));
    }

    /** Whoever finds the loss, the work under the lease has ended with the release, or with the handle. */
    public function testTheReleaseOfALeaseThatWasFoundLostIsCountedOnce(): void
    {
        $ends = ['release' => 'for ($i = 0; $i < 3; $i++) { $lock->release(); } unset($lock);', 'drop' => 'unset($lock);'];
        foreach (['the thread' => 'while ($lock->isHeld());', 'the caller' => '$lock->renew();'] as $finder => $find) {
            foreach ($ends as $how => $end) {
                $worker = self::worker(<<<PHP
                    \$lock = new DistributedLock('order:1', \$args['auto'] ? 0.6 : 30.0, \$args['auto'], \$connection);
                    \$lock->acquire();
                    say('held');
                    hear();
                    $find
                    $end
                    say(RedisLease\Metrics::snapshot());
                    PHP, ['auto' => $finder === 'the thread']);
                $worker->hear();
                self::$server->command('DEL', 'lock:order:1');
                $worker->say();
                $snapshot = $worker->hear();
                self::assertSame(['lost' => 1], self::used($snapshot['releases']), "$finder, $how");
                self::assertSame(1, $snapshot['hold_seconds']['count'], "$finder, $how");
                self::assertSame(1, $snapshot['validity_left_ratio']['buckets']['0'], "$finder, $how");
                self::assertSame(['deleted' => 1], self::used($snapshot['losses']), "$finder, $how");
                $worker->finish();
            }
        }
    }

    /** What the thread finds is counted at once, also when the program hangs. */
    public function testAHungWorkerWhoseLeaseIsNotRenewedAnyMoreIsSeen(): void
    {
        self::needsPcntl();
        $worker = self::worker(<<<'PHP'
            $lock = new DistributedLock('order:1', 0.4, true, $connection);
            if (($child = pcntl_fork()) === 0) {
                $lock = new DistributedLock('order:2', 0.4, true, $connection);
                $lock->acquire();
                sleep(60);
                exit(0);
            }
            hear();
            say(RedisLease\Metrics::snapshot());
            exec("kill -9 $child");
            pcntl_waitpid($child, $status);
            PHP, ini: ['redis_lease.max_hold' => '0.5']);
        eventually(static fn () => self::stored('order:2') !== null, 'the child holds it');
        eventually(static fn () => self::stored('order:2') === null, 'it ended by its TTL');
        $worker->say();
        $snapshot = $worker->hear();
        self::assertSame(['max_hold' => 1], self::used($snapshot['losses']));
        self::assertGreaterThan(1, $snapshot['renewals']['thread']['renewed']);
        self::assertSame(array_sum($snapshot['renewals']['thread']), $snapshot['renewal_lag_seconds']['count']);
        $worker->finish();
    }

    public function testALeaseThatCannotBeRenewedAndTheExceptionThatStopsTheWork(): void
    {
        $worker = self::worker(<<<'PHP'
            $lock = new DistributedLock('order:1', 2.0, true, $connection, true);
            $lock->acquire();
            say('held');
            try {
                for (;;);
            } catch (LeaseLostException $lost) {
                say([$lost->loss, RedisLease\Metrics::snapshot()]);
            }
            PHP);
        $worker->hear();
        self::$server->pause();
        try {
            [$loss, $snapshot] = $worker->hear();
        } finally {
            self::$server->resume();
        }
        self::assertSame('unreachable', $loss);
        self::assertSame(['unreachable' => 1], self::used($snapshot['losses']));
        self::assertSame(1, $snapshot['aborts']);
        self::assertGreaterThan(0, $snapshot['renewals']['thread']['failed']);
        $worker->wait();
    }

    public function testADeletedLeaseThatTheThreadFindsIsNotCountedAgain(): void
    {
        $worker = self::worker(<<<'PHP'
            $lock = new DistributedLock('order:1', 0.3, true, $connection);
            $lock->acquire();
            say('held');
            while ($lock->isHeld());
            $lock->release();
            $lock->renew();
            unset($lock);
            say(RedisLease\Metrics::snapshot());
            PHP);
        $worker->hear();
        self::$server->command('DEL', 'lock:order:1');
        $snapshot = $worker->hear();
        self::assertSame(['deleted' => 1], self::used($snapshot['losses']));
        self::assertSame(1, $snapshot['renewals']['thread']['lost']);
        $worker->finish();
    }
}
