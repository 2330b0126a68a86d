<?php

declare(strict_types=1);

namespace RedisLease\Tests\Metrics;

use DistributedLock;
use RedisLease\Metrics;

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
                // A key that is gone is taken anew by acquire(): with the validity left, as the same lease.
                self::assertSame($cause === 'deleted' && $calls === ['acquire'] ? [] : [$cause => 1], $seen, $cause . json_encode($calls));
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

    public function testALeaseThatWasNeverConfirmedHereIsNotLostHere(): void
    {
        $lock = DistributedLock::restore('order:1', 'a token', 30.0, $this->connection());
        self::assertFalse($lock->renew());
        self::assertFalse($lock->release());
        self::assertSame([], self::counted('losses'));
    }

    /** What the thread finds is counted at once, also when the program hangs. */
    public function testAHungWorkerWhoseLeaseIsNotRenewedAnyMoreIsSeen(): void
    {
        if (!function_exists('pcntl_fork')) {
            self::markTestSkipped('PHP was built without pcntl');
        }
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
            $lock = new DistributedLock('order:1', 0.5, true, $connection, true);
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
