<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration\Conformance;

use RedisLease\ServerException;

use function RedisLease\Tests\Support\eventually;

/** Who owns a lock, and how ownership begins and ends. */
trait Ownership
{
    public function testAcquireTakesAFreeLock(): void
    {
        $resource = $this->resource();
        $lock = $this->lock($resource);
        self::assertNotOwner($lock);
        self::assertNull($lock->fence());

        self::assertTrue($lock->acquire());

        self::assertOwner($lock);
        self::assertSame($resource, $lock->resource());
        self::assertMatchesRegularExpression('/^[0-9a-f]{32}$/', $lock->token());
        self::assertSame([$lock->token()], array_values(array_unique($this->storedValues($resource))));
    }

    public function testASecondOwnerIsRefusedWithFalseAndNotWithAnException(): void
    {
        $resource = $this->resource();
        $first = $this->heldLock($resource);
        $second = $this->lock($resource);

        self::assertFalse($second->acquire());

        self::assertNotOwner($second);
        self::assertNull($second->fence());
        self::assertOwner($first);
    }

    public function testARefusedAttemptChangesNeitherTheOwnersKeyNorItsTtl(): void
    {
        $resource = $this->resource();
        $first = $this->heldLock($resource, 20.0);
        $before = $this->storedTtls($resource);

        self::assertFalse($this->lock($resource, 600.0)->acquire());

        self::assertSame([$first->token()], array_values(array_unique($this->storedValues($resource))));
        foreach ($this->storedTtls($resource) as $server => $ttl) {
            self::assertLessThanOrEqual($before[$server], $ttl);
        }
    }

    public function testReleaseFreesTheLockForTheNextOwner(): void
    {
        $resource = $this->resource();
        $first = $this->heldLock($resource);
        $second = $this->lock($resource);

        self::assertTrue($first->release());

        self::assertFalse($this->isStored($resource));
        self::assertNotOwner($first);
        self::assertTrue($second->acquire());
        self::assertOwner($second);
    }

    public function testASecondReleaseSaysFalse(): void
    {
        $lock = $this->heldLock($this->resource());

        self::assertTrue($lock->release());
        self::assertFalse($lock->release());
    }

    public function testReleaseOfAHandleThatNeverHeldSaysFalseAndTouchesNothing(): void
    {
        $resource = $this->resource();
        $owner = $this->heldLock($resource);

        self::assertFalse($this->lock($resource)->release());

        self::assertOwner($owner);
    }

    public function testReleaseOfAnExpiredLockSaysFalse(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource, 0.1);
        eventually(fn () => !$this->isStored($resource), 'the lock expires');

        self::assertFalse($lock->release());
    }

    public function testReleaseNeverDeletesTheNextOwnersLock(): void
    {
        $resource = $this->resource();
        $late = $this->heldLock($resource, 0.1);
        eventually(fn () => !$this->isStored($resource), 'the lock expires');
        $next = $this->heldLock($resource);

        self::assertFalse($late->release());

        self::assertOwner($next);
        self::assertTrue($next->release());
    }

    public function testReleaseNeverDeletesAForeignProgramsLock(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource);
        $this->storeForeign($resource, 'foreign');

        self::assertFalse($lock->release());

        self::assertSame(['foreign'], array_values(array_unique($this->storedValues($resource))));
        self::assertNotOwner($lock);
    }

    public function testAcquiringAHeldLockAgainKeepsTokenAndFenceAndExtendsIt(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource, 30.0);
        [$token, $fence] = [$lock->token(), $lock->fence()];
        eventually(static fn () => $lock->remaining() < 29.4, 'some of the validity is used up');

        self::assertTrue($lock->acquire());

        self::assertSame($token, $lock->token());
        self::assertSame($fence, $lock->fence());
        self::assertGreaterThan(29.4, $lock->remaining());
        self::assertGreaterThan(29_900, min($this->storedTtls($resource)));
        self::assertOwner($lock);
    }

    public function testAcquiringAHeldLockAgainNeverShortensIt(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource, 5.0);
        $this->setStoredTtl($resource, 60_000);

        self::assertTrue($lock->acquire());

        self::assertGreaterThan(50_000, min($this->storedTtls($resource)));
    }

    public function testAcquireDoesNotCount(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource);
        self::assertTrue($lock->acquire());

        self::assertTrue($lock->release());

        self::assertFalse($this->isStored($resource));
    }

    public function testAFreshAttemptHasANewToken(): void
    {
        $lock = $this->heldLock($this->resource());
        $first = $lock->token();
        $lock->release();

        self::assertTrue($lock->acquire());

        self::assertNotSame($first, $lock->token());
    }

    public function testAHandleIsReleasedWithItsLastReference(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource);
        $same = $lock;

        unset($lock);
        self::assertTrue($this->isStored($resource), 'there is still a reference');

        unset($same);
        self::assertFalse($this->isStored($resource));
    }

    public function testAHandleThatLostItsLockDoesNotReleaseTheNextOwnersWhenItGoes(): void
    {
        $resource = $this->resource();
        $late = $this->heldLock($resource);
        $this->storeForeign($resource, 'next');

        unset($late);

        self::assertSame(['next'], array_values(array_unique($this->storedValues($resource))));
    }

    public function testAKeyOfAnotherTypeIsSomebodyElsesAndStaysAsItIs(): void
    {
        $resource = $this->resource();
        $key = static::PREFIX . $resource;
        $this->onEachServer('RPUSH', $key, 'work');
        $lock = $this->lock($resource);

        try {
            $lock->acquire();
            self::fail('a list is not a lock');
        } catch (ServerException $refusal) {
            self::assertSame('WRONGTYPE', $refusal->redisCode);
            self::assertSame($resource, $refusal->resource);
            self::assertStringContainsStringIgnoringCase('another program', $refusal->getMessage());
        }

        self::assertNotOwner($lock);
        foreach ($this->onEachServer('LRANGE', $key, 0, -1) as $stored) {
            self::assertSame(['work'], $stored);
        }
    }

    public function testEveryKeyHasATtlAtEveryStep(): void
    {
        $resource = $this->resource();
        $lock = $this->lock($resource, 10.0);
        $other = $this->lock($resource, 10.0);
        $steps = [
            'acquire' => static fn () => $lock->acquire(),
            'acquire again' => static fn () => $lock->acquire(),
            'refused' => static fn () => !$other->acquire(),
            'refused after a wait' => static fn () => !$other->acquire(0.05),
            'renew' => static fn () => $lock->renew(),
            'renew for longer' => static fn () => $lock->renew(20.0),
            'release' => static fn () => $lock->release(),
            'release again' => static fn () => !$lock->release(),
            'the next owner' => static fn () => $other->acquire(),
            'force' => static fn () => $lock->forceRelease(),
        ];
        foreach ($steps as $step => $action) {
            self::assertTrue($action(), $step);
            foreach ($this->allKeys() as $key => $ttl) {
                self::assertGreaterThan(0, $ttl, "after '$step' the key $key must have a TTL");
                self::assertLessThan(3_600_000, $ttl, "after '$step' the key $key stays too long");
            }
        }
    }
}
