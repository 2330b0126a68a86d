<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration\Conformance;

use RedisLease\Tests\Support\Worker;

use function RedisLease\Tests\Support\eventually;

/** A later grant has a higher fence, whoever gets it and whatever Redis remembers. */
trait Fencing
{
    public function testTheFenceRisesOver200Grants(): void
    {
        $resource = $this->resource();
        $last = 0;
        $handles = [$this->lock($resource), $this->lock($resource), $this->lock($resource)];
        for ($grant = 0; $grant < 200; $grant++) {
            $lock = $handles[$grant % 3];
            self::assertTrue($lock->acquire(), "grant $grant");
            self::assertGreaterThan($last, $lock->fence(), "grant $grant");
            $last = $lock->fence();
            self::assertTrue($lock->release(), "grant $grant");
        }
    }

    public function testTheFenceRisesThoughRedisLostItsData(): void
    {
        $resource = $this->resource();
        $last = 0;
        for ($grant = 0; $grant < 20; $grant++) {
            $lock = $this->lock($resource);
            self::assertTrue($lock->acquire(), "grant $grant");
            self::assertGreaterThan($last, $lock->fence(), "grant $grant");
            $last = $lock->fence();
            $this->loseAllData();
        }
    }

    public function testTheFenceRisesThoughTheNextOwnersClockIsBehind(): void
    {
        // As after a grant by a worker whose clock is a day ahead: its fence is the high-water mark.
        $resource = $this->resource();
        $first = $this->heldLock($resource);
        $ahead = $first->fence() + 86_400_000_000;
        $raised = 0;
        foreach (self::$servers as $server) {
            $client = $server->connect(static::database());
            foreach ($client->command('KEYS', '*') as $key) {
                $stored = $client->command('TYPE', $key) === 'string' ? $client->command('GET', $key) : '';
                if (str_starts_with($stored, "{$first->fence()}:")) {
                    $client->command('SET', $key, $ahead . substr($stored, 16), 'KEEPTTL');
                    $raised++;
                }
            }
        }
        self::assertSame(count($this->serversOf($resource)), $raised, 'every server remembers a high-water mark');
        $first->release();

        $last = $ahead;
        for ($grant = 0; $grant < 5; $grant++) {
            $next = $this->heldLock($resource);
            self::assertGreaterThan($last, $next->fence());
            $last = $next->fence();
            $next->release();
        }
    }

    public function testTheFenceRisesAcrossClients(): void
    {
        $resource = $this->resource();
        $script = <<<'PHP'
            $lock = new DistributedLock($args['resource'], 30.0, connection: new Connection($args['dsn'], 5.0, 5.0));
            while (hear() === 'acquire') {
                say([$lock->acquire(), $lock->fence()]);
                $lock->release();
            }
            PHP;
        $workers = [];
        for ($i = 0; $i < 3; $i++) {
            $workers[] = Worker::start($script, ['resource' => $resource, 'dsn' => static::dsn()]);
        }
        $last = 0;
        for ($grant = 0; $grant < 30; $grant++) {
            $worker = $workers[$grant % 3];
            $worker->say('acquire');
            [$acquired, $fence] = $worker->hear();
            self::assertTrue($acquired, "grant $grant");
            self::assertGreaterThan($last, $fence, "grant $grant");
            $last = $fence;
            eventually(fn () => !$this->isStored($resource), 'the worker has released');
        }
        foreach ($workers as $worker) {
            $worker->say('end');
            $worker->finish();
        }
    }

    public function testTheFenceRisesAfterAnExpiry(): void
    {
        $resource = $this->resource();
        $first = $this->heldLock($resource, 0.05);
        eventually(fn () => !$this->isStored($resource), 'the lock expires');

        $second = $this->heldLock($resource);

        self::assertGreaterThan($first->fence(), $second->fence());
    }

    public function testTheFenceOfAForeignLocksSuccessorIsStillHigher(): void
    {
        $resource = $this->resource();
        $first = $this->heldLock($resource);
        $first->release();
        $this->storeForeign($resource);
        $this->removeKey($resource);

        $second = $this->heldLock($resource);

        self::assertGreaterThan($first->fence(), $second->fence());
    }

    public function testAHandleKeepsItsOwnFenceAfterReleaseAndLoss(): void
    {
        $resource = $this->resource();
        $first = $this->heldLock($resource);
        $fence = $first->fence();
        $first->release();
        $second = $this->heldLock($resource);

        self::assertSame($fence, $first->fence());
        self::assertNotSame($second->fence(), $first->fence());
    }

    public function testAHeldHandleWhoseKeyVanishedGetsANewGrantWithTheSameToken(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource);
        [$token, $fence] = [$lock->token(), $lock->fence()];
        $this->removeKey($resource);

        self::assertTrue($lock->acquire());

        self::assertSame($token, $lock->token());
        self::assertGreaterThan($fence, $lock->fence());
        self::assertOwner($lock);
    }

    public function testAHandleWhoseValidityIsOverKeepsItsTokenAndRaisesItsFenceWhileTheKeyIsStillOurs(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource, 0.2);
        [$token, $fence] = [$lock->token(), $lock->fence()];
        $this->setStoredTtl($resource, 60_000);
        eventually(static fn () => !$lock->isHeld(), 'the validity ends');

        self::assertTrue($lock->acquire());

        self::assertSame($token, $lock->token());
        self::assertGreaterThan($fence, $lock->fence());
        self::assertTrue($lock->isHeld());
        self::assertGreaterThan(50_000, min($this->storedTtls($resource)));
    }

    public function testAHandleWhoseLockExpiredStartsAfreshWithANewToken(): void
    {
        $resource = $this->resource();
        $lock = $this->heldLock($resource, 0.1);
        [$token, $fence] = [$lock->token(), $lock->fence()];
        eventually(fn () => !$this->isStored($resource), 'the lock expires');

        eventually(static fn () => $lock->acquire(), 'the lock is taken again');

        self::assertNotSame($token, $lock->token());
        self::assertGreaterThan($fence, $lock->fence());
    }
}
