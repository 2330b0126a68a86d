<?php

declare(strict_types=1);

namespace RedisLease\Tests\Renewal;

use DistributedLock;
use RedisLease\LeaseLostException;
use RedisLease\Metrics;
use RedisLease\Tests\Support\Monitor;

use function RedisLease\Tests\Support\eventually;

/** How a lease was lost is told where it can be known, it is lost for good, and it cannot be held for ever. */
final class LossTest extends RenewalTestCase
{
    public function testAReleaseThatComesTooLateAndALostRenewalSayHowItWasLost(): void
    {
        $cases = [
            'expired' => static fn (DistributedLock $lock) => eventually(static fn () => !$lock->isHeld() && self::stored('order:1') === null, 'it expired'),
            'deleted' => static fn (DistributedLock $lock) => self::$server->command('DEL', 'lock:order:1'),
            'taken' => static fn (DistributedLock $lock) => self::$server->command('SET', 'lock:order:1', 'another', 'PX', 60_000),
        ];
        foreach ($cases as $loss => $lose) {
            foreach (['release', 'renew'] as $call) {
                self::$server->flush();
                $lock = $this->heldLock('order:1', $loss === 'expired' ? 0.05 : 30.0);
                self::assertNull($lock->loss());
                $lose($lock);
                self::assertFalse($lock->$call(), "$loss, $call");
                self::assertSame($loss, $lock->loss(), $call);
                self::$server->flush();
                self::assertTrue($lock->acquire());
                self::assertNull($lock->loss(), 'the new lease is not lost');
                self::assertTrue($lock->release());
                self::assertNull($lock->loss());
            }
        }
        self::assertNull($this->lock('order:2')->loss());
        $restored = DistributedLock::restore('order:2', 'a token', 30.0, $this->connection());
        self::assertFalse($restored->renew());
        self::assertNull($restored->loss(), 'nobody knows');
    }

    public function testTheExceptionOfSynchronizedSaysHowItWasLost(): void
    {
        $ways = [
            'deleted' => static fn () => self::$server->command('DEL', 'lock:order:1'),
            'taken' => static fn () => self::$server->command('SET', 'lock:order:1', 'another', 'PX', 60_000),
        ];
        foreach ($ways as $loss => $lose) {
            self::$server->flush();
            try {
                $this->lock('order:1')->synchronized($lose);
                self::fail('it was lost');
            } catch (LeaseLostException $lost) {
                self::assertSame($loss, $lost->loss);
                self::assertSame('order:1', $lost->resource);
            }
        }
        self::$server->flush();
        try {
            $this->lock('order:1', 0.05)->synchronized(static fn () => usleep(80_000));
            self::fail('it was lost');
        } catch (LeaseLostException $lost) {
            self::assertSame('expired', $lost->loss);
        }
    }

    /** The validity ends 1 % and 2 ms before the key does. */
    public function testALeaseThatIsOverBeforeItsKeyIsGoneHasExpired(): void
    {
        // The key stays, so that the time in between is long enough for a test.
        $outlive = static function (DistributedLock $lock): void {
            self::$server->command('PEXPIRE', 'lock:order:1', 60_000);
            eventually(static fn () => !$lock->isHeld(), 'its validity is over');
        };
        Metrics::reset();
        $lock = $this->lock('order:1', 0.1);
        try {
            $lock->synchronized($outlive);
            self::fail('it was lost');
        } catch (LeaseLostException $lost) {
            self::assertSame('expired', $lost->loss);
            self::assertStringContainsString('it expired', $lost->getMessage());
        }
        self::assertSame('expired', $lock->loss());
        self::assertSame(1, Metrics::snapshot()['losses']['expired']);

        $lock->acquire();
        self::assertNull($lock->loss());
        $outlive($lock);
        self::assertTrue($lock->release(), 'our key was there, and is gone');
        self::assertSame('expired', $lock->loss());
        self::assertSame(2, Metrics::snapshot()['losses']['expired']);
    }

    /** A renewal that finds the lock gone or taken is the last one, and touches neither. */
    public function testALostLockIsNotTriedAgainNorTouched(): void
    {
        $monitor = Monitor::start(self::$server);
        foreach (['deleted' => null, 'taken' => 'another'] as $loss => $value) {
            self::$server->flush();
            $worker = self::renewing(<<<'PHP'
                $lock = $new('order:1', 0.6);
                $lock->acquire();
                say('held');
                while ($lock->isHeld());
                say([$lock->loss(), $lock->remaining(), $lock->token()]);
                hear();
                say([$lock->renew(), $lock->release(), $lock->loss()]);
                PHP);
            $worker->hear();
            $value === null ? self::$server->command('DEL', 'lock:order:1') : self::$server->command('SET', 'lock:order:1', $value, 'PX', 60_000);
            self::assertSame([$loss, 0.0, null], $worker->hear());
            $monitor->commands();
            usleep(500_000);
            self::assertSame(0, self::renewals($monitor), "$loss: no further try");
            self::assertSame($value, self::stored('order:1'));
            $worker->say();
            self::assertSame([false, false, $loss], $worker->hear());
            $worker->finish();
            self::assertSame($value, self::stored('order:1'));
        }
        $monitor->close();
    }

