<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Symfony;

use Psr\Log\AbstractLogger;
use RedisLease\Bridge\Symfony\LockFactory;
use RedisLease\Tests\Bridge\Together;
use RedisLease\Tests\Support\Monitor;
use RedisLease\Tests\Support\MonitorLine;
use Symfony\Component\Lock\Exception\InvalidTtlException;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\LockFactory as SymfonyLockFactory;
use Symfony\Component\Lock\Store\InMemoryStore;
use Symfony\Component\Lock\Store\SemaphoreStore;

use function RedisLease\Tests\Support\eventually;

/** Symfony's Lock objects on leases, as an application has them. */
final class LockFactoryTest extends SymfonyTestCase
{
    public function testALockExcludesAnotherUntilItIsReleased(): void
    {
        [$first, $second] = [$this->factory()->createLock('order:1'), $this->factory()->createLock('order:1')];

        self::assertTrue($first->acquire());
        self::assertTrue($first->isAcquired());
        self::assertFalse($second->acquire());
        self::assertFalse($second->isAcquired());
        $first->release();
        self::assertTrue($second->acquire());
    }

    public function testALockLivesForItsOwnTtlAndNotForTheStores(): void
    {
        $lock = $this->factory()->createLock('order:1', 5.0);
        self::assertTrue($lock->acquire());
        self::assertLessThanOrEqual(5_000, self::$server->command('PTTL', 'lock:order:1'));

        $lock->refresh(60.0);
        self::assertGreaterThan(5_000, self::$server->command('PTTL', 'lock:order:1'));

        $without = $this->factory()->createLock('order:2', null);
        self::assertTrue($without->acquire());
        self::assertGreaterThan(200_000, self::$server->command('PTTL', 'lock:order:2'));
    }

    public function testAcquireAndReleaseAreOneRoundTripEach(): void
    {
        $lock = $this->factory()->createLock('order:1', 30.0);
        $lock->acquire();
        $lock->release();
        $monitor = Monitor::start(self::$server);

        $lock->acquire();
        self::assertSame(['EVALSHA'], self::names($monitor));
        $lock->release();
        self::assertSame(['EVALSHA'], self::names($monitor));

        $lock->acquire();
        $lock->refresh();
        self::assertCount(2, self::names($monitor), 'a further refresh is sent');
        $lock->refresh();
        self::assertCount(1, self::names($monitor));
        $monitor->close();
    }

    private static function names(Monitor $monitor): array
    {
        return array_map(static fn (MonitorLine $line): string => $line->name(), $monitor->commands());
    }

    public function testARefreshLongAfterTheGrantIsSent(): void
    {
        $store = $this->store(30.0);
        $key = new Key('order:1');
        $store->save($key);
        self::$server->command('PEXPIRE', 'lock:order:1', 20_000);
        usleep(15_000);

        $store->putOffExpiration($key, 30.0);

        self::assertGreaterThan(20_000, self::$server->command('PTTL', 'lock:order:1'));
    }

    public function testABlockingAcquireWaitsForTheRelease(): void
    {
        $lock = $this->factory()->createLock('order:1');
        $lock->acquire();
        $waiter = self::symfonyWorker(<<<'PHP'
            $lock = $factory->createLock('order:1', 30.0);
            say('waits');
            say($lock->acquire(true));
            PHP);
        $waiter->hear();
        eventually(fn () => self::$server->command('EXISTS', 'lock~{lock:order:1}:waiter'), 'it waits on Redis');
        self::assertFalse($waiter->hasSaid());

        $lock->release();

        self::assertTrue($waiter->hear());
        $waiter->finish();
    }

    public function testALockWithAutoReleaseGoesWithItsObject(): void
    {
        $lock = $this->factory()->createLock('order:1');
        $lock->acquire();
        unset($lock);
        self::assertNull(self::stored('order:1'));

        $lock = $this->factory()->createLock('order:1', 300.0, false);
        $lock->acquire();
        unset($lock);
        self::assertNotNull(self::stored('order:1'));
    }

    public function testALockWithAutoReleaseIsGivenBackAfterAFatalErrorAndOneWithoutIsNot(): void
    {
        foreach ([[true, null], [false, 'kept']] as [$autoRelease, $kept]) {
            self::$server->flush();
            $worker = self::symfonyWorker(<<<'PHP'
                $lock = $factory->createLock('order:1', 300.0, $args['autoRelease']);
                say($lock->acquire());
                hear();
                ini_set('display_errors', '0');
                ini_set('memory_limit', '8M');
                str_repeat('x', 1 << 30);
                PHP, ['autoRelease' => $autoRelease]);
            self::assertTrue($worker->hear());
            self::assertNotNull(self::stored('order:1'));
            $worker->say();
            self::assertSame(255, $worker->wait());

            self::assertSame($kept, self::stored('order:1') === null ? null : 'kept');
        }
    }

