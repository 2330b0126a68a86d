<?php

declare(strict_types=1);

namespace RedisLease\Tests\Waiting;

use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\Outcome;

use function RedisLease\Tests\Support\eventually;

/** Redis goes away under a wait: the wait goes on, and ends with a lock, or with what is in the way. */
final class OutageTest extends WaitingTestCase
{
    private const THROWS = 'pcntl_async_signals(true); pcntl_signal(SIGUSR1, static fn () => throw new DomainException("stop"));';

    public function testARedisThatIsBackWithinTheWaitGivesTheLock(): void
    {
        $owner = $this->heldLock('order:1');
        [$first, $second] = self::lineUp(2);
        self::$server->restart(keepData: false);
        $back = Outcome::now();
        $both = [$first, $second];
        $winner = eventually(static fn () => array_filter($both, static fn ($waiter) => $waiter->process->hasSaid()), 'one has it');
        self::assertCount(1, $winner);
        $outcome = $both[key($winner)]->outcome();
        self::assertTrue($outcome->answer && $outcome->isHeld);
        self::assertLessThan(0.5, $outcome->at - $back);
        self::assertGreaterThan($owner->fence(), $outcome->fence, 'although Redis lost the fence');
        self::awaitBlocked(1);
        self::assertTrue($both[key($winner)]->release());
        self::assertTrue($both[1 - key($winner)]->outcome()->answer, 'the other is in the line again');
        self::assertTrue($both[1 - key($winner)]->release());
        self::assertFalse($owner->release());
        self::assertNothingHeldOrQueued();
    }

    public function testARedisThatIsBackWithItsDataStillHasTheOwner(): void
    {
        $owner = $this->heldLock('order:1');
        [$waiter] = self::lineUp(1);
        self::$server->restart(keepData: true);
        self::awaitBlocked(1);
        self::assertTrue($owner->release());
        self::assertTrue($waiter->outcome()->answer);
        self::assertTrue($waiter->release());
        self::assertNothingHeldOrQueued();
    }

    public function testARedisThatStaysAwayEndsTheWaitAtItsDeadlineWithAConnectionException(): void
    {
        $owner = $this->heldLock('order:1');
        [$waiter] = self::lineUp(1, wait: 1.0);
        self::$server->kill();
        try {
            $outcome = $waiter->outcome();
        } finally {
            self::$server->restart(keepData: false);
        }
        // Unknown only where the end came between a question and its answer.
        self::assertMatchesRegularExpression('/^RedisLease.(Connection|OutcomeUnknown)Exception: /', $outcome->answer);
        self::assertFalse($outcome->isHeld);
        self::assertGreaterThanOrEqual(1.0, $outcome->seconds);
        self::assertLessThan(1.05 + $outcome->delay, $outcome->seconds);
        self::assertTrue($waiter->wait(5.0)->outcome()->answer, 'and then it is as if nothing had been');
        self::assertTrue($waiter->release());
        self::assertFalse($owner->release());
    }

    public function testAWaitThatBeginsWhileRedisIsAwayGetsTheLockWhenItComes(): void
    {
        $waiter = self::waiter()->ready();
        self::$server->kill();
        $waiter->wait(20.0);
        self::$server->restart(keepData: false);
        $back = Outcome::now();
        $outcome = $waiter->outcome();
        self::assertTrue($outcome->answer);
        self::assertLessThan(0.5, $outcome->at - $back);
        self::assertTrue($waiter->release());
    }

