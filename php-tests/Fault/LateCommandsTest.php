<?php

declare(strict_types=1);

namespace RedisLease\Tests\Fault;

use DistributedLock;
use RedisLease\Connection;
use RedisLease\OutcomeUnknownException;
use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\ServerTestCase;

use function RedisLease\Tests\Support\eventually;

/** A command that was under way for long arrives when its sender has given up: it takes nothing, and harms nobody. */
final class LateCommandsTest extends ServerTestCase
{
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

    public function testALateAcquireDoesNotTakeTheLockThatItsTokenGaveBack(): void
    {
        $ways = [
            'release()' => static fn (DistributedLock $lock) => $lock->release(),
            'release() by token' => static fn (DistributedLock $lock, string $token, Connection $connection) =>
                DistributedLock::restore('order:1', $token, 30.0, $connection)->release(),
            'renew() and release() by token' => static function ($lock, string $token, Connection $connection): bool {
                $heir = DistributedLock::restore('order:1', $token, 30.0, $connection);

                return $heir->renew() || $heir->release();
            },
            'another acquire() and release()' => static fn (DistributedLock $lock) => $lock->acquire() && $lock->release(),
        ];
        foreach ($ways as $way => $giveBack) {
            $lock = $this->lockOverProxy(0.1);
            $unknown = $this->unanswered(static fn () => $lock->acquire());
            self::assertFalse($lock->isHeld());
            self::assertNull(self::stored('order:1'), 'the command is still under way');
            $giveBack($lock, $unknown->token, $this->connection());

            self::assertCount(1, array_filter($this->proxy->deliver(), static fn ($bytes) => str_contains($bytes, $unknown->token)));
            self::assertNull(self::stored('order:1'), "$way: the late command took the lock");
            self::assertTrue($this->heldLock('order:1')->release());
        }
    }

    public function testTheEndOfARequestGivesBackWhatALateAcquireMightTake(): void
    {
        $worker = self::worker(<<<'PHP'
            $lock = new DistributedLock('order:1', 60.0, connection: new Connection($args['proxy'], 0.1, 0.1));
            $lock->owner();
            say('ready');
            hear();
            say(thrown(static fn () => $lock->acquire()));
            hear();
            PHP, ['proxy' => $this->proxy->dsn()]);
        $worker->hear();
        $this->proxy->breakAfter('request', 10, 'hold', later: 'hang');
        $worker->say();
        self::assertSame(OutcomeUnknownException::class, $worker->hear());
        $this->proxy->newConnections('pass');
        $worker->say();
        $worker->finish();

        self::assertNotSame([], $this->proxy->deliver());
        self::assertNull(self::stored('order:1'), 'the late command took the lock, and nobody has it');
    }

    public function testALateAcquireOfADeadWorkerEndsByItsTtl(): void
    {
        $worker = self::worker(<<<'PHP'
            $lock = new DistributedLock('order:1', 0.5, connection: new Connection($args['proxy'], 5.0, 5.0));
            $lock->owner();
            say('ready');
            hear();
            $lock->acquire();
            PHP, ['proxy' => $this->proxy->dsn()]);
        $worker->hear();
        $this->proxy->breakAfter('request', 10, 'hold', later: 'hang');
        $worker->say();
        eventually(fn () => $this->proxy->hasBroken(), 'the acquire is under way');
        $worker->kill();
        $this->proxy->deliver();

        self::assertIsString(self::stored('order:1'), 'nobody was left to give it back');
        self::assertGreaterThan(0, self::$server->command('PTTL', 'lock:order:1'));
        eventually(static fn () => self::stored('order:1') === null, 'it ends by its TTL', 1.0);
    }

    public function testALateRenewalDoesNotCutALongerOneShort(): void
    {
        $lock = $this->lockOverProxy(0.1);
        self::assertTrue($lock->acquire());
        $unknown = $this->unanswered(static fn () => $lock->renew(2.0));
        self::assertSame($lock->fence(), $unknown->fence);
        self::assertTrue($lock->isHeld(), 'the validity stays as last confirmed');
        self::assertTrue(Cuts\Runner::persist(static fn () => $lock->renew(60.0)));

        $this->proxy->deliver();

        self::assertGreaterThan(50_000, self::$server->command('PTTL', 'lock:order:1'));
        self::assertTrue($lock->release());
    }

