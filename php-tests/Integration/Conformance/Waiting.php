<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration\Conformance;

use RedisLease\Tests\Support\Worker;

use function RedisLease\Tests\Support\eventually;
use function RedisLease\Tests\Support\timed;

/** A wait is bounded by the caller and ends as soon as the lock is free. */
trait Waiting
{
    public function testWithoutAWaitARefusalComesAtOnce(): void
    {
        $resource = $this->resource();
        $owner = $this->heldLock($resource);
        $lock = $this->lock($resource);

        [$acquired, $seconds] = timed(static fn () => $lock->acquire());

        self::assertFalse($acquired);
        self::assertLessThan(0.2, $seconds);
        self::assertOwner($owner);
    }

    public function testAWaitEndsWithFalseAtItsDeadline(): void
    {
        $resource = $this->resource();
        $owner = $this->heldLock($resource);
        $lock = $this->lock($resource);
        foreach ([0.001, 0.05, 0.3] as $wait) {
            // Never early; late once in a while, as a busy machine is.
            $late = INF;
            for ($try = 0; $try < 4 && $late >= 0.3; $try++) {
                [$acquired, $seconds] = timed(static fn () => $lock->acquire($wait));

                self::assertFalse($acquired, "wait $wait");
                self::assertGreaterThanOrEqual($wait * 0.99, $seconds, "wait $wait");
                $late = min($late, $seconds - $wait);
            }
            self::assertLessThan(0.3, $late, "wait $wait");
        }
        self::assertOwner($owner);
    }

    public function testAWaiterGetsTheLockWhenItIsReleased(): void
    {
        $resource = $this->resource();
        $owner = $this->heldLock($resource);
        $before = $this->scriptCalls();
        $waiter = $this->waiter($resource, 30.0);
        eventually(fn () => $this->scriptCalls() > $before, 'the waiter has been refused');

        self::assertTrue($owner->release());

        [$acquired, $seconds, $fence] = $waiter->hear();
        self::assertTrue($acquired);
        self::assertLessThan(10.0, $seconds);
        self::assertGreaterThan($owner->fence(), $fence);
        $waiter->say();
        $waiter->finish();
    }

    public function testAWaiterGetsTheLockWhenItsOwnerDied(): void
    {
        $resource = $this->resource();
        $this->storeForeign($resource, 'dead', 300);
        $waiter = $this->waiter($resource, 30.0);

        [$acquired, $seconds] = $waiter->hear();

        self::assertTrue($acquired);
        self::assertLessThan(5.0, $seconds);
        $waiter->say();
        $waiter->finish();
        eventually(fn () => !$this->isStored($resource), 'the waiter gave the lock back');
    }

    public function testOfManyWaitersEachGetsTheLockAlone(): void
    {
        $resource = $this->resource();
        $owner = $this->heldLock($resource);
        $before = $this->scriptCalls();
        $waiters = [];
        for ($i = 0; $i < 5; $i++) {
            $waiters[] = $this->waiter($resource, 30.0);
        }
        eventually(fn () => $this->scriptCalls() >= $before + 5, 'all waiters have been refused');
        foreach ($waiters as $waiter) {
            $waiter->say();
        }
        self::assertTrue($owner->release());

        $fences = [];
        foreach ($waiters as $waiter) {
            [$acquired, , $fence] = $waiter->hear(30.0);
            self::assertTrue($acquired);
            $fences[] = $fence;
        }
        self::assertCount(5, array_unique($fences));
        foreach ($waiters as $waiter) {
            $waiter->finish();
        }
    }

    private function waiter(string $resource, float $wait): Worker
    {
        $snippet = <<<'PHP'
            $lock = new DistributedLock($args['resource'], 30.0, connection: new Connection($args['dsn'], 5.0, 5.0));
            $start = hrtime(true);
            $acquired = $lock->acquire($args['wait']);
            say([$acquired, (hrtime(true) - $start) / 1e9, $lock->fence()]);
            hear();
            $lock->release();
            PHP;

        return Worker::start($snippet, ['resource' => $resource, 'dsn' => static::dsn(), 'wait' => $wait]);
    }

    /** How many scripts the servers have run or refused to run; it grows with every attempt. */
    private function scriptCalls(): int
    {
        $calls = 0;
        foreach (self::$servers as $server) {
            preg_match_all('/^cmdstat_(?:evalsha|eval):calls=(\d+)/m', $server->command('INFO', 'commandstats'), $found);
            $calls += array_sum($found[1]);
        }

        return $calls;
    }
}
