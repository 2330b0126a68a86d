<?php

declare(strict_types=1);

namespace RedisLease\Tests\Fault;

use DistributedLock;
use RedisLease\Connection;
use RedisLease\OutcomeUnknownException;
use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\ServerTestCase;

use function RedisLease\Tests\Support\eventually;

/** What users of other libraries reported about ownership: each symptom once, as it must not be here. */
final class PeersOwnershipTest extends ServerTestCase
{
    public function testAForkedChildsExitDoesNotFreeItsParentsLock(): void
    {
        $worker = self::worker(<<<'PHP'
            $lock = new DistributedLock('order:1', 60.0, connection: $connection);
            $lock->acquire();
            if (pcntl_fork() === 0) {
                exit;
            }
            pcntl_wait($status);
            say([$lock->token(), $lock->isHeld()]);
            hear();
            say($lock->release());
            PHP);
        [$token, $held] = $worker->hear();
        self::assertTrue($held);
        self::assertSame($token, self::stored('order:1'));
        $worker->say();
        self::assertTrue($worker->hear());
        $worker->finish();
    }

    public function testAWorkerThatIsLateDoesNotReleaseTheLockOfTheNextOwner(): void
    {
        $late = $this->heldLock('order:1', 0.05);
        eventually(static fn () => self::stored('order:1') === null, 'the lease has expired');
        $next = $this->heldLock('order:1');

        self::assertFalse($late->release());
        self::assertSame($next->token(), self::stored('order:1'));
        unset($late);
        self::assertSame($next->token(), self::stored('order:1'), 'the destructor released it');
        self::assertTrue($next->release());
    }

    public function testRetriesOfAReleaseDoNotReleaseANewerLock(): void
    {
        $proxy = FaultProxy::start(self::$server);
        $lock = new DistributedLock('order:1', 30.0, connection: new Connection($proxy->dsn(), 0.1, 0.1));
        self::assertTrue($lock->acquire());
        $proxy->breakAfter('reply', 0, 'fin', later: 'hang');
        try {
            $lock->release();
            self::fail('the answer was swallowed');
        } catch (OutcomeUnknownException) {
        }
        $newer = $this->heldLock('order:1');
        $proxy->newConnections('pass');
        $proxy->deliver();

        $again = eventually(static function () use ($lock): ?bool {
            try {
                return $lock->release();
            } catch (\RedisLease\LeaseException) {
                return null;
            }
        }, 'the final answer');
        self::assertTrue($again, 'it was released by us, before the newer lock was taken');
        self::assertSame($newer->token(), self::stored('order:1'), 'the retry released the newer lock');
        $proxy->stop();
    }

    public function testAReleaseFromAnotherProcessDoesNotSilentlyDoNothing(): void
    {
        $lock = $this->heldLock('order:1');
        $token = $lock->detach();
        $worker = self::worker(<<<'PHP'
            $stranger = new DistributedLock('order:1', 60.0, connection: $connection);
            say($stranger->release());
            $heir = DistributedLock::restore('order:1', $args['token'], 60.0, $connection);
            say([$heir->renew(), $heir->release(), $heir->release()]);
            PHP, ['token' => $token]);

        self::assertFalse($worker->hear(), 'without the token it says so');
        self::assertSame([true, true, false], $worker->hear(), 'with the token it works, once');
        self::assertNull(self::stored('order:1'));
        $worker->finish();
    }

    public function testARenewalDoesNotCreateTheKeyAnewBesideASecondOwner(): void
    {
        $first = $this->heldLock('order:1', 0.05);
        eventually(static fn () => self::stored('order:1') === null, 'the lease has expired');
        self::assertFalse($first->renew());
        self::assertNull(self::stored('order:1'), 'the renewal created the key');

        $second = $this->heldLock('order:1');
        self::assertFalse($first->renew());
        self::assertFalse($first->isHeld());
        self::assertSame($second->token(), self::stored('order:1'));
    }

    public function testAWorkerThatDiesWhileItAcquiresLeavesNoLockForEver(): void
    {
        $workers = [];
        for ($i = 0; $i < 6; $i++) {
            $workers[] = $worker = self::worker(<<<'PHP'
                say('begins');
                for ($n = 0; ; $n++) {
                    $lock = new DistributedLock("order:{$args['i']}:$n", 0.3, connection: $connection);
                    $lock->acquire();
                    $lock->detach();
                }
                PHP, ['i' => $i]);
            $worker->hear();
        }
        eventually(static fn () => self::$server->command('DBSIZE') > 300, 'locks are taken');
        foreach ($workers as $worker) {
            $worker->kill();
        }
        $for = array_map(static fn (string $key) => self::$server->command('PTTL', $key), self::$server->command('KEYS', '*'));

        self::assertNotSame([], $for);
        self::assertNotContains(-1, $for, 'a key without expiry');
        eventually(static fn () => self::$server->command('KEYS', 'lock:order:*') === [], 'every lock has freed itself', 2.0);
    }

    public function testALockTakenByAResentAcquireNeedsOnlyOneRelease(): void
    {
        $proxy = FaultProxy::start(self::$server);
        $lock = new DistributedLock('order:1', 30.0, connection: new Connection($proxy->dsn(), 2.0, 2.0));
        $lock->owner();
        foreach (['fin', 'reset'] as $how) {
            // Executed, the answer lost, asked again: there is no count that goes to two.
            $proxy->breakAfter('reply', 0, $how);
            self::assertTrue($lock->acquire());
            self::assertTrue($proxy->hasBroken());
            self::assertTrue($lock->acquire(), 'once more, by hand');

            self::assertTrue($lock->release());
            self::assertNull(self::stored('order:1'));
        }
        $proxy->stop();
    }
}