    public function testALateAcquireOfAnOwnerDoesNotCutALongerRenewalShort(): void
    {
        $lock = $this->lockOverProxy(0.1, ttl: 2.0);
        self::assertTrue($lock->acquire());
        $token = $lock->token();
        $this->unanswered(static fn () => $lock->acquire());
        $heir = DistributedLock::restore('order:1', $token, 60.0, $this->connection());
        self::assertTrue($heir->renew());

        $this->proxy->deliver();

        self::assertGreaterThan(50_000, self::$server->command('PTTL', 'lock:order:1'));
        self::assertTrue($heir->release());
    }

    public function testALateRenewalNeitherCreatesAKeyNorTouchesTheNextOwners(): void
    {
        foreach ([false, true] as $isTaken) {
            $lock = $this->lockOverProxy(0.1);
            self::assertTrue($lock->acquire());
            $this->unanswered(static fn () => $lock->renew(60.0));
            self::assertTrue(Cuts\Runner::persist(static fn () => $lock->release()));
            if ($isTaken) {
                self::$server->command('SET', 'lock:order:1', 'the next owner', 'PX', 5_000);
            }
            $this->proxy->deliver();

            self::assertSame($isTaken ? 'the next owner' : null, self::stored('order:1'));
            self::assertLessThanOrEqual(5_000, self::$server->command('PTTL', 'lock:order:1'));
            self::$server->flush();
        }
    }

    public function testALateReleaseDoesNotEndTheNextLeaseOfTheSameHandle(): void
    {
        $lock = $this->lockOverProxy(0.1);
        self::assertTrue($lock->acquire());
        $this->unanswered(static fn () => $lock->release());
        self::assertFalse($lock->isHeld());
        $fence = $lock->fence();
        self::assertTrue(Cuts\Runner::persist(static fn () => $lock->acquire()));
        self::assertGreaterThan($fence, $lock->fence());

        $this->proxy->deliver();

        self::assertSame($lock->token(), self::stored('order:1'), 'the late release ended it');
        self::assertTrue($lock->release());
    }

    public function testAnUnknownOutcomeComesWithAllThatIsNeededToRecover(): void
    {
        $lock = $this->lockOverProxy(0.1);
        $unknown = $this->unanswered(static fn () => $lock->acquire());

        self::assertSame('order:1', $unknown->resource);
        self::assertMatchesRegularExpression('/^[0-9a-f]{32}$/', $unknown->token);
        self::assertNull($unknown->fence, 'none was confirmed');
        self::assertStringContainsString('unknown', $unknown->getMessage());
        self::assertStringContainsString('127.0.0.1:' . $this->proxy->port(), $unknown->getMessage());
        self::assertStringNotContainsString($unknown->token, $unknown->getMessage(), 'a token is a key, not for logs');
        $this->proxy->deliver();
        $recovered = DistributedLock::restore('order:1', $unknown->token, 30.0, $this->connection());
        self::assertTrue($recovered->renew(), 'it had arrived');
        self::assertGreaterThan(0, $recovered->fence());
        self::assertTrue($recovered->release());
    }

    /** The call's command is held on its way, and nothing else gets through until the caller has given up. */
    private function unanswered(callable $call): OutcomeUnknownException
    {
        $this->proxy->breakAfter('request', 10, 'hold', later: 'hang');
        try {
            $call();
        } catch (OutcomeUnknownException $unknown) {
            $this->proxy->newConnections('pass');

            return $unknown;
        }
        self::fail('there was an answer');
    }

    private function lockOverProxy(float $timeout, float $ttl = 30.0): DistributedLock
    {
        $this->proxy->pass();
        $this->proxy->cut();
        self::$server->flush();
        $lock = new DistributedLock('order:1', $ttl, connection: new Connection($this->proxy->dsn(), $timeout, $timeout));
        Cuts\Runner::persist(static fn () => $lock->owner());

        return $lock;
    }
}
