<?php

declare(strict_types=1);

namespace RedisLease\Tests\Waiting;

use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\Outcome;

use function RedisLease\Tests\Support\eventually;

/** The connection that a wait blocks on: opened once, used again, free when a wait is given up, done without. */
final class SecondLinkTest extends WaitingTestCase
{
    private const THROWS = 'pcntl_async_signals(true); pcntl_signal(SIGUSR1, static fn () => throw new DomainException("stop"));';

    public function testItIsUsedAgainByTheNextWait(): void
    {
        $waiter = self::waiter()->ready();
        $seen = [];
        for ($round = 0; $round < 5; $round++) {
            $lock = $this->heldLock('order:1');
            $waiter->wait();
            self::awaitBlocked(1);
            $seen[] = self::clients(' cmd=blpop');
            $lock->release();
            self::assertTrue($waiter->outcome()->answer);
            $waiter->release();
        }
        self::assertCount(1, $seen[0]);
        self::assertSame(array_fill(0, 5, $seen[0]), $seen);
    }

    public function testItLeavesTheLineWhenAWaitIsGivenUpAndServesTheNext(): void
    {
        $waiter = self::waiter(prepare: self::THROWS)->ready();
        $owner = $this->heldLock('order:1');
        $seen = [];
        foreach (['the deadline', 'a handler', 'the deadline', 'a handler'] as $why) {
            $waiter->wait($why === 'the deadline' ? 0.3 : 30.0);
            self::awaitBlocked(1);
            $seen[] = self::clients(' flags=b');
            if ($why === 'a handler') {
                $waiter->process->signal(SIGUSR1);
            }
            self::assertNotTrue($waiter->outcome()->answer);
            eventually(static fn () => self::blocked() === 0, "$why: it has left the line", 0.5);
        }
        self::assertCount(1, array_unique(array_merge(...$seen)), 'one connection has served them all');
        self::assertTrue($owner->isHeld());
    }

    /** CLIENT UNBLOCK leaves the line without closing anything. Who may not use it closes the connection. */
    public function testItIsClosedWhenAWaitIsGivenUpByWhoMayNotUnblock(): void
    {
        self::$server->command('ACL', 'SETUSER', 'bob', 'on', '>secret', '~*', '&*', '+@all', '-client');
        $dsn = self::$server->dsn(['user' => 'bob', 'pass' => 'secret']);
        $waiter = self::waiter(prepare: self::THROWS, args: ['dsn' => $dsn])->ready();
        $owner = $this->heldLock('order:1');
        foreach (['the deadline', 'a handler'] as $why) {
            $waiter->wait($why === 'the deadline' ? 0.05 : 30.0);
            if ($why === 'a handler') {
                self::awaitBlocked(1);
                $waiter->process->signal(SIGUSR1);
            }
            self::assertNotTrue($waiter->outcome()->answer);
            eventually(static fn () => self::clients(' cmd=blpop') === [], "$why: it is closed", 0.5);
        }
        self::assertTrue($owner->release());
        self::assertTrue($waiter->wait()->outcome()->answer);
        self::assertTrue($waiter->release());
    }

    public function testAWaitWorksWhereItIsRefused(): void
    {
        $this->assertWaits(static fn (FaultProxy $proxy) => $proxy->newConnections('refuse'));
        $this->assertWaits(static fn (FaultProxy $proxy) => $proxy->newConnections('reject'));
    }

    public function testAWaitWorksWhereItIsOneClientTooMany(): void
    {
        $waiter = self::waiter()->ready();
        $waiter->wait()->outcome();
        $waiter->release();
        $owner = $this->heldLock('order:1');
        $watcher = self::$server->connect();
        $before = self::$server->command('CONFIG', 'GET', 'maxclients')[1];
        $connected = preg_match_all('/^id=/m', $watcher->command('CLIENT', 'LIST'));
        self::$server->command('CONFIG', 'SET', 'maxclients', $connected);
        try {
            $waiter->wait();
            eventually(static fn () => str_contains($watcher->command('INFO', 'stats'), 'rejected_connections:')
                && !str_contains($watcher->command('INFO', 'stats'), 'rejected_connections:0'), 'it was refused');
            $owner->release();
            $released = Outcome::now();
            $outcome = $waiter->outcome();
        } finally {
            self::$server->command('CONFIG', 'SET', 'maxclients', $before);
        }
        self::assertTrue($outcome->answer);
        self::assertLessThan(0.3, $outcome->at - $released - $outcome->delay);
        $waiter->release();
    }

    public function testAWaitWorksWhereItHangs(): void
    {
        $this->assertWaits(static fn (FaultProxy $proxy) => $proxy->newConnections('hang'), 1.0);
    }

    public function testAWaitWorksWhereItIsCutAgainAndAgain(): void
    {
        $owner = $this->heldLock('order:1');
        [$waiter] = self::lineUp(1);
        for ($cut = 0; $cut < 5; $cut++) {
            self::$server->command('CLIENT', 'KILL', 'ID', self::clients(' cmd=blpop')[0]);
            self::awaitBlocked(1);
        }
        $owner->release();
        $released = Outcome::now();
        $outcome = $waiter->outcome();
        self::assertTrue($outcome->answer);
        self::assertLessThan(0.1, $outcome->at - $released - $outcome->delay);
        $waiter->release();
    }

    public function testASignalHandlerRunsAtOnceWhileItHangs(): void
    {
        $proxy = FaultProxy::start(self::$server);
        $owner = $this->heldLock('order:1');
        $waiter = self::waiter(prepare: self::THROWS, args: ['dsn' => $proxy->dsn()])->ready();
        $waiter->wait(0.0)->outcome();
        $lines = $proxy->count('accepted');
        $proxy->newConnections('hang');
        $waiter->wait();
        eventually(static fn () => $proxy->count('accepted') > $lines, 'it tries to connect');
        $sent = Outcome::now();
        $waiter->process->signal(SIGUSR1);
        $outcome = $waiter->outcome();
        self::assertSame('DomainException: stop', $outcome->answer);
        self::assertLessThan(0.05, $outcome->at - $sent - $outcome->delay);
        self::assertTrue($owner->isHeld());
    }

    /** A wait whose main connection stands, while none can be made any more, gets the lock all the same. */
    private function assertWaits(callable $break, float $within = 0.3): void
    {
        $proxy = FaultProxy::start(self::$server);
        $waiter = self::waiter(args: ['dsn' => $proxy->dsn(), 'connectTimeout' => 0.5])->ready();
        $waiter->wait(0.0)->outcome();
        $waiter->release();
        $owner = $this->heldLock('order:1');
        $break($proxy);
        $waiter->wait();
        eventually(static fn () => self::$server->command('EXISTS', 'lock~{lock:order:1}:waiter') === 1, 'it waits');
        $released = Outcome::now();
        $owner->release();
        $outcome = $waiter->outcome();
        self::assertTrue($outcome->answer);
        self::assertLessThan($within, $outcome->at - $released - $outcome->delay);
        $waiter->release();
        $waiter->wait(0.0)->outcome();
        $waiter->end();
        $this->setUp();
    }
}
