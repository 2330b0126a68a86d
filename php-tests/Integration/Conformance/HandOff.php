<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration\Conformance;

use DistributedLock;

use function RedisLease\Tests\Support\eventually;

/** A token is all that is needed to go on with a lock elsewhere: restore(), detach(), owner(), forceRelease(). */
trait HandOff
{
    public function testARestoredHandleIsNotHeldUntilRedisHasAnswered(): void
    {
        $resource = $this->resource();
        $owner = $this->heldLock($resource);

        $restored = $this->restore($resource, $owner->token());

        self::assertNotOwner($restored);
        self::assertNull($restored->fence());
        self::assertSame($owner->token(), $restored->token());
        self::assertSame($resource, $restored->resource());
    }

    public function testARestoredHandleRenewsAndLearnsItsFence(): void
    {
        $resource = $this->resource();
        $owner = $this->heldLock($resource, 5.0);
        $restored = $this->restore($resource, $owner->token(), 60.0);

        self::assertTrue($restored->renew());

        self::assertOwner($restored);
        self::assertSame($owner->fence(), $restored->fence());
        self::assertGreaterThan(50_000, min($this->storedTtls($resource)));
    }

    public function testARestoredHandleAcquiresItsOwnLock(): void
    {
        $resource = $this->resource();
        $owner = $this->heldLock($resource);
        $restored = $this->restore($resource, $owner->token());

        self::assertTrue($restored->acquire());

        self::assertOwner($restored);
        self::assertSame($owner->fence(), $restored->fence());
        self::assertSame($owner->token(), $restored->token());
    }

    public function testARestoredHandleReleases(): void
    {
        $resource = $this->resource();
        $owner = $this->heldLock($resource);

        self::assertTrue($this->restore($resource, $owner->token())->release());

        self::assertFalse($this->isStored($resource));
        self::assertFalse($owner->renew());
        self::assertNotOwner($owner);
    }

    public function testAWrongTokenGivesNoRightsAtAll(): void
    {
        $resource = $this->resource();
        $owner = $this->heldLock($resource, 5.0);
        $stranger = $this->restore($resource, str_repeat('0', 32), 60.0);

        self::assertFalse($stranger->renew());
        self::assertFalse($stranger->release());
        self::assertFalse($stranger->acquire());

        self::assertNotOwner($stranger);
        self::assertOwner($owner);
        self::assertLessThanOrEqual(5_000, max($this->storedTtls($resource)));
    }

    public function testAnyTokenOfAnotherProgramCanBeRestored(): void
    {
        foreach (['0', 'a', "with spaces and \x00\xff\r\n bytes", '{tag}', '123456', str_repeat('x', 255)] as $token) {
            $resource = $this->resource();
            $this->storeForeign($resource, $token, 5_000);
            $restored = $this->restore($resource, $token, 60.0);

            self::assertTrue($restored->renew(), 'renew ' . bin2hex($token));
            self::assertSame($token, $restored->owner());
            self::assertGreaterThan(50_000, min($this->storedTtls($resource)));
            self::assertTrue($restored->release(), 'release ' . bin2hex($token));
            self::assertFalse($this->isStored($resource));
        }
    }

    public function testARestoredHandleThatWasNeverConfirmedLeavesTheLockAlone(): void
    {
        $resource = $this->resource();
        $owner = $this->heldLock($resource);

        $restored = $this->restore($resource, $owner->token());
        unset($restored);

        self::assertOwner($owner);
    }

    public function testAReleaseIsAnsweredTheSameWayWhenItIsSentAgain(): void
    {
        // As after a lost answer: the same token asks again, others having come and gone in between.
        $resource = $this->resource();
        $tokens = [];
        for ($owner = 0; $owner < 8; $owner++) {
            $lock = $this->heldLock($resource);
            $tokens[] = $lock->token();
            self::assertTrue($lock->release());
        }
        foreach ($tokens as $number => $token) {
            self::assertTrue($this->restore($resource, $token)->release(), "owner $number released its lock itself");
        }

        $owner = $this->heldLock($resource);
        self::assertTrue($this->restore($resource, $tokens[0])->release());
        self::assertOwner($owner);
        self::assertFalse($this->restore($resource, 'never held it')->release());
    }

