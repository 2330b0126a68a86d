<?php

declare(strict_types=1);

namespace RedisLease\Tests\Waiting;

use RedisLease\Tests\Support\Monitor;
use RedisLease\Tests\Support\Outcome;
use RedisLease\Tests\Support\Proc;

use function RedisLease\Tests\Support\eventually;
use function RedisLease\Tests\Support\timed;

/** What users of other libraries reported about waiting: each symptom once, as it must not be here. */
final class PeersWaitingTest extends WaitingTestCase
{
    private const THROWS = 'pcntl_async_signals(true); pcntl_signal(SIGUSR1, static fn () => throw new DomainException("stop"));';

    public function testThereIsNoWaitWithoutALimit(): void
    {
        $owner = $this->heldLock('order:1');
        $lock = $this->lock('order:1');
        foreach ([[], [0.0], [0.1]] as $arguments) {
            [$acquired, $seconds] = timed(static fn () => $lock->acquire(...$arguments));
            self::assertFalse($acquired);
            self::assertLessThan(0.5, $seconds);
        }
        foreach ([INF, NAN, -1.0, 1e300] as $unlimited) {
            self::assertStringContainsString('$wait', self::refused(static fn () => $lock->acquire($unlimited)));
        }
        self::assertStringContainsString('null', self::refused(static fn () => $lock->acquire(null)));
        self::assertTrue($owner->isHeld());
    }

    public function testAWaitDoesNotSleepPastItsDeadline(): void
    {
        $owner = $this->heldLock('order:1');
        $lock = $this->lock('order:1');
        foreach ([0.01, 0.05, 0.11, 0.26, 0.51] as $wait) {
            [[$acquired, $all], $ours] = Proc::timed(static fn () => timed(static fn () => $lock->acquire($wait)));
            self::assertFalse($acquired);
            self::assertGreaterThanOrEqual($wait, $all);
            self::assertLessThan($wait + 0.05, $ours);
        }
        self::assertTrue($owner->isHeld());
    }

    public function testALockThatIsFreeForAMomentIsNotMissedByACoarsePoll(): void
    {
        $waiter = self::waiter()->ready();
        for ($round = 0; $round < 20; $round++) {
            $lock = $this->heldLock('order:1');
            $waiter->wait(1.0);
            self::awaitBlocked(1);
            // Free for no time at all: the next customers are at the door already.
            $lock->release();
            $barging = $this->lock('order:1');
            self::assertFalse($barging->acquire());
            self::assertTrue($waiter->outcome()->answer, "round $round");
            $waiter->release();
        }
    }

    public function testTheLineIsNotStuckOnDeadWaiters(): void
    {
        $owner = $this->heldLock('order:1');
        $dead = self::lineUp(10);
        [$alive] = self::lineUp(1);
        foreach ($dead as $waiter) {
            $waiter->process->signal(SIGKILL);
        }
        $released = Outcome::now();
        self::assertTrue($owner->release());
        $outcome = $alive->outcome();
        self::assertTrue($outcome->answer);
        self::assertLessThan(self::LONGEST_SLICE, $outcome->at - $released);
        self::assertTrue($alive->release());
        self::assertNothingHeldOrQueued();
    }

    public function testTheLineIsNotStuckOnWaitersThatTheNetworkLost(): void
    {
        $owner = $this->heldLock('order:1');
        $lost = self::lineUp(3);
        [$alive] = self::lineUp(1);
        // Stopped processes keep their connections, as machines do that the network has lost.
        foreach ($lost as $waiter) {
            $waiter->process->pause();
        }
        $released = Outcome::now();
        self::assertTrue($owner->release());
        $outcome = $alive->outcome();
        self::assertTrue($outcome->answer);
        self::assertLessThan(self::LONGEST_SLICE, $outcome->at - $released);
        self::assertTrue($alive->release());
        foreach ($lost as $waiter) {
            $waiter->process->kill();
        }
        self::assertNothingHeldOrQueued();
    }

    /** From the refusal to the place in the line there is a moment in which a release finds nobody blocked. */
    public function testAReleaseInTheMomentBeforeTheWaiterBlocksIsNotMissed(): void
    {
        $waiter = self::waiter()->ready();
        $slow = [];
        mt_srand(6);
        for ($round = 0; $round < 150; $round++) {
            $lock = $this->heldLock('order:1');
            $waiter->wait();
            $moment = hrtime(true) + mt_rand(0, 1_000_000);
            while (hrtime(true) < $moment);
            $lock->release();
            $released = Outcome::now();
            $outcome = $waiter->outcome();
            self::assertTrue($outcome->answer);
            $slow[] = $outcome->at - $released - $outcome->delay;
            $waiter->release();
        }
        self::figure('release at any moment: the waiter has it after %.1f ms at most', 1e3 * max($slow));
        self::assertLessThan(0.5, max($slow));
    }

