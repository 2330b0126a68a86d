<?php

declare(strict_types=1);

namespace RedisLease\Tests\Waiting;

use RedisLease\Tests\Support\Outcome;
use RedisLease\Tests\Support\Waiter;

/** Signal handlers that use locks while a wait is going on: the same object, another lock, the same connection. */
final class HandlersTest extends WaitingTestCase
{
    private const HANDLER = 'pcntl_async_signals(true); pcntl_signal(SIGUSR1, static function () use (&$lock, &$connection, $args) { %s });';

    public function testAHandlerMayAskTheLockThatIsWaitedFor(): void
    {
        $owner = $this->heldLock('order:1');
        $waiter = $this->waiterWithHandler('say([$lock->isHeld(), $lock->remaining(), $lock->fence(), $lock->token(),
            $lock->resource(), $lock->owner(), $lock->release(), $lock->renew(), $lock->detach(), $lock->acquire()]);');
        $expected = [false, 0.0, null, null, 'order:1', $owner->token(), false, false, null, false];
        for ($signal = 0; $signal < 3; $signal++) {
            $waiter->process->signal(SIGUSR1);
            self::assertSame($expected, $waiter->process->hear());
        }
        self::assertSame(1, self::blocked(), 'the wait goes on');
        $this->assertGoesOn($owner, $waiter);
    }

    public function testAHandlerMayForceTheLockFreeThatIsWaitedFor(): void
    {
        $owner = $this->heldLock('order:1');
        $waiter = $this->waiterWithHandler('$lock->forceRelease();');
        $waiter->process->signal(SIGUSR1);
        $outcome = $waiter->outcome();
        self::assertTrue($outcome->answer && $outcome->isHeld);
        self::assertFalse($owner->release());
        self::assertTrue($waiter->release());
    }

    public function testAHandlerMayUseAnotherLockOnTheSameConnection(): void
    {
        $owner = $this->heldLock('order:1');
        $waiter = $this->waiterWithHandler('$other = new DistributedLock("other", 30.0, connection: $connection);
            say([$other->acquire(), $other->renew(), $other->release()]);');
        for ($signal = 0; $signal < 3; $signal++) {
            $waiter->process->signal(SIGUSR1);
            self::assertSame([true, true, true], $waiter->process->hear());
        }
        $this->assertGoesOn($owner, $waiter);
    }

    public function testAHandlerMayItselfWaitForAnotherLock(): void
    {
        [$owner, $other] = [$this->heldLock('order:1'), $this->heldLock('other')];
        $waiter = $this->waiterWithHandler('$other = new DistributedLock("other", 30.0, connection: $connection);
            say($other->acquire(0.05)); say([$other->acquire(30.0), $other->release()]);');
        $waiter->process->signal(SIGUSR1);
        self::assertFalse($waiter->process->hear());
        self::awaitBlocked(2);
        self::assertTrue($other->release());
        self::assertSame([true, true], $waiter->process->hear());
        self::awaitBlocked(1);
        $this->assertGoesOn($owner, $waiter);
    }

    public function testALockThatIsReleasedWhileAHandlerRunsIsThereWhenItReturns(): void
    {
        $owner = $this->heldLock('order:1');
        $waiter = $this->waiterWithHandler('say("begins"); hear();');
        $waiter->process->signal(SIGUSR1);
        self::assertSame('begins', $waiter->process->hear());
        self::assertTrue($owner->release());
        $returned = Outcome::now();
        $waiter->process->say('return');
        $outcome = $waiter->outcome();
        self::assertTrue($outcome->answer && $outcome->isHeld);
        self::assertLessThan(0.1, $outcome->at - $returned);
        self::assertTrue($waiter->release());
    }

    public function testAHandlerMayWaitForTheSameLockWithTheSameObject(): void
    {
        $owner = $this->heldLock('order:1');
        $waiter = $this->waiterWithHandler('say($lock->acquire(0.05)); say([$lock->acquire(30.0), $lock->fence()]);');
        $waiter->process->signal(SIGUSR1);
        self::assertFalse($waiter->process->hear());
        self::awaitBlocked(2);
        self::assertTrue($owner->release());

        [$acquired, $fence] = $waiter->process->hear();
        self::assertTrue($acquired);
        $outcome = $waiter->outcome();
        self::assertTrue($outcome->answer && $outcome->isHeld, 'the object holds the lock, so the wait is over');
        self::assertSame($fence, $outcome->fence, 'as one grant');
        self::assertTrue($waiter->release());
        self::assertNothingHeldOrQueued();
    }

    public function testAHandlerThatTakesTheLockWithTheSameObjectAndThrowsLeavesItFree(): void
    {
        $owner = $this->heldLock('order:1');
        $waiter = $this->waiterWithHandler('$lock->forceRelease(); $lock->acquire(1.0) && throw new DomainException("stop");');
        $waiter->process->signal(SIGUSR1);
        $outcome = $waiter->outcome();
        self::assertSame('DomainException: stop', $outcome->answer);
        self::assertFalse($outcome->isHeld);
        self::assertFalse($owner->release());
        self::assertNothingHeldOrQueued();
    }

    public function testAHandlerMayCloseTheConnection(): void
    {
        $owner = $this->heldLock('order:1');
        $waiter = $this->waiterWithHandler('$connection->close(); say("closed");');
        for ($signal = 0; $signal < 3; $signal++) {
            $waiter->process->signal(SIGUSR1);
            self::assertSame('closed', $waiter->process->hear());
        }
        $this->assertGoesOn($owner, $waiter);
    }

    public function testAHandlerMayDropTheLastReferenceToTheLock(): void
    {
        $owner = $this->heldLock('order:1');
        $worker = self::worker(<<<'PHP'
            pcntl_async_signals(true);
            $lock = new DistributedLock('order:1', 30.0, connection: $connection);
            pcntl_signal(SIGUSR1, static function () use (&$lock, &$connection) { $lock = $connection = null; gc_collect_cycles(); say('dropped'); });
            say('ready');
            say($lock->acquire(30.0));
            PHP);
        $worker->hear();
        self::awaitBlocked(1);
        $worker->signal(SIGUSR1);
        self::assertSame('dropped', $worker->hear());
        self::assertTrue($owner->release());
        self::assertTrue($worker->hear());
        $worker->finish();
        self::assertNothingHeldOrQueued();
    }

    /** PHP keeps signals back while a handler runs, also from the waits within it. */
    public function testASignalDuringAHandlersOwnWaitIsServedWhenThatHandlerReturns(): void
    {
        [$owner, $other] = [$this->heldLock('order:1'), $this->heldLock('other')];
        $waiter = $this->waiterWithHandler('static $first = true; if (!$first) { throw new DomainException("stop"); } $first = false;
            $other = new DistributedLock("other", 30.0, connection: $connection); say($other->acquire(30.0));');
        $waiter->process->signal(SIGUSR1);
        self::awaitBlocked(2);
        $waiter->process->signal(SIGUSR1);
        self::assertSame(2, self::blocked());
        self::assertTrue($other->release());
        self::assertTrue($waiter->process->hear(), 'the inner wait went on to its end');
        self::assertSame('DomainException: stop', $waiter->outcome()->answer);
        self::assertTrue($owner->release());
        self::assertNothingHeldOrQueued();
    }

    private function waiterWithHandler(string $handler): Waiter
    {
        [$waiter] = self::lineUp(1, prepare: sprintf(self::HANDLER, $handler));

        return $waiter;
    }

    private function assertGoesOn(\DistributedLock $owner, Waiter $waiter): void
    {
        $released = Outcome::now();
        self::assertTrue($owner->release());
        $outcome = $waiter->outcome();
        self::assertTrue($outcome->answer && $outcome->isHeld);
        self::assertLessThan(0.1, $outcome->at - $released - $outcome->delay);
        self::assertTrue($waiter->release());
        self::assertNothingHeldOrQueued();
    }
}
