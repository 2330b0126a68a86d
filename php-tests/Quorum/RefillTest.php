<?php

declare(strict_types=1);

namespace RedisLease\Tests\Quorum;

use DistributedLock;
use RedisLease\Connection;
use RedisLease\LeaseException;

use function RedisLease\Tests\Support\eventually;

/** A node that lost its copy gets it back at a renewal, while a majority confirms the lease; else nothing is created. */
final class RefillTest extends QuorumTestCase
{
    public function testANodeThatWasRestartedEmptyHasTheCopyAgainAfterRenewals(): void
    {
        $connection = $this->warm();
        $lock = $this->held($connection);
        foreach ([0, 1, 2, 1] as $place) {
            self::$servers[$place]->restart(keepData: false);
            // That it has nothing may be known one renewal late, and it may still be connecting.
            for ($renewals = 0; self::$servers[$place]->command('GET', 'lock:order:1') === null; $renewals++) {
                self::assertLessThan(4, $renewals, "node $place");
                self::assertTrue($lock->renew(60.0));
                self::settle($connection);
            }
            self::assertSame($lock->token(), self::copies()[$place]);
            self::assertGreaterThan(50_000, self::$servers[$place]->command('PTTL', 'lock:order:1'));
            self::assertSame($lock->fence(), self::fences()[$place], 'with its fence');
        }
        self::assertTrue($lock->release());
        self::assertNothingHeldAnywhere();
    }

    public function testALeaseOutlivesThatEachNodeLosesItsDataInTurn(): void
    {
        $connection = $this->warm();
        $lock = $this->held($connection);
        $fence = $lock->fence();
        for ($round = 0; $round < 2; $round++) {
            foreach (self::$servers as $place => $server) {
                $server->flush();
                eventually(static fn () => self::assertTrue($lock->renew()) ?? self::copies()[$place] !== null, 'refilled');
                self::assertFalse($this->lock(connection: $connection)->acquire(), 'nobody else gets it');
            }
        }
        self::assertSame($fence, $lock->fence());
        self::assertTrue($lock->release());
    }

    public function testACopyThatWasRefilledGoesWithTheRelease(): void
    {
        $connection = $this->warm();
        for ($i = 0; $i < 30; $i++) {
            $lock = $this->held($connection);
            self::$servers[$i % 3]->command('DEL', 'lock:order:1');
            self::assertTrue($lock->renew());
            self::assertTrue($lock->renew());
            self::assertTrue($lock->release());
            self::settle($connection);
            self::assertSame([null, null, null], self::copies());
        }
    }

    public function testWithAMinorityNothingIsCreatedAnywhere(): void
    {
        foreach (['pause', 'kill'] as $fate) {
            $connection = $this->warm();
            $lock = $this->held($connection);
            self::$servers[0]->flush();
            self::$servers[1]->$fate();
            for ($i = 0; $i < 3; $i++) {
                try {
                    self::assertNotTrue($lock->renew(), 'one of three has it');
                } catch (LeaseException) {
                }
            }
            self::assertSame([], self::keys(0), "$fate: nothing was created");
            $this->tearDown();
            $this->setUp();
        }
        $connection = $this->warm();
        $lock = $this->held($connection);
        self::$servers[0]->flush();
        self::$servers[1]->flush();
        self::assertFalse($lock->renew(), 'a majority has lost it');
        self::settle($connection);
        self::assertSame([], self::keys(0));
        self::assertSame([], self::keys(1));
        self::assertFalse($lock->isHeld());
    }

    public function testARefillDoesNotTakeWhatAnotherOwnerHasOnThatNode(): void
    {
        $connection = $this->warm();
        $lock = $this->held($connection);
        self::takeElsewhere([2]);
        for ($i = 0; $i < 3; $i++) {
            self::assertTrue($lock->renew());
            self::settle($connection);
        }
        self::assertSame('somebody-else', self::copies()[2]);
        self::assertTrue($lock->release());
        self::settle($connection);
        self::assertSame([null, null, 'somebody-else'], self::copies());
    }

    private function held(Connection $connection): DistributedLock
    {
        $lock = $this->lock(connection: $connection);
        self::assertTrue($lock->acquire());
        self::settle($connection);

        return $lock;
    }
}