    public function testALostLockIsNotTakenForAReleasedOne(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource);
        $this->removeKey($resource);

        self::assertFalse($this->restore($resource, $lock->token())->release());
        self::assertFalse($lock->release());
    }

    public function testDetachKeepsTheLockForWhoeverRestoresIt(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource);
        $expected = $lock->token();

        $token = $lock->detach();

        self::assertSame($expected, $token);
        self::assertNotOwner($lock);
        unset($lock);
        self::assertTrue($this->isStored($resource), 'nothing may release a detached lock here');
        $elsewhere = $this->restore($resource, $token);
        self::assertTrue($elsewhere->renew());
        self::assertTrue($elsewhere->release());
    }

    public function testDetachOfAHandleThatHoldsNothingGivesNull(): void
    {
        $resource = $this->resource();
        $lock = $this->lock($resource);
        self::assertNull($lock->detach());

        $lock->acquire();
        $lock->release();
        self::assertNull($lock->detach());
    }

    public function testADetachedHandleNeitherReleasesNorRenews(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource, 5.0);
        $token = $lock->detach();

        self::assertFalse($lock->release());
        self::assertFalse($lock->renew(60.0));

        self::assertSame([$token], array_values(array_unique($this->storedValues($resource))));
        self::assertLessThanOrEqual(5_000, max($this->storedTtls($resource)));
    }

    public function testADetachedHandleContendsWithItsOwnFormerLock(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource);
        $token = $lock->detach();

        self::assertFalse($lock->acquire());

        self::assertSame($token, $lock->owner());
    }

    public function testOwnerSaysWhoHoldsTheLock(): void
    {
        $resource = $this->resource();
        $watcher = $this->lock($resource);
        self::assertNull($watcher->owner());

        $lock = $this->heldLock($resource);
        self::assertSame($lock->token(), $watcher->owner());

        $lock->release();
        self::assertNull($watcher->owner());

        $this->storeForeign($resource, "foreign \x00\xff");
        self::assertSame("foreign \x00\xff", $watcher->owner());
    }

    public function testOwnerIsNullAfterExpiry(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource, 0.1);

        eventually(static fn () => $lock->owner() === null, 'the lock expires', 2.0);
        self::assertNotOwner($lock);
    }

    public function testForceReleaseRemovesAnybodysLock(): void
    {
        $resource = $this->resource();
        $owner = $this->heldLock($resource);
        $operator = $this->lock($resource);

        self::assertTrue($operator->forceRelease());

        self::assertFalse($this->isStored($resource));
        self::assertFalse($owner->renew());
        self::assertFalse($owner->release());
        $this->storeForeign($resource);
        self::assertTrue($operator->forceRelease());
        self::assertFalse($this->isStored($resource));
    }

    public function testForceReleaseOfAFreeLockSaysFalse(): void
    {
        $resource = $this->resource();
        self::assertFalse($this->lock($resource)->forceRelease());

        $this->heldLock($resource)->release();
        self::assertFalse($this->lock($resource)->forceRelease());
    }

    public function testAnOwnerWhoForceReleasesItsOwnLockNoLongerHoldsIt(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource);

        self::assertTrue($lock->forceRelease());

        self::assertNotOwner($lock);
        self::assertFalse($lock->release());
    }

    public function testTheFenceStillRisesAfterAForcedRelease(): void
    {
        $resource = $this->resource();
        $first = $this->heldLock($resource);
        $first->forceRelease();

        self::assertGreaterThan($first->fence(), $this->heldLock($resource)->fence());
    }

    private function restore(string $resource, string $token, float $ttl = 30.0): DistributedLock
    {
        return DistributedLock::restore($resource, $token, $ttl, $this->connection());
    }
}
