<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration\Conformance;

use DistributedLock;
use DomainException;
use RedisLease\LeaseException;
use RedisLease\LeaseLostException;
use RedisLease\LockTimeoutException;

use function RedisLease\Tests\Support\timed;

/** synchronized(): the lock is given back whatever happens, and the callback's own exception wins. */
trait CriticalSections
{
    public function testSynchronizedHoldsTheLockDuringTheCallbackAndReturnsItsValue(): void
    {
        $resource = $this->resource();
        $lock = $this->lock($resource);
        foreach (['a string', 42, null, false, ['list'], new \stdClass()] as $value) {
            $given = null;
            $result = $lock->synchronized(function (DistributedLock $passed) use (&$given, $value) {
                $given = $passed;
                self::assertOwner($passed);

                return $value;
            });

            self::assertSame($value, $result);
            self::assertSame($lock, $given, 'the callback gets the handle itself');
            self::assertNotOwner($lock);
            self::assertFalse($this->isStored($resource));
        }
    }

    public function testSynchronizedTakesEveryKindOfCallable(): void
    {
        $lock = $this->lock($this->resource());
        $invokable = new class () {
            public function __invoke(DistributedLock $lock): string
            {
                return 'invoked';
            }

            public static function statically(): string
            {
                return 'static';
            }
        };

        self::assertSame('invoked', $lock->synchronized($invokable));
        self::assertSame('static', $lock->synchronized([$invokable::class, 'statically']));
        self::assertSame('arrow', $lock->synchronized(static fn () => 'arrow'));
        self::assertSame($lock->resource(), $lock->synchronized((new \ReflectionMethod($lock, 'resource'))->invoke(...)));
    }

    public function testTheCallbacksExceptionComesThroughAndTheLockIsReleased(): void
    {
        $resource = $this->resource();
        $lock = $this->lock($resource);
        $thrown = new DomainException('out of stock');
        try {
            $lock->synchronized(static fn () => throw $thrown);
            self::fail('the exception was swallowed');
        } catch (DomainException $caught) {
            self::assertSame($thrown, $caught);
            self::assertNull($caught->getPrevious());
        }

        self::assertFalse($this->isStored($resource));
        self::assertNotOwner($lock);
    }

    public function testTheCallbacksExceptionWinsOverALostLock(): void
    {
        $resource = $this->resource();
        $thrown = new DomainException('out of stock');
        try {
            $this->lock($resource)->synchronized(function () use ($resource, $thrown): never {
                $this->storeForeign($resource, 'foreign');
                throw $thrown;
            });
            self::fail('the exception was swallowed');
        } catch (\Throwable $caught) {
            self::assertSame($thrown, $caught);
        }

        self::assertSame(['foreign'], array_values(array_unique($this->storedValues($resource))));
    }

    public function testALockLostUnderTheCallbackIsReportedWithTheResult(): void
    {
        $resource = $this->resource();
        $lock = $this->lock($resource);
        $losses = [
            'the key vanished' => fn () => $this->removeKey($resource),
            'another owner took it' => fn () => $this->storeForeign($resource),
        ];
        foreach ($losses as $how => $lose) {
            try {
                $lock->synchronized(static function () use ($lose): string {
                    $lose();

                    return 'sold';
                });
                self::fail("$how: the loss was not reported");
            } catch (LeaseLostException $loss) {
                self::assertSame('sold', $loss->result, $how);
                self::assertSame($resource, $loss->resource, $how);
                self::assertInstanceOf(LeaseException::class, $loss);
            }
            self::assertNotOwner($lock);
            $this->removeKey($resource);
        }
    }

    public function testACallbackThatOverranItsLeaseIsReported(): void
    {
        $resource = $this->resource();
        try {
            $this->lock($resource, 0.05)->synchronized(static function (DistributedLock $lock): string {
                while ($lock->isHeld()) {
                    usleep(1_000);
                }
                return 'late';
            });
            self::fail('the overrun was not reported');
        } catch (LeaseLostException $loss) {
            self::assertSame('late', $loss->result);
        }
    }

    public function testSynchronizedWithoutTheLockThrowsAndDoesNotCallBack(): void
    {
        $resource = $this->resource();
        $owner = $this->heldLock($resource);
        $called = false;
        foreach ([0.0, 0.1] as $wait) {
            [$caught, $seconds] = timed(function () use ($resource, $wait, &$called): ?LockTimeoutException {
                try {
                    $this->lock($resource)->synchronized(static function () use (&$called): void {
                        $called = true;
                    }, $wait);
                } catch (LockTimeoutException $timeout) {
                    return $timeout;
                }

                return null;
            });

            self::assertNotNull($caught, "wait $wait");
            self::assertSame($resource, $caught->resource);
            self::assertFalse($called);
            self::assertGreaterThanOrEqual($wait * 0.99, $seconds);
            self::assertLessThan($wait + 0.5, $seconds);
        }
        self::assertOwner($owner);
    }

    public function testALockReleasedInsideTheCallbackIsNoLoss(): void
    {
        $resource = $this->resource();
        $result = $this->lock($resource)->synchronized(static function (DistributedLock $lock): string {
            self::assertTrue($lock->release());

            return 'early';
        });

        self::assertSame('early', $result);
    }

    public function testALockDetachedInsideTheCallbackStays(): void
    {
        $resource = $this->resource();
        $token = $this->lock($resource)->synchronized(static fn (DistributedLock $lock) => $lock->detach());

        self::assertIsString($token);
        self::assertTrue($this->isStored($resource));
    }

    public function testCriticalSectionsNestOverDifferentResources(): void
    {
        [$a, $b] = [$this->resource(), $this->resource()];
        $inner = $this->lock($b);
        $result = $this->lock($a)->synchronized(fn () => $inner->synchronized(
            fn () => $this->isStored($a) && $this->isStored($b),
        ));

        self::assertTrue($result);
        self::assertFalse($this->isStored($a));
        self::assertFalse($this->isStored($b));
    }

    public function testACriticalSectionExcludesAnotherHandleOnTheSameResource(): void
    {
        $resource = $this->resource();
        $inner = $this->lock($resource);

        $acquired = $this->lock($resource)->synchronized(static fn () => $inner->acquire());

        self::assertFalse($acquired);
    }
}
