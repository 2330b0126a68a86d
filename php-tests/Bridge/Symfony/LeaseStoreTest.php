<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Symfony;

use RedisLease\Bridge\Symfony\LeaseStore;
use RedisLease\Bridge\Symfony\LockFactory;
use RedisLease\Bridge\Symfony\Origin;
use RedisLease\Connection;
use RedisLease\ConnectionException;
use RedisLease\LeaseLostException;
use RedisLease\OutcomeUnknownException;
use RedisLease\ServerException;
use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\RedisServer;
use Symfony\Component\Lock\Exception\ExceptionInterface;
use Symfony\Component\Lock\Exception\InvalidArgumentException;
use Symfony\Component\Lock\Exception\InvalidTtlException;
use Symfony\Component\Lock\Exception\LockAcquiringException;
use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\Exception\LockExpiredException;
use Symfony\Component\Lock\Exception\LockReleasingException;
use Symfony\Component\Lock\Exception\LockStorageException;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\LockFactory as SymfonyLockFactory;
use Symfony\Component\Lock\PersistingStoreInterface;
use Symfony\Component\Lock\Test\AbstractStoreTestCase;
use Throwable;
use ValueError;

use function RedisLease\Tests\Support\eventually;

/** What Symfony demands of a store, and what it may ask of ours besides. */
final class LeaseStoreTest extends SymfonyTestCase
{
    /** From Symfony 7.4 on the package has the demands with it. */
    public function testSymfonysOwnTestsOfAStorePass(): void
    {
        if (!class_exists(AbstractStoreTestCase::class)) {
            self::assertFalse(class_exists(AbstractStoreTestCase::class), 'the tests below make the same demands');

            return;
        }
        $case = new class ('testSave') extends AbstractStoreTestCase {
            public static LeaseStore $store;

            protected function getStore(): PersistingStoreInterface
            {
                return self::$store;
            }
        };
        $case::$store = $this->store();
        $demands = preg_grep('/^test/', get_class_methods(AbstractStoreTestCase::class));
        self::assertNotSame([], $demands);
        foreach ($demands as $demand) {
            $case->$demand();
        }
    }

    public function testAKeyHasTheLockFromSaveToDelete(): void
    {
        $store = $this->store();
        $key = new Key('order:1');
        self::assertFalse($store->exists($key));

        $store->save($key);
        self::assertTrue($store->exists($key));
        self::assertMatchesRegularExpression('/^[0-9a-f]{32}$/', self::stored('order:1'));
        self::assertFalse($store->exists(new Key('order:2')));

        $store->delete($key);
        self::assertFalse($store->exists($key));
        self::assertNull(self::stored('order:1'));
    }

    public function testTwoKeysOfOneResourceExcludeEachOther(): void
    {
        $store = $this->store();
        [$first, $second] = [new Key('order:1'), new Key('order:1')];
        $store->save($first);

        self::assertConflict(fn () => $store->save($second));
        $store->delete($second);

        self::assertTrue($store->exists($first), 'what the second did changed nothing');
        self::assertFalse($store->exists($second));
        $store->delete($first);
        $store->save($second);
        self::assertFalse($store->exists($first));
        self::assertTrue($store->exists($second));
    }

    public function testSavingTwiceByOneKeyExtendsIt(): void
    {
        foreach ([$this->store(5.0), $this->store(5.0)->forLock(5.0, true)] as $store) {
            $key = new Key('order:1');
            $store->save($key);
            $token = self::stored('order:1');
            self::$server->command('PEXPIRE', 'lock:order:1', 1_000);

            $store->save($key);

            self::assertSame($token, self::stored('order:1'));
            self::assertGreaterThan(1_000, self::$server->command('PTTL', 'lock:order:1'));
            $store->delete($key);
            self::assertNull(self::stored('order:1'));
        }
    }

    public function testTheStateIsOneStringAndHandsTheLockOver(): void
    {
        $key = new Key('order:1');
        $this->store()->save($key);
        self::assertSame(self::stored('order:1'), $key->getState(LeaseStore::class));
        $passedOn = self::passedOn($key);
        unset($key);

        $elsewhere = $this->store();
        self::assertTrue($elsewhere->exists($passedOn));
        self::assertNull($elsewhere->fence($passedOn), 'not asked for yet');
        $elsewhere->putOffExpiration($passedOn, 600.0);
        self::assertIsInt($elsewhere->fence($passedOn));
        self::assertGreaterThan(300_000, self::$server->command('PTTL', 'lock:order:1'));
        $elsewhere->save($passedOn);
        self::assertTrue($elsewhere->exists($passedOn));
        $elsewhere->delete($passedOn);
        self::assertNull(self::stored('order:1'));
    }

