<?php

declare(strict_types=1);

namespace RedisLease\Tests\Renewal;

use RedisLease\Tests\Support\Monitor;

use function RedisLease\Tests\Support\eventually;

/** What users of other libraries reported about automatic renewal does not happen here. */
final class PeersRenewalTest extends RenewalTestCase
{
    private const HOLD = <<<'PHP'
        $lock = $new('order:1', 0.6);
        $lock->acquire();
        say('held');
        hear();
        say([$lock->isHeld(), $lock->loss(), $lock->release()]);
        PHP;

    /** laravel#58349 asked for renewal for years; redisson#2515: none any more after one connection error. */
    public function testItGoesOnAfterTheConnectionHasFailed(): void
    {
        $worker = self::renewing(self::HOLD);
        $worker->hear();
        for ($error = 0; $error < 3; $error++) {
            self::$server->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
            $monitor = Monitor::start(self::$server);
            self::awaitRenewals($monitor, 2, "renewals after error $error");
            $monitor->close();
        }
        $worker->say();
        self::assertSame([true, null, true], $worker->hear());
        $worker->finish();
    }

    /** redisson#2714: the renewal goes on after an interrupted attempt to take the lock. */
    public function testAnAttemptThatIsInterruptedOrInVainIsNotRenewed(): void
    {
        self::needsPcntl();
        self::$server->command('SET', 'lock:order:1', 'another', 'PX', 60_000);
        $worker = self::renewing(<<<'PHP'
            pcntl_async_signals(true);
            pcntl_signal(SIGUSR1, static fn () => throw new DomainException());
            $lock = $new('order:1', 0.3);
            say($lock->acquire());
            try {
                say('waits');
                $lock->acquire(30.0);
            } catch (DomainException) {
                say([$lock->isHeld(), $lock->token()]);
            }
            hear();
            say($lock->isHeld());
            PHP);
        self::assertFalse($worker->hear());
        self::assertSame('waits', $worker->hear());
        eventually(static fn () => self::$server->command('EXISTS', 'lock~{lock:order:1}:waiter') === 1, 'it waits');
        $worker->signal(SIGUSR1);
        self::assertSame([false, null], $worker->hear());
        $monitor = Monitor::start(self::$server);
        self::$server->command('DEL', 'lock:order:1');
        usleep(600_000);
        self::assertSame(0, self::renewals($monitor));
        self::assertNull(self::stored('order:1'));
        $monitor->close();
        $worker->say();
        self::assertFalse($worker->hear());
        $worker->finish();
    }

    /** redisson#3521: the renewer keeps the lock of a process that hangs. */
    public function testAProcessThatHangsKeepsItsLockNoLongerThanMaxHoldAndATtl(): void
    {
        $worker = self::renewing(<<<'PHP'
            $lock = $new('order:1', 0.5);
            $lock->acquire();
            say('held');
            while (true);
            PHP, [], ['redis_lease.max_hold' => '1']);
        $worker->hear();
        $start = microtime(true);
        usleep(700_000);
        self::assertNotNull(self::stored('order:1'), 'until then it is kept');
        eventually(static fn () => self::stored('order:1') === null, 'the lock is free');
        self::assertLessThan(1.0 + 0.5 + 0.5, microtime(true) - $start);
        $worker->kill();
    }

    /** rslock: an extension that fails deletes the lock. */
    public function testARenewalThatIsRefusedLeavesTheLockAndIsTriedAgain(): void
    {
        $worker = self::renewing(self::HOLD);
        $worker->hear();
        $token = self::stored('order:1');
        self::$server->command('ACL', 'SETUSER', 'default', '-pexpire');
        self::$server->command('ACL', 'LOG', 'RESET');
        eventually(static fn () => self::$server->command('ACL', 'LOG') !== [], 'a renewal is refused');
        self::assertSame($token, self::stored('order:1'));
        self::$server->command('ACL', 'SETUSER', 'default', '+pexpire');
        $monitor = Monitor::start(self::$server);
        self::awaitRenewals($monitor, 2, 'it goes on');
        $monitor->close();
        $worker->say();
        self::assertSame([true, null, true], $worker->hear());
        $worker->finish();
    }

    /** redislock#88: a lock that is lost is asked for again and again, as if that were a passing fault. */
    public function testALostLockIsLostAtTheFirstAnswer(): void
    {
        $worker = self::renewing(self::HOLD);
        $worker->hear();
        $monitor = Monitor::start(self::$server);
        self::$server->command('SET', 'lock:order:1', 'another', 'PX', 60_000);
        self::awaitRenewals($monitor, 1, 'a renewal finds out');
        usleep(700_000);
        self::assertSame(0, self::renewals($monitor), 'and no other follows');
        $monitor->close();
        $worker->say();
        self::assertSame([false, 'taken', false], $worker->hear());
        $worker->finish();
        self::assertSame('another', self::stored('order:1'));
    }

    /** Waits for so many renewals from now on. */
    private static function awaitRenewals(Monitor $monitor, int $count, string $what): void
    {
        $seen = 0;
        eventually(static function () use ($monitor, $count, &$seen): bool {
            return ($seen += self::renewals($monitor)) >= $count;
        }, $what);
    }
}