    public function testAForcedReleaseByAnotherEndsTheLeaseAndOneOfOnesOwnIsNoLossThatStopsTheWork(): void
    {
        $worker = self::renewing(<<<'PHP'
            $lock = $new('order:1', 0.6, true);
            $lock->acquire();
            say('held');
            try {
                while (true);
            } catch (LeaseLostException $lost) {
                say([$lost->loss, $lock->isHeld()]);
            }
            $lock->acquire();
            say($lock->forceRelease());
            for ($start = $now(); $now() - $start < 0.5;);
            say([$lock->isHeld(), $lock->loss()]);
            PHP);
        $worker->hear();
        self::assertTrue($this->lock('order:1')->forceRelease());
        self::assertSame(['deleted', false], $worker->hear());
        self::assertTrue($worker->hear());
        self::assertSame([false, 'deleted'], $worker->hear());
        $worker->finish();
    }

    public function testWhatWasHeldLongEnoughEndsByItsTtlAndSaysSo(): void
    {
        $snippet = <<<'PHP'
            $lock = $new('order:1', 0.6, $args['abort']);
            $start = $now();
            $lock->acquire();
            say('held');
            try {
                while ($lock->isHeld() || $args['abort']);
            } catch (LeaseLostException $lost) {
                say([$lost->loss, str_contains($lost->getMessage(), 'redis_lease.max_hold')]);
            }
            say([$now() - $start, $lock->loss()]);
            hear();
            say([$lock->acquire(1.0), $lock->loss()]);
            PHP;
        foreach ([false, true] as $abort) {
            self::$server->flush();
            $monitor = Monitor::start(self::$server);
            $worker = self::renewing($snippet, ['abort' => $abort], ['redis_lease.max_hold' => '1']);
            $worker->hear();
            if ($abort) {
                self::assertSame(['max_hold', true], $worker->hear());
            }
            [$seconds, $loss] = $worker->hear();
            self::assertSame('max_hold', $loss);
            self::assertGreaterThan(1.0, $seconds, 'it was renewed until then');
            self::assertLessThan(1.65, $seconds);
            eventually(static fn () => self::stored('order:1') === null, 'another may have it', 1.0);
            $renewals = self::renewals($monitor);
            self::assertGreaterThan(2, $renewals);
            self::assertLessThan(7, $renewals);
            $worker->say();
            self::assertSame([true, null], $worker->hear(), 'a new grant is held as long again');
            eventually(static fn () => self::renewals($monitor) > 0 || !$worker->wait(), 'or it has ended');
            $worker->finish();
            $monitor->close();
        }
    }

    public function testMaxHoldDoesNotBindARenewalByHandAndIsNotResetByOne(): void
    {
        $worker = self::renewing(<<<'PHP'
            $lock = $new('order:1', 0.5);
            $lock->acquire();
            for ($start = $now(); $now() - $start < 1.5;) {
                $lock->renew();
                usleep(100_000);
            }
            say($lock->isHeld());
            hear();
            while ($lock->isHeld());
            say($lock->loss());
            PHP, [], ['redis_lease.max_hold' => '0.8']);
        $monitor = Monitor::start(self::$server);
        self::assertTrue($worker->hear());
        $monitor->commands();
        $worker->say();
        self::assertSame('max_hold', $worker->hear());
        self::assertSame(0, self::renewals($monitor), 'the thread does not take it up again');
        $worker->finish();
        $monitor->close();
    }

    /** Nobody renews for a process that hangs as a whole: the TTL frees its lock. One that hangs in PHP is bounded by max_hold. */
    public function testAHungProcessKeepsNoLock(): void
    {
        $worker = self::renewing(<<<'PHP'
            $lock = $new('order:1', 0.6);
            $lock->acquire();
            say('held');
            for (;;);
            PHP);
        $worker->hear();
        usleep(700_000);
        self::assertIsString(self::stored('order:1'));
        $worker->pause();
        self::assertTrue($this->lock('order:1')->acquire(2.0), 'the TTL frees it');
        $worker->resume();
        $worker->kill();
    }

    /** Longer than the lease: at once lost, and at the first look. */
    public function testAProcessThatWasStoppedForLongerThanItsLeaseFindsItLostAtItsFirstLook(): void
    {
        $worker = self::renewing(<<<'PHP'
            $lock = $new('order:1', 0.5);
            $lock->acquire();
            $delay(true);
            say('held');
            do {
                $before = $now();
                $held = $lock->isHeld();
            } while ($held);
            say([$before, $now(), $delay(), $lock->loss()]);
            hear();
            say([$lock->isHeld(), $lock->remaining()]);
            PHP);
        $worker->hear();
        $worker->pause();
        usleep(1_500_000);
        $resumed = hrtime(true) / 1e9;
        $worker->resume();
        [$before, $after, $noise, $loss] = $worker->hear();
        // The look that was under way may have begun before; the next one is the first.
        self::assertSoon($resumed, max($after, $resumed), $noise, 'isHeld() is false at once');
        self::assertSame('expired', $loss);
        usleep(600_000);
        $worker->say();
        self::assertSame([false, 0.0], $worker->hear(), 'nothing revives it');
        $worker->finish();
        self::assertNull(self::stored('order:1'));
    }
}
