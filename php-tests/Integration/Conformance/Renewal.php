<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration\Conformance;

use function RedisLease\Tests\Support\eventually;

/** Renewal extends what is ours, and nothing else. */
trait Renewal
{
    public function testRenewExtendsAHeldLock(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource, 30.0);
        [$token, $fence] = [$lock->token(), $lock->fence()];
        $this->setStoredTtl($resource, 5_000);
        eventually(static fn () => $lock->remaining() < 29.4, 'some of the validity is used up');

        self::assertTrue($lock->renew());

        self::assertGreaterThan(29.4, $lock->remaining());
        self::assertGreaterThan(29_000, min($this->storedTtls($resource)));
        self::assertSame([$token, $fence], [$lock->token(), $lock->fence()]);
        self::assertOwner($lock);
    }

    public function testRenewTakesATtlOfItsOwn(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource, 5.0);

        self::assertTrue($lock->renew(60.0));

        self::assertGreaterThan(50.0, $lock->remaining());
        self::assertLessThanOrEqual(60.0 * 0.99 - 0.002, $lock->remaining());
        self::assertGreaterThan(59_000, min($this->storedTtls($resource)));
        self::assertLessThanOrEqual(60_000, max($this->storedTtls($resource)));
    }

    public function testRenewNeverShortensALock(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource, 60.0);

        self::assertTrue($lock->renew(1.0));

        self::assertGreaterThan(50_000, min($this->storedTtls($resource)));
        self::assertTrue($lock->isHeld());
    }

    public function testRenewNeverCreatesAKey(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource);
        $this->removeKey($resource);

        self::assertFalse($lock->renew());

        self::assertFalse($this->isStored($resource));
        self::assertNotOwner($lock);
    }

    public function testRenewNeverExtendsAForeignLock(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource, 30.0);
        $this->storeForeign($resource, 'foreign', 3_000);

        self::assertFalse($lock->renew());

        self::assertSame(['foreign'], array_values(array_unique($this->storedValues($resource))));
        self::assertLessThanOrEqual(3_000, max($this->storedTtls($resource)));
        self::assertNotOwner($lock);
    }

    public function testRenewOfAnExpiredLockSaysFalse(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource, 0.1);
        eventually(fn () => !$this->isStored($resource), 'the lock expires');

        self::assertFalse($lock->renew());

        self::assertFalse($this->isStored($resource));
        self::assertNotOwner($lock);
    }

    public function testRenewOfAHandleThatNeverHeldSaysFalse(): void
    {
        $resource = $this->resource();

        self::assertFalse($this->lock($resource)->renew());

        self::assertFalse($this->isStored($resource));
    }

    public function testRenewAfterReleaseSaysFalse(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource);
        $lock->release();

        self::assertFalse($lock->renew());

        self::assertFalse($this->isStored($resource));
        self::assertNotOwner($lock);
    }

    public function testRenewSavesALockWhoseValidityIsOverButWhoseKeyIsStillOurs(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource, 0.2);
        $this->setStoredTtl($resource, 60_000);
        $fence = $lock->fence();
        eventually(static fn () => !$lock->isHeld(), 'the validity ends');

        self::assertTrue($lock->renew());

        self::assertTrue($lock->isHeld());
        // Others may have had the lock meanwhile, on a server that forgot it since.
        self::assertGreaterThan($fence, $lock->fence());
    }

    public function testALostHandleCanStartAfresh(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource);
        [$token, $fence] = [$lock->token(), $lock->fence()];
        $this->removeKey($resource);
        self::assertFalse($lock->renew());

        self::assertTrue($lock->acquire());

        self::assertOwner($lock);
        self::assertNotSame($token, $lock->token());
        self::assertGreaterThan($fence, $lock->fence());
    }
}
