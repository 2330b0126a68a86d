<?php

declare(strict_types=1);

namespace RedisLease\Tests\Waiting;

use RedisLease\Tests\Support\Monitor;
use RedisLease\Tests\Support\MonitorLine;
use RedisLease\Tests\Support\Outcome;

use function RedisLease\Tests\Support\eventually;

/** Holders and waiters that are killed or stopped: what it costs those who wait behind them. */
final class DeathTest extends WaitingTestCase
{
    public function testWhenTheHolderIsKilledTheNextWaiterHasTheLockAsSoonAsItsTtlHasPassed(): void
    {
        $waiter = self::waiter()->ready();
        $late = $soonest = [];
        for ($round = 0; $round < 3; $round++) {
            $holder = self::waiter(args: ['ttl' => 0.4])->ready()->wait(0.0);
            self::assertTrue($holder->outcome()->answer);
            $waiter->wait();
            self::awaitBlocked(1);
            $delay = self::serverDelay();

            $holder->process->kill();
            $free = Outcome::now() + self::keys()['lock:order:1'] / 1e3;

            $outcome = $waiter->outcome();
            self::assertTrue($outcome->answer);
            $soonest[] = $outcome->at - $free;
            $late[] = $outcome->at - $free - $outcome->delay - (self::serverDelay() - $delay);
            $waiter->release();
        }
        self::figure('holder killed: PTTL + %.1f ms median, %.1f ms at most', 1e3 * self::percentile($late, 0.5), 1e3 * max($late));
        self::assertGreaterThan(-0.01, min($soonest), 'nobody has it before');
        self::assertLessThan(0.05, self::percentile($late, 0.5));
        self::assertLessThan(0.3, max($late));
    }

    public function testAHolderThatIsStoppedLosesTheLockToAWaiterAndLearnsIt(): void
    {
        $holder = self::waiter(args: ['ttl' => 0.4])->ready()->wait(0.0);
        self::assertTrue($holder->outcome()->answer);
        [$waiter] = self::lineUp(1);

        $holder->process->pause();
        $free = Outcome::now() + self::keys()['lock:order:1'] / 1e3;

        $outcome = $waiter->outcome();
        self::assertTrue($outcome->answer);
        self::assertLessThan(0.3, $outcome->at - $free - $outcome->delay);
        $token = self::stored('order:1');
        $holder->process->resume();
        self::assertFalse($holder->release(), 'it has learnt it');
        self::assertSame($token, self::stored('order:1'), "the waiter's lock is untouched");
        self::assertTrue($waiter->release());
    }

    public function testWhenTheFirstWaiterIsKilledTheSecondHasTheLockAtTheRelease(): void
    {
        $owner = $this->heldLock('order:1');
        [$first, $second, $third] = self::lineUp(3);
        $first->process->kill();
        self::awaitBlocked(2);

        $released = Outcome::now();
        $owner->release();

        $outcome = $second->outcome();
        self::assertTrue($outcome->answer);
        self::assertLessThan(0.1, $outcome->at - $released - $outcome->delay);
        $second->release();
        self::assertTrue($third->outcome()->answer);
        $third->release();
        self::assertNothingHeldOrQueued();
    }

    public function testAWaiterKilledAtTheMomentOfTheReleaseDelaysTheNextByASliceAtMost(): void
    {
        $owner = $this->heldLock('order:1');
        [$first, $second] = self::lineUp(2);
        // Stopped, it stays in the line; so the reservation goes to one who never reads it.
        $first->process->pause();
        $released = Outcome::now();
        $owner->release();
        $first->process->kill();

        $outcome = $second->outcome();
        self::assertTrue($outcome->answer);
        self::figure('waiter died with the reservation: the next after %.2f s', $outcome->at - $released);
        self::assertLessThan(self::LONGEST_SLICE, $outcome->at - $released - $outcome->delay);
        $second->release();
        self::assertNothingHeldOrQueued();
    }