    /** As Symfony's normalizer for messages has it, which other encoders than PHP's own follow. */
    public function testAKeyIsHandedOverAsJsonToo(): void
    {
        $key = new Key('order:1');
        $this->store()->save($key);
        $state = [LeaseStore::class => $key->getState(LeaseStore::class), Origin::class => $key->getState(Origin::class)];
        $passedOn = new Key('order:1');
        foreach (json_decode(json_encode($state, JSON_THROW_ON_ERROR), true) as $name => $value) {
            $passedOn->setState($name, $value);
        }

        self::assertTrue($this->store()->exists($passedOn));
        $this->store()->delete($passedOn);
        self::assertNull(self::stored('order:1'));
        self::assertFalse($passedOn->hasState(Origin::class));
    }

    public function testAnExpiredLockIsAnybodysAndCannotBePutOff(): void
    {
        $store = $this->store(0.05);
        [$first, $second] = [new Key('order:1'), new Key('order:1')];
        $store->save($first);
        eventually(fn () => self::stored('order:1') === null, 'the lock is over');

        self::assertFalse($store->exists($first));
        self::assertTrue($first->isExpired());
        $store->forLock(30.0, true)->save($second);

        $first->resetLifetime();
        self::assertFalse($store->exists($first), 'it is the second one\'s');
        self::assertConflict(fn () => $store->putOffExpiration($first, 5.0));
        $store->delete($first);
        self::assertTrue($store->exists($second));
    }

    public function testALifetimeThatIsOverCountsThoughRedisWouldKeepTheLock(): void
    {
        $store = $this->store();
        $key = new Key('order:1');
        $store->save($key);
        $store->putOffExpiration($key, 0.05);

        self::assertLessThanOrEqual(0.05, $key->getRemainingLifetime());
        eventually(fn () => $key->isExpired(), 'the lifetime is over');
        self::assertFalse($store->exists($key), 'nobody may rely on it');
        self::assertConflict(fn () => $store->save(new Key('order:1')), 'a lease is never shortened');
    }

    public function testTheLifetimeIsWhatMayBeReliedOn(): void
    {
        $store = $this->store(100.0);
        $key = new Key('order:1');
        $store->save($key);
        self::assertLessThanOrEqual(99.0, $key->getRemainingLifetime(), 'less the drift');
        self::assertGreaterThan(80.0, $key->getRemainingLifetime());

        $key->resetLifetime();
        $store->putOffExpiration($key, 200.0);
        self::assertLessThanOrEqual(198.0, $key->getRemainingLifetime());
        self::assertGreaterThan(180.0, $key->getRemainingLifetime());
    }

    public function testAWaiterIsWokenByTheRelease(): void
    {
        $store = $this->store();
        $key = new Key('order:1');
        $store->save($key);
        $waiter = self::symfonyWorker(<<<'PHP'
            $key = new Key('order:1');
            say('waits');
            $store->waitAndSave($key);
            say([hrtime(true) / 1e9, $store->exists($key)]);
            PHP);
        $waiter->hear();
        eventually(fn () => self::$server->command('EXISTS', 'lock~{lock:order:1}:waiter'), 'it waits on Redis');

        $store->delete($key);
        $released = hrtime(true) / 1e9;
        [$woken, $exists] = $waiter->hear();

        self::assertTrue($exists);
        self::assertLessThan(2.0, $woken - $released);
        $waiter->finish();
    }

    public function testALimitedWaitEndsAsAConflict(): void
    {
        $held = $this->heldLock('order:1');
        $before = hrtime(true);

        self::assertConflict(fn () => $this->store(longestWait: 0.2)->waitAndSave(new Key('order:1')));

        self::assertGreaterThanOrEqual(0.2, (hrtime(true) - $before) / 1e9);
        self::assertTrue($held->isHeld());
    }

    public function testOnlyAConflictIsAConflict(): void
    {
        $server = RedisServer::start(tcp: true);
        $proxy = FaultProxy::start($server);
        $connection = new Connection($proxy->dsn(), 0.1, 0.2);
        $store = new LeaseStore($connection, 30.0, 30.0);
        [$held, $other] = [new Key('order:1'), new Key('order:2')];
        $store->save($held);

        $proxy->hold('reply');
        $proxy->newConnections('hang');
        $this->assertTrouble(LockAcquiringException::class, OutcomeUnknownException::class, fn () => $store->save($other));
        $proxy->cut('reset', false);
        $proxy->newConnections('refuse');
        $refused = ConnectionException::class;
        $this->assertTrouble(LockAcquiringException::class, $refused, fn () => $store->save(new Key('order:3')));
        $this->assertTrouble(LockStorageException::class, $refused, fn () => $store->putOffExpiration($held, 60.0));
        $this->assertTrouble(LockStorageException::class, $refused, fn () => $store->exists($held));
        $this->assertTrouble(LockReleasingException::class, $refused, fn () => $store->delete($held));

        $proxy->pass();
        $store->delete($held);
        self::assertNull($server->command('GET', 'lock:order:1'), 'a further release gives the final answer');
        $store->delete($other);
        self::assertNull($server->command('GET', 'lock:order:2'), 'the unknown outcome is settled');
    }

