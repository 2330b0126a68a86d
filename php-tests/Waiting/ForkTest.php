<?php

declare(strict_types=1);

namespace RedisLease\Tests\Waiting;

use RedisLease\Tests\Support\Outcome;

/** Processes that fork while they wait, or whose children wait: each stands in the line for itself. */
final class ForkTest extends WaitingTestCase
{
    /** The handler forks, and both processes go on with the wait they were in. */
    private const FORKS_WHILE_WAITING = <<<'PHP'
        pcntl_async_signals(true);
        pcntl_signal(SIGUSR1, static fn () => pcntl_fork());
        $parent = getmypid();
        $lock = new DistributedLock('order:1', 30.0, connection: $connection);
        say('ready');
        $acquired = $lock->acquire(30.0);
        say([$acquired, $lock->isHeld(), $lock->token(), $lock->fence(), hrtime(true) / 1e9, getmypid() === $parent]);
        if (getmypid() === $parent) {
            hear();
            $lock->release();
            pcntl_wait($status);
            say(pcntl_wifexited($status) && pcntl_wexitstatus($status) === 0);
        } else {
            usleep(20_000);
            say(['child releases', $lock->release(), hrtime(true) / 1e9]);
        }
        PHP;

    public function testAChildForkedWhileWaitingTakesAPlaceOfItsOwnAndNoWakeUpIsLost(): void
    {
        for ($round = 0; $round < 2; $round++) {
            $owner = $this->heldLock('order:1');
            $worker = self::worker(self::FORKS_WHILE_WAITING);
            $worker->hear();
            self::awaitBlocked(1);
            $worker->signal(SIGUSR1);
            self::awaitBlocked(2);
            self::assertCount(2, array_unique(self::clients(' flags=b')));
            self::assertTrue($owner->release());
            $this->assertBothHadItAlone($worker);
            self::assertNothingHeldOrQueued();
        }
    }

    public function testAChildThatExitsInTheHandlerDoesNotTakeItsParentsPlaceAlong(): void
    {
        $owner = $this->heldLock('order:1');
        $exit = 'pcntl_async_signals(true); pcntl_signal(SIGUSR1, static function () { %s });';
        $ways = ['if (pcntl_fork() === 0) { exit(0); } pcntl_wait($status);',
            'global $connection; if (pcntl_fork() === 0) { $connection->close(); exit(0); } pcntl_wait($status);',
            'if (pcntl_fork() === 0) { pcntl_exec("/bin/true"); } pcntl_wait($status);'];
        foreach ($ways as $way) {
            [$waiter] = self::lineUp(1, prepare: sprintf($exit, $way . ' say("forked");'));
            $waiter->process->signal(SIGUSR1);
            self::assertSame('forked', $waiter->process->hear());
            self::assertSame(1, self::blocked(), $way);
            self::assertTrue($owner->release(), $way);
            $released = Outcome::now();
            $outcome = $waiter->outcome();
            self::assertTrue($outcome->answer, $way);
            self::assertLessThan(0.1, $outcome->at - $released, $way);
            $waiter->process->kill();
            self::$server->command('DEL', 'lock:order:1');
            $owner = $this->heldLock('order:1');
        }
        $owner->release();
        self::assertNothingHeldOrQueued();
    }

    public function testAChildOfAWorkerThatHasWaitedOpensItsOwnSecondConnection(): void
    {
        $owner = $this->heldLock('order:1');
        $worker = self::worker(<<<'PHP'
            $lock = new DistributedLock('order:1', 30.0, connection: $connection);
            say('ready');
            say($lock->acquire(30.0));
            $lock->release();
            // Its idle second connection is inherited by both.
            hear();
            if (pcntl_fork() === 0) {
                say(['child', $lock->acquire(30.0), $lock->release()]);
                exit(0);
            }
            say(['parent', $lock->acquire(30.0), $lock->release()]);
            pcntl_wait($status);
            PHP);
        $worker->hear();
        self::awaitBlocked(1);
        $owner->release();
        self::assertTrue($worker->hear());
        self::assertTrue($owner->acquire(1.0));
        $worker->say();
        self::awaitBlocked(2);
        self::assertTrue($owner->release());
        $both = [$worker->hear(), $worker->hear()];
        sort($both);
        self::assertSame([['child', true, true], ['parent', true, true]], $both);
        $worker->finish();
        self::assertNothingHeldOrQueued();
    }

    public function testAHoldersChildMayWaitForItsParentsLock(): void
    {
        $worker = self::worker(<<<'PHP'
            $lock = new DistributedLock('order:1', 30.0, connection: $connection);
            $lock->acquire();
            if (pcntl_fork() === 0) {
                $acquired = $lock->acquire(30.0);
                say([$acquired, $lock->isHeld(), $lock->fence(), hrtime(true) / 1e9]);
                exit(0);
            }
            say('forked');
            hear();
            say([$lock->fence(), hrtime(true) / 1e9]);
            $lock->release();
            pcntl_wait($status);
            say($status);
            PHP);
        $worker->hear();
        self::awaitBlocked(1);
        $worker->say();
        [$fence, $released] = $worker->hear();
        [$acquired, $held, $childsFence, $at] = $worker->hear();
        self::assertTrue($acquired && $held);
        self::assertGreaterThan($fence, $childsFence);
        self::assertLessThan(0.1, $at - $released);
        self::assertSame(0, $worker->hear());
        $worker->finish();
        self::assertNothingHeldOrQueued();
    }

    /** Parent and child get the lock one after the other, each as an owner of its own, each woken by a release. */
    private function assertBothHadItAlone(\RedisLease\Tests\Support\Worker $worker): void
    {
        $tokens = [];
        $released = Outcome::now();
        for ($turn = 0; $turn < 2; $turn++) {
            [$acquired, $isHeld, $token, , $at, $isParent] = $worker->hear();
            self::assertTrue($acquired && $isHeld);
            self::assertSame($token, self::stored('order:1'), 'whoever says so has it');
            self::assertLessThan(0.2, $at - $released, $isParent ? 'the parent was woken' : 'the child was woken');
            $tokens[] = $token;
            if ($isParent) {
                $released = Outcome::now();
                $worker->say();
            } else {
                [, $gaveBack, $released] = $worker->hear();
                self::assertTrue($gaveBack);
            }
        }
        self::assertNotSame(...$tokens);
        self::assertTrue($worker->hear(), 'the child ended well');
        $worker->finish();
    }
}
