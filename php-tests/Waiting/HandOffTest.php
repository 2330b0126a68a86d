<?php

declare(strict_types=1);

namespace RedisLease\Tests\Waiting;

use RedisLease\Tests\Support\Monitor;
use RedisLease\Tests\Support\MonitorLine;
use RedisLease\Tests\Support\Outcome;

use function RedisLease\Tests\Support\eventually;

/** A release hands the lock to the waiter that has waited longest, and to nobody else. */
final class HandOffTest extends WaitingTestCase
{
    public function testAReleaseWakesTheWaiterWithinMilliseconds(): void
    {
        self::assertHandsOver(static fn ($lock) => $lock->release());
    }

    public function testAForcedReleaseWakesTheWaiterWithinMilliseconds(): void
    {
        self::assertHandsOver(fn () => $this->lock('order:1')->forceRelease());
    }

    public function testARestoredLocksReleaseWakesTheWaiter(): void
    {
        self::assertHandsOver(fn ($lock) => \DistributedLock::restore(
            'order:1',
            $lock->detach(),
            connection: $this->connection(),
        )->release());
    }

    private function assertHandsOver(callable $release): void
    {
        $waiter = self::waiter()->ready();
        $seconds = [];
        for ($round = 0; $round < 41; $round++) {
            $lock = $this->heldLock('order:1');
            $waiter->wait();
            self::awaitBlocked(1);
            $released = Outcome::now();
            self::assertTrue($release($lock));
            $outcome = $waiter->outcome();
            self::assertTrue($outcome->answer && $outcome->isHeld);
            self::assertGreaterThan($lock->fence(), $outcome->fence);
            $seconds[] = $outcome->at - $released;
            self::assertLessThan(0.5, $outcome->at - $released - $outcome->delay, "round $round");
            self::assertTrue($waiter->release());
        }
        $waiter->wait(0.0)->outcome();
        $waiter->end();
        self::figure('hand-off p50 %.2f ms, p90 %.2f ms', 1e3 * self::percentile($seconds, 0.5), 1e3 * self::percentile($seconds, 0.9));
        self::assertLessThan(0.005, self::percentile($seconds, 0.5));
    }

    public function testAReleaseWakesOneOfManyWaiters(): void
    {
        $owner = $this->heldLock('order:1');
        $waiters = self::lineUp(6);
        $came = Outcome::now();
        $monitor = Monitor::start(self::$server);
        $owner->release();
        foreach ($waiters as $place => $waiter) {
            self::assertTrue($waiter->outcome()->answer);

            $claims = array_filter($monitor->commands(), self::isAttemptOfAWaiter(...));
            $handed = array_filter($claims, static fn (MonitorLine $line) => $line->words[13] !== '');
            self::assertCount(1, $handed, "round $place: the reservation went to one waiter");
            if (Outcome::now() - $came < 1.0) {
                self::assertCount(1, $claims, "round $place: nobody else came to look");
            }
            self::assertSame(5 - $place, self::blocked(), 'the others are still in the line');
            self::assertTrue($waiter->release());
        }
        $monitor->close();
        self::assertNothingHeldOrQueued();
    }

    public function testWaitersGetTheLockInTheOrderInWhichTheyCame(): void
    {
        $owner = $this->heldLock('order:1');
        $waiters = self::lineUp(8);
        $owner->release();
        $fences = $ends = [];
        foreach ($waiters as $waiter) {
            $outcome = $waiter->outcome();
            self::assertTrue($outcome->answer);
            [$fences[], $ends[]] = [$outcome->fence, $outcome->at];
            self::assertTrue($waiter->release());
        }
        self::assertSame(self::sorted($fences), $fences);
        self::assertSame(self::sorted($ends), $ends);
    }

    /** The server's own limit on a blocked client must not send it to the end of the line. */
    public function testAWaiterKeepsItsPlaceHoweverLongItWaits(): void
    {
        $owner = $this->heldLock('order:1');
        [$first] = self::lineUp(1);
        $came = Outcome::now();
        eventually(static fn () => Outcome::now() - $came > 3.0, 'three seconds have passed');
        [$second] = self::lineUp(1);
        eventually(static fn () => Outcome::now() - $came > 5.6, 'more than five seconds have passed');

        $owner->release();

        $outcome = $first->outcome();
        self::assertTrue($outcome->answer);
        self::assertSame(1, self::blocked(), 'who came later waits on');
        $first->release();
        self::assertGreaterThan($outcome->at, $second->outcome()->at);
        $second->release();
    }

    public function testTheReleaserCannotGetTheLockBackBeforeAWaiterThatIsQueued(): void
    {
        $waiter = self::waiter()->ready();
        for ($round = 0; $round < 50; $round++) {
            $lock = $this->heldLock('order:1');
            $waiter->wait();
            self::awaitBlocked(1);

            self::assertTrue($lock->release());
            self::assertFalse($lock->acquire(), "round $round");
            self::assertFalse($this->lock('order:1')->acquire(), "round $round, another lock of the releaser's");

            self::assertTrue($waiter->outcome()->answer);
            self::assertTrue($waiter->release());
        }
    }

    public function testTheReleaserThatWaitsAgainComesAfterThoseWhoWaitedBefore(): void
    {
        $lock = $this->heldLock('order:1');
        $waiters = self::lineUp(3);
        $last = 0;
        $lock->release();
        $again = self::waiter()->ready()->wait();
        foreach ([...$waiters, $again] as $waiter) {
            $outcome = $waiter->outcome();
            self::assertTrue($outcome->answer);
            self::assertGreaterThan($last, $outcome->fence);
            $last = $outcome->fence;
            $waiter->release();
        }
    }

    /** How long a lock is kept for somebody else is no reason to look: by then it will have an owner. */
    public function testWhoComesDuringAHandOverDoesNotComeAgainWhenItMustBeOver(): void
    {
        $owner = $this->heldLock('order:1');
        [$first] = self::lineUp(1);
        $newcomer = self::waiter()->ready();
        $first->process->pause();
        $owner->release();
        $monitor = Monitor::start(self::$server);
        $newcomer->wait();
        $came = Outcome::now();
        self::awaitBlocked(1);
        $first->process->resume();
        self::assertTrue($first->outcome()->answer);
        eventually(static fn () => Outcome::now() - $came > 0.4, 'the reservation would have ended');
        $looks = array_filter($monitor->commands(), static fn (MonitorLine $line) =>
            self::isAttemptOfAWaiter($line) && $line->words[13] === '');
        $monitor->close();
        self::assertCount(1, $looks);
        self::assertTrue($first->release());
        self::assertTrue($newcomer->outcome()->answer);
        self::assertTrue($newcomer->release());
    }

    private static function sorted(array $values): array
    {
        sort($values);

        return $values;
    }

    /** An acquire that may wait brings the wake list, and a reservation or the empty string. */
    private static function isAttemptOfAWaiter(MonitorLine $line): bool
    {
        return str_starts_with($line->name(), 'EVAL') && count($line->words) === 14;
    }
}
