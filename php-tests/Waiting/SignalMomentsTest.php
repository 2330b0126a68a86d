<?php

declare(strict_types=1);

namespace RedisLease\Tests\Waiting;

use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\Waiter;

use function RedisLease\Tests\Support\eventually;

/** A handler that throws at the very moment at which the wait ends by itself: it has run, its exception wins. */
final class SignalMomentsTest extends WaitingTestCase
{
    private const THROWS = 'pcntl_async_signals(true); pcntl_signal(SIGUSR1, static fn () => throw new DomainException("stop"));';

    /** Tells from where the exception came, and whether the lock is held then. */
    private const ROUNDS = self::THROWS . <<<'PHP'
        say('ready');
        while (($wait = hear()) !== null) {
            $answer = null;
            say(hrtime(true));
            try {
                $answer = $lock->acquire($wait);
                for ($start = hrtime(true); hrtime(true) - $start < 1e9;);
                $from = 'nowhere';
            } catch (DomainException) {
                $from = $answer === null ? 'acquire' : 'after it';
            }
            say([$from, $answer, $lock->isHeld(), $lock->token()]);
            hear();
            $lock->release();
            say('released');
        }
        exit;
        PHP;

    private FaultProxy $proxy;

    protected function setUp(): void
    {
        parent::setUp();
        $this->proxy = FaultProxy::start(self::$server);
    }

    protected function tearDown(): void
    {
        $this->proxy->stop();
    }

    public function testASignalDuringTheAttemptThatTakesTheLockGivesTheLockBack(): void
    {
        foreach ([0.0, 30.0] as $wait) {
            $waiter = $this->connectedWaiter();
            $this->signalDuringAnAttempt($waiter, $wait);
            self::assertStopped($waiter);
            self::assertNothingHeldOrQueued("wait $wait");
        }
    }

    public function testASignalDuringTheLastAttemptInVainWinsOverFalse(): void
    {
        $owner = $this->heldLock('order:1');
        $waiter = $this->connectedWaiter();
        $this->signalDuringAnAttempt($waiter, 0.0);
        self::assertStopped($waiter);
        self::assertTrue($owner->release());
        self::assertNothingHeldOrQueued();
    }

    public function testASignalDuringAnAttemptThatFailsWinsOverTheFailure(): void
    {
        self::$server->command('RPUSH', 'lock:order:1', 'no lock');
        foreach ([0.0, 30.0] as $wait) {
            $waiter = $this->connectedWaiter();
            $this->signalDuringAnAttempt($waiter, $wait);
            self::assertStopped($waiter);
            $waiter->wait($wait);
            self::assertStringContainsString('WRONGTYPE', $waiter->outcome()->answer, 'what it would have been');
        }
    }

    public function testASignalBeforeAnAnswerThatNeverComesWinsOverTheUnknownOutcome(): void
    {
        foreach (['request', 'reply'] as $lost) {
            $waiter = $this->connectedWaiter(['connectTimeout' => 0.2, 'commandTimeout' => 0.2]);
            $this->proxy->pass();
            $this->proxy->hold($lost);
            $this->proxy->newConnections('hang');
            $waiter->wait(0.0);
            eventually(fn () => str_contains($this->proxy->seen('request'), 'EVALSHA'), 'it has asked');
            $waiter->process->signal(SIGUSR1);
            self::assertStopped($waiter);
            $this->proxy->cut();
            $this->proxy->pass();
            $waiter->end();
            self::assertNothingHeldOrQueued("$lost: the end of the request gave back what may have been taken");
        }
    }

    /** A question that may have been answered is asked again, but not for the whole wait without a look at PHP. */
    public function testASignalDuringAnAttemptThatIsNeverAnsweredEndsTheWaitAfterTheTimeouts(): void
    {
        foreach (['request', 'reply'] as $lost) {
            $owner = $this->heldLock('order:1');
            $waiter = $this->connectedWaiter(['connectTimeout' => 0.15, 'commandTimeout' => 0.15]);
            $this->proxy->pass();
            $this->proxy->hold($lost);
            $this->proxy->newConnections('hang');
            $waiter->wait(8.0);
            eventually(fn () => str_contains($this->proxy->seen('request'), 'EVALSHA'), 'it has asked');
            $waiter->process->signal(SIGUSR1);
            $outcome = $waiter->outcome();
            self::assertSame('DomainException: stop', $outcome->answer);
            self::assertLessThan(0.5 + $outcome->delay, $outcome->seconds, "$lost lost");
            $this->proxy->cut();
            $this->proxy->pass();
            self::assertTrue($owner->release());
        }
    }