    public function testAGrantThatComesTooLateIsNoConflict(): void
    {
        $server = RedisServer::start(tcp: true);
        $proxy = FaultProxy::start($server);
        [$store, $key] = [new LeaseStore(new Connection($proxy->dsn(), 5.0, 5.0), 0.2), new Key('order:1')];
        $proxy->delay(0.0, 0.4);

        $this->assertTrouble(LockExpiredException::class, LeaseLostException::class, fn () => $store->save($key));

        self::assertFalse($store->exists($key));
    }

    public function testAReleaseWithoutAnAnswerIsTriedAgainAtTheEndOfTheProcess(): void
    {
        $server = RedisServer::start(tcp: true);
        $proxy = FaultProxy::start($server);
        $worker = self::symfonyWorker(<<<'PHP'
            $factory = new LockFactory(new LeaseStore(new Connection($args['proxy'], 0.2, 0.2)));
            $key = new Key('order:1');
            $lock = $factory->createLockFromKey($key, 300.0, false);
            say($lock->acquire());
            hear();
            try {
                $lock->release();
            } catch (Symfony\Component\Lock\Exception\LockReleasingException) {
                say('no answer');
            }
            hear();
            PHP, ['proxy' => $proxy->dsn()]);
        self::assertTrue($worker->hear());
        $proxy->cut('reset', false);
        $proxy->newConnections('refuse');
        $worker->say();
        self::assertSame('no answer', $worker->hear());
        self::assertNotNull($server->command('GET', 'lock:order:1'));
        $proxy->pass();
        $worker->say();
        $worker->finish();

        self::assertNull($server->command('GET', 'lock:order:1'));
    }

    public function testARefusalOfRedisIsNoConflict(): void
    {
        self::$server->command('RPUSH', 'lock:order:1', 'of another program');

        $this->assertTrouble(
            LockAcquiringException::class,
            ServerException::class,
            fn () => $this->store()->save(new Key('order:1')),
        );
    }

    private function assertTrouble(string $class, string $previous, callable $action): void
    {
        try {
            $action();
        } catch (Throwable $trouble) {
            self::assertInstanceOf($class, $trouble);
            self::assertNotInstanceOf(LockConflictedException::class, $trouble);
            self::assertInstanceOf($previous, $trouble->getPrevious());

            return;
        }
        self::fail("there should have been a $class");
    }

    public function testANameThatNoLeaseCanHaveIsRefused(): void
    {
        foreach (['', str_repeat('x', 65_537)] as $name) {
            $this->assertTrouble(InvalidArgumentException::class, ValueError::class, fn () => $this->store()->save(new Key($name)));
            try {
                $this->factory()->createLock($name)->acquire();
                self::fail('an exception of Symfony\'s, whatever its kind');
            } catch (LockAcquiringException $trouble) {
                self::assertInstanceOf(InvalidArgumentException::class, $trouble->getPrevious());
            }
        }
        self::assertTrue($this->factory()->createLock(str_repeat('x', 65_536))->acquire());
    }

    /** It may come from a queue that others write to. */
    public function testAKeyThatWasTamperedWithIsALockExceptionOfSymfonys(): void
    {
        foreach (['', 'reserved:x', str_repeat('x', 256), ['x'], 7, null, true] as $state) {
            if ($state === null) {
                $key = new Key('');
                $key->setState(LeaseStore::class, 'token');
            } else {
                $key = new Key('order:1');
                $key->setState(LeaseStore::class, $state);
            }
            $store = $this->store();
            $uses = [
                fn () => $store->exists($key),
                fn () => $store->save($key),
                fn () => $store->putOffExpiration($key, 5.0),
                fn () => $store->delete($key),
                fn () => (new SymfonyLockFactory($store))->createLockFromKey($key)->isAcquired(),
                fn () => (new SymfonyLockFactory($store))->createLockFromKey($key)->acquire(),
                fn () => (new LockFactory($store))->createLockFromKey($key)->refresh(),
            ];
            foreach ($uses as $number => $use) {
                try {
                    $use();
                    self::fail("use $number of " . var_export($state, true));
                } catch (ExceptionInterface $refusal) {
                    self::assertNotInstanceOf(LockConflictedException::class, $refusal);
                }
            }
        }
    }

    public function testTimesOutOfRangeAreRefused(): void
    {
        $store = $this->store();
        $key = new Key('order:1');
        $store->save($key);
        foreach ([0.0, 0.009, -1.0, 31_536_001.0, NAN, INF] as $ttl) {
            foreach ([fn () => new LeaseStore(null, $ttl), fn () => $store->putOffExpiration($key, $ttl)] as $use) {
                try {
                    $use();
                    self::fail("a TTL of $ttl");
                } catch (InvalidTtlException $refusal) {
                    self::assertStringContainsString('0.01 and 31536000', $refusal->getMessage());
                }
            }
        }
        $this->expectException(InvalidArgumentException::class);
        new LeaseStore(null, 30.0, -1.0);
    }
}