    public function testALostWakeUpCostsASliceAndNotTheLock(): void
    {
        $owner = $this->heldLock('order:1');
        [$waiter] = self::lineUp(1);
        // An operator, or an old client, deletes the key and wakes nobody.
        self::$server->command('DEL', 'lock:order:1');
        $deleted = Outcome::now();
        $outcome = $waiter->outcome();
        self::assertTrue($outcome->answer);
        self::assertLessThan(self::LONGEST_SLICE, $outcome->at - $deleted);
        $waiter->release();
        self::assertFalse($owner->release());
    }

    public function testAnAbortedWaitEndsAtOnceAndNotAfterItsSlice(): void
    {
        $owner = $this->heldLock('order:1');
        $waiter = self::waiter(prepare: self::THROWS)->ready();
        $late = [];
        for ($round = 0; $round < 10; $round++) {
            $waiter->wait();
            self::awaitBlocked(1);
            $sent = Outcome::now();
            $waiter->process->signal(SIGUSR1);
            $outcome = $waiter->outcome();
            self::assertSame('DomainException: stop', $outcome->answer);
            $late[] = $outcome->at - $sent;
        }
        self::assertLessThan(0.05, self::percentile($late, 0.8));
        self::assertTrue($owner->isHeld());
    }

    public function testAWaiterIsNoBusyLoop(): void
    {
        $owner = $this->heldLock('order:1');
        [$waiter] = self::lineUp(1);
        $monitor = Monitor::start(self::$server);
        [$cpu, $start] = [self::cpu($waiter->process->pid()), Outcome::now()];
        eventually(static fn () => Outcome::now() - $start > 1.6, 'it has waited for a while');
        $asked = array_filter($monitor->commands(), static fn ($line) => $line->name() !== 'INFO');
        $monitor->close();
        self::figure('a wait of 1.6 s: %d commands, %d ticks of CPU', count($asked), self::cpu($waiter->process->pid()) - $cpu);
        self::assertLessThanOrEqual(2, count($asked));
        self::assertLessThanOrEqual(2, self::cpu($waiter->process->pid()) - $cpu);
        $owner->release();
        self::assertTrue($waiter->outcome()->answer);
        $waiter->release();
    }

    public function testALongWaitLeaksNoMemory(): void
    {
        $owner = $this->heldLock('order:1');
        $count = 'pcntl_async_signals(true); $count = 0; pcntl_signal(SIGUSR1, static function () use (&$count) { say(++$count); });';
        [$waiter] = self::lineUp(1, prepare: $count);
        $wake = static function (int $times) use ($waiter): void {
            for ($i = 0; $i < $times; $i++) {
                $waiter->process->signal(SIGUSR1);
                $waiter->process->hear();
            }
        };
        $wake(50);
        $before = Proc::memory($waiter->process->pid());
        $wake(300);
        self::assertLessThan(200, Proc::memory($waiter->process->pid()) - $before);
        $owner->release();
        self::assertTrue($waiter->outcome()->answer);
        $waiter->release();
    }

    /** The server gives the reservation to a waiter in the moment in which its time is up. */
    public function testAReservationPoppedByAWaiterWhoseTimeWasUpIsNotLost(): void
    {
        $short = self::waiter()->ready();
        $patient = self::waiter()->ready();
        $lost = $took = 0;
        mt_srand(7);
        for ($round = 0; $round < 100; $round++) {
            $lock = $this->heldLock('order:1');
            $begin = Outcome::now();
            $short->wait(0.02);
            while (self::blocked() === 0 && Outcome::now() - $begin < 0.015);
            $patient->wait();
            $moment = $begin + mt_rand(19_000, 22_000) / 1e6;
            while (Outcome::now() < $moment);
            $lock->release();
            $released = Outcome::now();
            $outcome = $short->outcome();
            if ($outcome->answer) {
                $took++;
                self::assertTrue($outcome->isHeld);
                $released = Outcome::now();
                self::assertTrue($short->release());
            }
            $next = $patient->outcome();
            self::assertTrue($next->answer);
            $lost += (int) ($next->at - $released - $next->delay > 0.15);
            self::assertLessThan(self::LONGEST_SLICE, $next->at - $released);
            $patient->release();
        }
        self::figure('100 releases as a wait ended: %d taken by it, %d lost for a slice', $took, $lost);
        self::assertGreaterThan(5, min($took, 100 - $took));
        self::assertLessThanOrEqual(1, $lost);
    }

    /** CPU time of a process, in the kernel's ticks of 10 ms. */
    private static function cpu(int $pid): int
    {
        $fields = explode(' ', substr(strrchr((string) file_get_contents("/proc/$pid/stat"), ')'), 2));

        return (int) $fields[11] + (int) $fields[12];
    }

    private static function refused(callable $action): string
    {
        try {
            $action();
        } catch (\TypeError | \ValueError $refusal) {
            return $refusal->getMessage();
        }
        self::fail('it was accepted');
    }
}
