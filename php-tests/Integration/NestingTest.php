<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use DistributedLock;
use RedisLease\LeaseLostException;
use RedisLease\Tests\Support\ServerTestCase;

/** One object, more than one critical section. */
final class NestingTest extends ServerTestCase
{
    public function testAnInnerSectionLeavesTheLockToTheOuterOne(): void
    {
        $lock = $this->lock('order:1');

        $result = $lock->synchronized(function (DistributedLock $lock): string {
            $inner = $lock->synchronized(static fn () => 'inner');
            self::assertTrue($lock->isHeld(), 'the outer section goes on');
            self::assertFalse($this->lock('order:1')->acquire(), 'and nobody else gets in');

            return "$inner and outer";
        });

        self::assertSame('inner and outer', $result);
        self::assertFalse($lock->isHeld());
        self::assertTrue($this->lock('order:1')->acquire());
    }

    public function testAnInnerSectionThatThrowsLeavesTheLockToTheOuterOne(): void
    {
        $lock = $this->lock('order:1');

        $lock->synchronized(function (DistributedLock $lock): void {
            try {
                $lock->synchronized(static fn () => throw new \DomainException('inner'));
            } catch (\DomainException) {
            }
            self::assertTrue($lock->isHeld());
        });

        self::assertNull($lock->owner());
    }

    public function testALeaseLostInTheInnerSectionIsLostInBoth(): void
    {
        $lock = $this->lock('order:1');
        $inner = null;
        try {
            $lock->synchronized(function (DistributedLock $lock) use (&$inner): void {
                try {
                    $lock->synchronized(function (): void {
                        $this->lock('order:1')->forceRelease();
                        $this->lock('order:1')->acquire();
                    });
                } catch (LeaseLostException $lost) {
                    $inner = $lost;
                }
            });
            self::fail('the lease was lost');
        } catch (LeaseLostException) {
        }
        self::assertInstanceOf(LeaseLostException::class, $inner);
    }
}