    /** A stopped process, whose signal and whose reservation are both there when it goes on. */
    public function testASignalThatMeetsTheReservationGivesTheLockToTheNext(): void
    {
        for ($round = 0; $round < 10; $round++) {
            $owner = $this->heldLock('order:1');
            [$first] = self::lineUp(1, prepare: self::THROWS);
            [$second] = self::lineUp(1);
            $first->process->pause();
            $first->process->signal(SIGUSR1);
            $owner->release();
            $first->process->resume();
            self::assertStopped($first);
            self::assertTrue($second->outcome()->answer, "round $round");
            $second->release();
        }
        self::assertNothingHeldOrQueued();
    }

    /**
     * The lock is released and the signal sent within the same millisecond, in any order, so that the signal
     * meets every step of the way from the reservation to the return.
     */
    public function testASignalAtAnyMomentOfAHandOverEitherEndsTheWaitOrComesAfterIt(): void
    {
        $waiter = self::waiter(prepare: self::ROUNDS)->ready();
        $ways = $between = ['acquire' => 0, 'after it' => 0];
        mt_srand(4);
        // Where the machine has it that nearly all end in one way, some more.
        for ($round = 0; $round < 250 || ($round < 1500 && min($ways) <= 10); $round++) {
            $owner = $this->heldLock('order:1');
            $waiter->process->say(30.0);
            $waiter->process->hear();
            self::awaitBlocked(1);
            $moment = hrtime(true) + mt_rand(50_000, 500_000);
            $owner->release();
            while (hrtime(true) < $moment);
            $waiter->process->signal(SIGUSR1);
            [$from, $answer, $isHeld, $token] = $waiter->process->hear();
            $stored = self::stored('order:1');
            $ways[$from]++;
            self::assertSame($answer, $from === 'acquire' ? null : true, "round $round");
            // Between acquire()'s last look for signals and PHP's next one lies a moment that is nobody's.
            $between['acquire'] += (int) ($from === 'acquire' && $isHeld);
            if ($from === 'after it' || $isHeld) {
                self::assertTrue($isHeld, "round $round");
                self::assertSame($token, $stored, "round $round");
            } else {
                self::assertNull($token, "round $round");
                self::assertStringStartsWith('reserved:', $stored ?? 'reserved:', "round $round");
            }
            $waiter->process->say('go on');
            self::assertSame('released', $waiter->process->hear());
            self::$server->command('DEL', 'lock:order:1', self::wakeList());
        }
        self::figure('the signal ended %d waits and came after %d; %d between', $ways['acquire'], $ways['after it'], $between['acquire']);
        self::assertGreaterThan(10, min($ways));
        self::assertLessThan(10, $between['acquire']);
    }

    public function testASignalAtAnyMomentAroundTheDeadlineEitherEndsTheWaitOrComesAfterIt(): void
    {
        $owner = $this->heldLock('order:1');
        $waiter = self::waiter(prepare: self::ROUNDS)->ready();
        $ways = ['acquire' => 0, 'after it' => 0];
        mt_srand(5);
        for ($round = 0; $round < 120; $round++) {
            $waiter->process->say(0.008);
            $moment = $waiter->process->hear() + mt_rand(6_000_000, 10_000_000);
            while (hrtime(true) < $moment);
            $waiter->process->signal(SIGUSR1);
            [$from, $answer, $isHeld, $token] = $waiter->process->hear();
            $ways[$from]++;
            self::assertSame([$from === 'acquire' ? null : false, false, null], [$answer, $isHeld, $token], "round $round");
            $waiter->process->say('go on');
            self::assertSame('released', $waiter->process->hear());
        }
        self::figure('the signal ended %d waits and came after %d', $ways['acquire'], $ways['after it']);
        self::assertGreaterThan(10, min($ways));
        self::assertTrue($owner->release());
        self::assertNothingHeldOrQueued();
    }

    /** @param array<string, mixed> $args */
    private function connectedWaiter(array $args = []): Waiter
    {
        $prepare = self::THROWS . '$connection->ping();';

        return self::waiter(prepare: $prepare, args: $args + ['dsn' => $this->proxy->dsn()])->ready();
    }

    /** The answer is there and held back, so the signal surely comes after the question and before the answer. */
    private function signalDuringAnAttempt(Waiter $waiter, float $wait): void
    {
        $this->proxy->pass();
        $this->proxy->hold('reply');
        $waiter->wait($wait);
        eventually(fn () => $this->proxy->seen('reply') !== '', 'the server has answered');
        $waiter->process->signal(SIGUSR1);
        $this->proxy->deliver();
    }

    private static function assertStopped(Waiter $waiter): void
    {
        $outcome = $waiter->outcome();
        self::assertSame('DomainException: stop', $outcome->answer);
        self::assertFalse($outcome->isHeld);
    }
}
