<?php

declare(strict_types=1);

namespace RedisLease\Tests\Waiting;

use RedisLease\Tests\Support\Monitor;
use RedisLease\Tests\Support\Outcome;

use function RedisLease\Tests\Support\eventually;

/** Signals and time limits while a worker waits: served at once, and nothing stays held or queued. */
final class SignalsTest extends WaitingTestCase
{
    private const ON = 'pcntl_async_signals(true);';
    private const TELLS = self::ON . 'pcntl_signal(SIGUSR1, static fn () => say(hrtime(true) / 1e9));';
    private const THROWS = self::ON . 'pcntl_signal(SIGUSR1, static fn () => throw new DomainException("stop"));';
    private const COUNTS = self::ON . '$count = 0; pcntl_signal(SIGALRM, static function () use (&$count) { $count++; });';

    public function testASignalHandlerRunsAtOnceAndTheWaitGoesOnInItsPlace(): void
    {
        $owner = $this->heldLock('order:1');
        [$first, $second] = self::lineUp(2, prepare: self::TELLS);
        $monitor = Monitor::start(self::$server);
        $late = [];
        for ($signal = 0; $signal < 20; $signal++) {
            $sent = Outcome::now();
            $first->process->signal(SIGUSR1);
            $late[] = $first->process->hear() - $sent;
        }
        self::figure('signal to handler: p50 %.2f ms, at most %.2f ms', 1e3 * self::percentile($late, 0.5), 1e3 * max($late));
        self::assertLessThan(0.05, self::percentile($late, 0.9));
        self::assertSame(2, self::blocked());
        $blocking = array_filter($monitor->commands(), static fn ($line) => $line->name() === 'BLPOP');
        self::assertSame([], $blocking, 'it has not left its place in the line');
        $monitor->close();

        $owner->release();

        self::assertTrue($first->outcome()->answer, 'the first in the line is still the first');
        $first->release();
        self::assertTrue($second->outcome()->answer);
        $second->release();
    }

    public function testAHandlerThatThrowsEndsTheWaitWithItsExceptionAndLeavesNothing(): void
    {
        $waiter = self::waiter(prepare: self::THROWS)->ready();
        $owner = $this->heldLock('order:1');
        $late = [];
        for ($round = 0; $round < 20; $round++) {
            $waiter->wait();
            self::awaitBlocked(1);
            $sent = Outcome::now();
            $waiter->process->signal(SIGUSR1);
            $outcome = $waiter->outcome();
            self::assertSame('DomainException: stop', $outcome->answer);
            self::assertFalse($outcome->isHeld);
            self::assertNull($outcome->fence);
            $late[] = $outcome->at - $sent - $outcome->delay;
            eventually(static fn () => self::blocked() === 0, 'it has left the line', 0.5);
        }
        self::figure('signal to exception: p50 %.2f ms, at most %.2f ms', 1e3 * self::percentile($late, 0.5), 1e3 * max($late));
        self::assertLessThan(0.05, self::percentile($late, 0.9));
        self::assertLessThan(0.25, max($late));
        self::assertTrue($owner->isHeld() && $owner->release());
        self::assertNothingHeldOrQueued();
        self::assertTrue($waiter->wait()->outcome()->answer, 'and the same object can wait again');
        $waiter->release();
    }

    public function testAHandlerThatThrowsEndsTheWaitOfSynchronizedAndTheSectionNeverRuns(): void
    {
        $owner = $this->heldLock('order:1');
        $worker = self::worker(self::THROWS . <<<'PHP'
            $lock = new DistributedLock('order:1', 30.0, connection: $connection);
            say('ready');
            try {
                $lock->synchronized(static fn () => say('the section ran'), 30.0);
            } catch (Throwable $thrown) {
                say([$thrown::class, $thrown->getMessage(), $thrown->getPrevious(), $lock->isHeld()]);
            }
            hear();
            PHP);
        $worker->hear();
        self::awaitBlocked(1);
        $worker->signal(SIGUSR1);
        self::assertSame(['DomainException', 'stop', null, false], $worker->hear());
        self::awaitBlocked(0);
        self::assertTrue($owner->release());
        self::assertNothingHeldOrQueued();
        $worker->say();
        $worker->finish();
    }

    public function testAHandlerThatExitsLeavesNothing(): void
    {
        $owner = $this->heldLock('order:1');
        $ends = ['exit' => ['exit(4);', 4], 'die' => ['die();', 0], 'a fatal error' => ['no_such_function();', 255],
            'the memory limit' => ['str_repeat("x", PHP_INT_MAX >> 8);', 255], 'an error' => ['throw new Error("x");', 0]];
        foreach ($ends as $how => [$code, $status]) {
            $end = self::ON . "pcntl_signal(SIGUSR1, static function () { $code });";
            [$waiter] = self::lineUp(1, prepare: $end);
            $waiter->process->signal(SIGUSR1);
            if ($how === 'an error' || $how === 'a fatal error') {
                self::assertStringStartsWith('Error: ', $waiter->outcome()->answer);
                $waiter->end();
            } else {
                self::assertSame($status, $waiter->process->wait(), $how);
            }
            eventually(static fn () => self::blocked() === 0, "$how: it has left the line", 0.5);
            self::assertTrue($owner->isHeld(), $how);
            self::assertSame($owner->token(), self::stored('order:1'), $how);
        }
        self::assertTrue($owner->release());
        self::assertNothingHeldOrQueued();
    }