    public function testAKeyHandsTheLockToAnotherProcess(): void
    {
        $key = new Key('order:1');
        $lock = $this->factory()->createLockFromKey($key, 60.0, false);
        $lock->acquire();
        $worker = self::symfonyWorker(<<<'PHP'
            $lock = $factory->createLockFromKey(unserialize($args['key']), 120.0);
            $before = $lock->isAcquired();
            $lock->refresh();
            say([$before, $lock->isAcquired(), $lock->getRemainingLifetime() > 60]);
            hear();
            $lock->release();
            PHP, ['key' => serialize($key)]);
        unset($lock, $key);

        self::assertSame([true, true, true], $worker->hear());
        self::assertFalse($this->factory()->createLock('order:1')->acquire());
        $worker->say();
        $worker->finish();
        self::assertNull(self::stored('order:1'));
    }

    public function testTheFenceRises(): void
    {
        $store = $this->store();
        $fences = [];
        foreach ([true, false] as $autoRelease) {
            $key = new Key('order:1');
            $lock = (new LockFactory($store))->createLockFromKey($key, 30.0, $autoRelease);
            self::assertNull($store->fence($key));
            $lock->acquire();
            $fences[] = $store->fence($key);
            $lock->release();
            self::assertNull($store->fence($key));
        }
        self::assertGreaterThan($fences[0], $fences[1]);
    }

    public function testAReadLockIsAnExclusiveOne(): void
    {
        $first = $this->factory()->createLock('order:1');
        self::assertTrue($first->acquireRead());
        self::assertFalse($this->factory()->createLock('order:1')->acquireRead());
    }

    public function testASecondBlockingReadLockInOneProcessEndsAsAConflict(): void
    {
        $factory = $this->factory(longestWait: 0.2);
        $first = $factory->createLock('order:1');
        self::assertTrue($first->acquireRead(true));
        self::assertTrue($first->acquireRead(true), 'the same lock is extended');
        $second = $factory->createLock('order:1');
        $before = hrtime(true);

        self::assertConflict(static fn () => $second->acquireRead(true));

        self::assertGreaterThanOrEqual(0.2, (hrtime(true) - $before) / 1e9);
        self::assertTrue($first->isAcquired());
    }

    public function testItIsSymfonyThatTakesAnExclusiveLockAndSaysSo(): void
    {
        $logger = new class extends AbstractLogger {
            /** @var list<string> */
            public array $lines = [];

            public function log($level, $message, array $context = []): void
            {
                $this->lines[] = "$level: $message";
            }
        };
        $lines = [];
        foreach ([$this->store(), new SemaphoreStore()] as $store) {
            $factory = new SymfonyLockFactory($store);
            $factory->setLogger($logger);
            self::assertTrue($factory->createLock('order:1')->acquireRead());
            $lines[] = preg_grep('/^debug: .*(read|write)/i', $logger->lines);
            $logger->lines = [];
        }
        self::assertCount(1, $lines[0]);
        self::assertSame($lines[0], $lines[1], 'as for a store of its own');
    }

    public function testWithSymfonysOwnFactoryALockIsLeftToItsKey(): void
    {
        $store = $this->store(10.0);
        $key = new Key('order:1');
        $lock = (new SymfonyLockFactory($store))->createLockFromKey($key, 60.0, false);
        self::assertTrue($lock->acquire());
        self::assertGreaterThan(10_000, self::$server->command('PTTL', 'lock:order:1'));
        $key = self::passedOn($key);
        unset($lock, $store);
        gc_collect_cycles();

        self::assertTrue($this->store()->exists($key));
    }

    public function testAnotherStoreIsUsedAsSymfonyWould(): void
    {
        $lock = (new LockFactory(new InMemoryStore()))->createLock('order:1', 30.0);

        self::assertTrue($lock->acquire());
        self::assertNull(self::stored('order:1'));
    }

    public function testATtlThatNoLeaseCanHaveIsRefusedAtOnce(): void
    {
        $this->expectException(InvalidTtlException::class);
        $this->factory()->createLock('order:1', 0.001);
    }

    public function testManyWorkersThatWaitForOneLockDoNotLoseACount(): void
    {
        Together::count(self::symfonyWorker(...), '$lock = $factory->createLock("count", 60.0); $lock->acquire(true);');
    }

    public function testWhoHasWaitedLongestIsServedFirst(): void
    {
        $take = '$lock = $factory->createLock("order:1", 60.0); $lock->acquire(true);';
        Together::inOrder(self::symfonyWorker(...), $take, $this->heldLock('order:1'), self::$server);
    }
}