    public function testAWaiterThatStopsWithTheReservationKeepsTheLockFromOthersForATenthOfASecondOnly(): void
    {
        $owner = $this->heldLock('order:1');
        [$stopped] = self::lineUp(1);
        $stopped->process->pause();
        $owner->release();
        $lock = $this->lock('order:1');

        $left = self::$server->command('PTTL', 'lock:order:1');
        self::assertGreaterThan(0, $left, 'reserved');
        self::assertLessThanOrEqual(100, $left);
        eventually(static fn () => $lock->acquire(), 'the lock is free again', 0.3);

        $stopped->process->resume();
        self::awaitBlocked(1);
        self::assertTrue($lock->isHeld(), 'the stopped waiter came too late, and waits on');
        self::assertTrue($lock->release());
        self::assertTrue($stopped->outcome()->answer);
        $stopped->release();
    }

    public function testAReservedLockIsFreeToWhoAsksAndCannotBeForced(): void
    {
        for ($round = 0; ; $round++) {
            $owner = $this->heldLock('order:1');
            [$stopped, $next] = self::lineUp(2);
            $stopped->process->pause();
            $owner->release();

            $answers = [$owner->owner(), $owner->forceRelease(), $owner->acquire(), $owner->renew()];
            $reserved = self::stored('order:1');
            $stopped->process->resume();
            $gotIt = $stopped->outcome()->answer;
            $stopped->release();
            self::assertTrue($next->outcome()->answer);
            $next->release();
            // On a machine that is busy otherwise, the tenth of a second may be over too soon.
            if ($reserved !== null || $round === 10) {
                break;
            }
        }
        self::assertSame([null, false, false, false], $answers);
        self::assertStringStartsWith('reserved:', $reserved);
        self::assertTrue($gotIt);
    }

    public function testALockKeptForNobodyIsAnybodysAtOnce(): void
    {
        foreach ([0.0, 5.0] as $wait) {
            $owner = $this->heldLock('order:1');
            // Somebody waits, and then nobody does: the release does not know.
            self::assertFalse($this->lock('order:1')->acquire(0.01));
            eventually(static fn () => self::blocked() === 0, 'it has left');
            self::assertTrue($owner->release());
            self::assertStringStartsWith('reserved:', (string) self::stored('order:1'));
            $next = $this->lock('order:1');
            $started = Outcome::now();

            self::assertTrue($next->acquire($wait));

            self::assertLessThan(0.09, Outcome::now() - $started);
            self::assertSame(0, self::$server->command('LLEN', self::wakeList()), 'nobody else will be woken for it');
            self::assertTrue($next->release());
        }
    }

    public function testAWaiterThatIsInterruptedWithTheReservationPassesItOn(): void
    {
        $throw = 'pcntl_async_signals(true); pcntl_signal(SIGUSR1, static fn () => throw new Exception("stop"));';
        for ($round = 0; ; $round++) {
            $owner = $this->heldLock('order:1');
            [$first, $second] = self::lineUp(2, prepare: $throw);
            $monitor = Monitor::start(self::$server);
            $first->process->pause();
            $first->process->signal(SIGUSR1);
            $owner->release();
            $first->process->resume();

            $interrupted = $first->outcome();
            self::assertSame('Exception: stop', $interrupted->answer);
            $outcome = $second->outcome();
            self::assertTrue($outcome->answer);
            $second->release();
            $gaveBack = array_filter($monitor->commands(), static fn (MonitorLine $line) =>
                count($line->words) === 7 && str_starts_with($line->words[6], 'reserved:'));
            $monitor->close();
            self::assertNothingHeldOrQueued();
            // A machine that is busy otherwise may take longer than the reservation lasts.
            if ($gaveBack !== [] || $round === 5) {
                break;
            }
        }
        self::assertNotEmpty($gaveBack);
        self::assertLessThan(0.1, $outcome->at - $interrupted->at - $outcome->delay);
    }
}