    public function testAStormOfSignalsNeitherProlongsNorBreaksAWait(): void
    {
        $owner = $this->heldLock('order:1');
        $monitor = Monitor::start(self::$server);
        [$vain] = self::lineUp(1, wait: 1.0, prepare: self::COUNTS);
        $monitor->commands();
        $started = Outcome::now();
        for ($sent = 0; Outcome::now() - $started < 1.2; $sent++) {
            $vain->process->signal(SIGALRM);
            usleep(10_000);
        }
        $outcome = $vain->outcome();
        self::assertFalse($outcome->answer);
        self::assertGreaterThanOrEqual(1.0, $outcome->seconds);
        self::assertLessThan(1.05 + $outcome->delay, $outcome->seconds);
        self::assertGreaterThan(50, $sent);
        self::assertLessThan(10, count($monitor->commands()), 'a signal is no reason to ask Redis');

        [$waiter] = self::lineUp(1, prepare: self::COUNTS);
        for ($i = 0; $i < 30; $i++) {
            $waiter->process->signal(SIGALRM);
            usleep(10_000);
        }
        $owner->release();
        $released = Outcome::now();
        for ($i = 0; $i < 5; $i++) {
            $waiter->process->signal(SIGALRM);
        }
        $outcome = $waiter->outcome();
        self::assertTrue($outcome->answer);
        self::assertLessThan(0.1, $outcome->at - $released - $outcome->delay);
        self::assertTrue($waiter->release());
        $monitor->close();
    }

    public function testWithoutAsyncSignalsASignalDoesNotEndAWait(): void
    {
        $throw = 'pcntl_signal(SIGUSR1, static fn () => throw new DomainException("late"));';
        $owner = $this->heldLock('order:1');
        [$waiter] = self::lineUp(1, prepare: $throw);
        for ($i = 0; $i < 20; $i++) {
            $waiter->process->signal(SIGUSR1);
        }
        self::assertSame(1, self::blocked());
        $owner->release();
        $outcome = $waiter->outcome();
        self::assertTrue($outcome->answer && $outcome->isHeld, 'the signal waits for pcntl_signal_dispatch()');
        self::assertTrue($waiter->release());
    }

    public function testWithTicksAHandlerRunsWhenTheWaitHasEnded(): void
    {
        $owner = $this->heldLock('order:1');
        $worker = self::worker(<<<'PHP'
            pcntl_signal(SIGUSR1, static fn () => throw new DomainException());
            $lock = new DistributedLock('order:1', 30.0, connection: $connection);
            say('ready');
            $acquired = null;
            declare(ticks=1) {
                try {
                    $acquired = $lock->acquire(30.0);
                    $later = 1;
                } catch (DomainException) {
                    say([$acquired, $lock->isHeld(), isset($later)]);
                }
            }
            PHP);
        $worker->hear();
        self::awaitBlocked(1);
        $worker->signal(SIGUSR1);
        self::assertSame(1, self::blocked());
        $owner->release();
        self::assertSame([true, true, false], $worker->hear());
        $worker->finish();
        self::assertNothingHeldOrQueued();
    }

    public function testAnIgnoredSignalAndASignalWithoutAHandlerOfOursChangeNothing(): void
    {
        $owner = $this->heldLock('order:1');
        [$waiter] = self::lineUp(1, prepare: self::ON . 'pcntl_signal(SIGUSR1, SIG_IGN);');
        foreach ([SIGUSR1, SIGCHLD, SIGWINCH, SIGCONT, SIGURG, SIGSTOP, SIGCONT] as $signal) {
            $waiter->process->signal($signal);
        }
        self::assertSame(1, self::blocked());
        $owner->release();
        self::assertTrue($waiter->outcome()->answer);
        $waiter->release();
    }

    /** Most PHPs count CPU, and to wait costs none of it. Where PHP counts wall time, the limit ends the wait. */
    public function testATimeLimitIsNoLimitOfTheWait(): void
    {
        $owner = $this->heldLock('order:1');
        $waiter = self::waiter(prepare: 'set_time_limit(1);')->ready()->wait(1.7);
        self::awaitBlocked(1);
        if (!self::countsWallTime()) {
            $outcome = $waiter->outcome();
            self::assertFalse($outcome->answer, 'it survived');
            self::assertGreaterThanOrEqual(1.7, $outcome->seconds);
        } else {
            $code = $waiter->process->wait();
            self::assertStringContainsString('Maximum execution time', $waiter->process->errors());
            self::assertSame(255, $code);
        }
        eventually(static fn () => self::blocked() === 0, 'it has left the line', 0.5);
        self::assertTrue($owner->release());
    }

    private static function countsWallTime(): bool
    {
        ob_start();
        phpinfo(INFO_GENERAL);

        return (bool) preg_match('/Max Execution Timers.*enabled/i', (string) ob_get_clean());
    }
}
