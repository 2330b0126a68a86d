<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration\Conformance;

use DistributedLock;
use RedisLease\LeaseLostException;
use RedisLease\Tests\Support\PhpProcess;

use function RedisLease\Tests\Support\eventually;

/** A handle never believes in its lock for longer than Redis does. */
trait Validity
{
    public function testALockFreesItselfWhenItsTtlEnds(): void
    {
        $first = eventually(fn () => $this->briefLease(0.1), 'an answer comes in time');
        $second = $this->lock($first->resource());

        eventually(static fn () => $second->acquire(), 'the lock expires', 2.0);

        self::assertNotOwner($first);
        self::assertGreaterThan($first->fence(), $second->fence());
    }

    public function testTheValidityIsTheTtlLessDriftCountedFromTheSending(): void
    {
        foreach ([0.5, 1.0, 10.0, 3600.0, 31_536_000.0] as $ttl) {
            $before = hrtime(true);
            $lock = $this->heldLock($this->resource(), $ttl);
            $elapsed = (hrtime(true) - $before) / 1e9;
            $remaining = $lock->remaining();

            $most = $ttl * 0.99 - 0.002;
            self::assertLessThanOrEqual($most, $remaining, "ttl $ttl");
            self::assertGreaterThan($most - $elapsed - 0.2, $remaining, "ttl $ttl");
            self::assertTrue($lock->release());
        }
    }

    public function testTheValidityCountsFromTheSendingAndNotFromTheAnswer(): void
    {
        $lock = $this->heldLock($this->resource(), 10.0);
        foreach (['acquire', 'renew'] as $call) {
            $this->slowly(static fn () => self::assertTrue($lock->$call()));

            self::assertLessThanOrEqual(10.0 * 0.99 - 0.002 - 0.25, $lock->remaining(), "$call was answered 0.3 s late");
            self::assertGreaterThan(5.0, $lock->remaining(), $call);
        }
    }

    public function testTheValidityOnlyRunsDown(): void
    {
        $lock = $this->heldLock($this->resource(), 0.3);
        $last = $lock->remaining();
        eventually(static function () use ($lock, &$last): bool {
            $now = $lock->remaining();
            self::assertLessThanOrEqual($last, $now);
            $last = $now;

            return $now === 0.0;
        }, 'the validity runs out');

        self::assertFalse($lock->isHeld());
    }

    public function testAHandleStopsBelievingBeforeTheKeyIsGone(): void
    {
        // Expiry is noticed in Redis first and asked of the handle second, so a late answer of
        // the handle cannot hide the fault.
        for ($round = 0; $round < 10; $round++) {
            $lock = eventually(fn () => $this->briefLease(0.05), 'an answer comes in time');
            eventually(fn () => !$this->isStored($lock->resource()), 'the lock expires');

            self::assertFalse($lock->isHeld(), "round $round: the key is gone and the handle still believes in it");
        }
    }

    /** null where the answer took longer than the lease is valid. */
    private function briefLease(float $ttl): ?DistributedLock
    {
        try {
            return $this->heldLock($this->resource(), $ttl);
        } catch (LeaseLostException $late) {
            return null;
        }
    }

    public function testAskingAHandleCostsNoRoundTrip(): void
    {
        $lock = $this->heldLock($this->resource());
        foreach (self::$servers as $server) {
            $server->pause();
        }
        try {
            self::assertTrue($lock->isHeld());
            self::assertGreaterThan(0.0, $lock->remaining());
            self::assertIsInt($lock->fence());
            self::assertIsString($lock->token());
            self::assertIsString($lock->resource());
        } finally {
            foreach (self::$servers as $server) {
                $server->resume();
            }
        }
        self::assertTrue($lock->release());
    }

    /** Runs the action while every server hangs for 0.3 s. */
    private function slowly(callable $action): void
    {
        $pids = implode(' ', array_map(static fn ($server) => $server->pid(), self::$servers));
        foreach (self::$servers as $server) {
            $server->pause();
        }
        $resume = PhpProcess::start(['-r', "usleep(300_000); exec('kill -CONT $pids');"], [], false);
        $action();
        $resume->wait();
    }

    public function testTheSmallestAndTheLargestTtlReachRedisUnchanged(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource, 31_536_000.0);
        self::assertGreaterThan(31_535_000_000, min($this->storedTtls($resource)));
        self::assertLessThanOrEqual(31_536_000_000, max($this->storedTtls($resource)));
        $lock->release();

        // 10 ms may be over before the answer is here, which acquire() then has to say. All that
        // is demanded is that the key never stays longer.
        $short = $this->lock($resource, 0.01);
        $short->acquire();
        self::assertLessThanOrEqual(10, max($this->storedTtls($resource)));
        eventually(fn () => !$this->isStored($resource), 'ten milliseconds pass', 1.0);
    }
}