    public function testARedisThatHangsForAWhileCostsNoWaiterTheLock(): void
    {
        $owner = $this->heldLock('order:1');
        $waiter = self::waiter(args: ['connectTimeout' => 0.1, 'commandTimeout' => 0.1])->ready()->wait();
        self::awaitBlocked(1);
        self::$server->pause();
        $paused = Outcome::now();
        eventually(static fn () => Outcome::now() - $paused > 2.5, 'every slice of the wait has met the silence');
        self::$server->resume();
        eventually(static fn () => self::$server->command('PING') === 'PONG', 'it answers again');
        self::assertTrue($owner->release());
        $back = Outcome::now();
        $outcome = $waiter->outcome();
        self::assertTrue($outcome->answer && $outcome->isHeld);
        self::assertLessThan(self::LONGEST_SLICE, $outcome->at - $back);
        self::assertSame(self::stored('order:1') !== null, true);
        self::assertTrue($waiter->release());
        self::assertNothingHeldOrQueued();
    }

    /** The end of the block is only waited for briefly, but that is no silence of the server. */
    public function testARedisThatIsSlowAtTheDeadlineHasTheCommandTimeOutToAnswer(): void
    {
        $owner = $this->heldLock('order:1');
        $waiter = self::waiter(args: ['connectTimeout' => 5.0, 'commandTimeout' => 5.0])->ready()->wait(0.6);
        self::awaitBlocked(1);
        self::$server->pause();
        $paused = Outcome::now();
        eventually(static fn () => Outcome::now() - $paused > 1.0, 'the deadline has passed');
        self::$server->resume();
        $outcome = $waiter->outcome();
        self::assertFalse($outcome->answer);
        self::assertGreaterThan(1.0, $outcome->at - $paused);
        self::assertTrue($owner->release());
        self::assertNothingHeldOrQueued();
    }

    public function testAHandlerThatThrowsEndsAWaitWhileRedisIsAway(): void
    {
        $proxy = FaultProxy::start(self::$server);
        $proxy->newConnections('reject');
        $waiter = self::waiter(prepare: self::THROWS, args: ['dsn' => $proxy->dsn()])->ready();
        $late = [];
        for ($round = 0; $round < 10; $round++) {
            $before = $proxy->count('accepted');
            $waiter->wait();
            eventually(static fn () => $proxy->count('accepted') > $before + 1, 'it has tried more than once');
            $sent = Outcome::now();
            $waiter->process->signal(SIGUSR1);
            $outcome = $waiter->outcome();
            self::assertSame('DomainException: stop', $outcome->answer);
            self::assertFalse($outcome->isHeld);
            $late[] = $outcome->at - $sent;
        }
        self::assertLessThan(0.05, self::percentile($late, 0.8));
    }

    /** Nobody answers when it leaves the line, so it cannot wait for long that somebody does. */
    public function testAHandlerThatThrowsEndsAWaitOnARedisThatHangs(): void
    {
        $owner = $this->heldLock('order:1');
        $waiter = self::waiter(prepare: self::THROWS)->ready();
        for ($round = 0; $round < 3; $round++) {
            $waiter->wait();
            self::awaitBlocked(1);
            self::$server->pause();
            $sent = Outcome::now();
            $waiter->process->signal(SIGUSR1);
            $outcome = $waiter->outcome();
            self::$server->resume();
            self::assertSame('DomainException: stop', $outcome->answer);
            self::figure('handler that throws, Redis hangs: %.0f ms', 1e3 * ($outcome->at - $sent));
            self::assertLessThan(0.15, $outcome->at - $sent);
            self::awaitBlocked(0);
        }
        self::assertTrue($owner->release());
        self::assertNothingHeldOrQueued();
    }

    public function testAWaitWhileRedisIsAwayDoesNotSpin(): void
    {
        $proxy = FaultProxy::start(self::$server);
        $proxy->newConnections('reject');
        $waiter = self::waiter(args: ['dsn' => $proxy->dsn()])->ready()->wait(1.0);
        $outcome = $waiter->outcome();
        self::assertStringStartsWith('RedisLease\ConnectionException: ', $outcome->answer);
        self::figure('Redis away for 1 s: %d connections tried', $proxy->count('accepted'));
        self::assertLessThan(60, $proxy->count('accepted'));
    }
}
