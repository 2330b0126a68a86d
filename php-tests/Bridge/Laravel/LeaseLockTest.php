<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Laravel;

use DateTimeImmutable;
use Illuminate\Contracts\Cache\Lock;
use Illuminate\Contracts\Cache\LockTimeoutException;
use RedisLease\Bridge\LeaseFactory;
use RedisLease\Bridge\Laravel\LeaseLock;
use RedisLease\Connection;
use RedisLease\ConnectionException;
use RedisLease\ServerException;
use RedisLease\Tests\Bridge\Together;
use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\Monitor;
use RedisLease\Tests\Support\RedisServer;
use RuntimeException;
use ValueError;

use function RedisLease\Tests\Support\eventually;

/** What Laravel's code may ask of a lock. */
final class LeaseLockTest extends LaravelTestCase
{
    public function testALockExcludesAnotherUntilItIsReleased(): void
    {
        [$first, $second] = [$this->lease('order:1'), $this->lease('order:1')];
        self::assertInstanceOf(Lock::class, $first);
        self::assertFalse($first->isLocked());

        self::assertTrue($first->get());
        self::assertTrue($second->isLocked());
        self::assertSame([true, false], [$first->isOwnedByCurrentProcess(), $second->isOwnedByCurrentProcess()]);
        self::assertFalse($second->get());
        self::assertFalse($second->release());
        self::assertTrue($first->release());
        self::assertFalse($first->release());
        self::assertTrue($second->get());
    }

    public function testALockIsNotFreeForItsOwnOwnerEither(): void
    {
        $lock = $this->lease('order:1');
        self::assertTrue($lock->get());
        $owner = $lock->owner();

        self::assertFalse($lock->get());

        self::assertSame($owner, $lock->owner());
        self::assertTrue($lock->release());
    }

    public function testACallbackRunsUnderTheLockAndReleasesIt(): void
    {
        $lock = $this->lease('order:1');
        $inside = fn (): array => [self::stored('order:1') !== null, 'answer'];

        self::assertSame([true, 'answer'], $lock->get($inside));
        self::assertNull(self::stored('order:1'));
        self::assertSame([true, 'answer'], $lock->block(1, $inside));
        self::assertNull(self::stored('order:1'));
        foreach (['get' => [], 'block' => [1]] as $method => $arguments) {
            try {
                $lock->$method(...[...$arguments, fn () => throw new RuntimeException('boom')]);
                self::fail('the callback has thrown');
            } catch (RuntimeException $boom) {
                self::assertSame('boom', $boom->getMessage());
                self::assertNull(self::stored('order:1'));
            }
        }
        $held = $this->heldLock('order:1');
        self::assertFalse($lock->get($inside));
        self::assertTrue($held->isHeld());
    }

    public function testTheLockStaysWhenTheObjectGoes(): void
    {
        $lock = $this->lease('order:1', 20);
        self::assertTrue($lock->get());
        $owner = $lock->owner();
        unset($lock);

        self::assertSame($owner, self::stored('order:1'));
        self::assertLessThanOrEqual(20_000, self::$server->command('PTTL', 'lock:order:1'));
    }

    public function testTheOwnerRestoresTheLock(): void
    {
        $lock = $this->lease('order:1', 20);
        self::assertSame('', $lock->owner(), 'nobody yet');
        self::assertTrue($lock->get());
        self::assertMatchesRegularExpression('/^[0-9a-f]{32}$/', $lock->owner());

        $restored = $this->lease('order:1', 0, $lock->owner());
        self::assertNull($restored->fence());
        self::assertTrue($restored->refresh(60));
        self::assertSame($lock->fence(), $restored->fence());
        self::assertGreaterThan(20_000, self::$server->command('PTTL', 'lock:order:1'));
        self::assertTrue($restored->release());
        self::assertNull(self::stored('order:1'));
    }

    public function testAnOwnerOfTheCallersIsReplacedByTheGrants(): void
    {
        $lock = $this->lease('order:1', 20, 'me');
        self::assertSame('me', $lock->owner());
        self::assertFalse($lock->release());

        self::assertTrue($lock->get());
        self::assertFalse($this->lease('order:1', 20, 'me')->get());
        self::assertSame(self::stored('order:1'), $lock->owner());
        self::assertTrue($lock->release());
    }

    public function testARefreshExtendsOnlyWhatIsStillOurs(): void
    {
        $lock = $this->lease('order:1', 20);
        self::assertFalse($lock->refresh());
        $lock->get();
        self::$server->command('PEXPIRE', 'lock:order:1', 1_000);
        self::assertTrue($lock->refresh());
        self::assertGreaterThan(1_000, self::$server->command('PTTL', 'lock:order:1'));
        self::assertTrue($lock->refresh(60));
        self::assertGreaterThan(20_000, self::$server->command('PTTL', 'lock:order:1'));
        unset($lock);
        self::assertNotNull(self::stored('order:1'), 'it stays, after a refresh too');

        $lock = $this->lease('order:2', 20);
        $lock->get();
        self::$server->command('SET', 'lock:order:2', 'another owner', 'PX', 60_000);
        self::assertFalse($lock->refresh());
        self::assertFalse($lock->release());
        self::assertSame('another owner', self::stored('order:2'));
    }

    public function testWhatNoLeaseCanHaveIsRefused(): void
    {
        $locks = ['', str_repeat('x', 65_537)];
        $locks = [...array_map(fn (string $name): array => [$name, 30], $locks), ['order:1', 31_536_001], ['order:1', 0.001]];
        foreach ($locks as [$name, $seconds]) {
            try {
                $this->lease($name, $seconds)->get();
                self::fail("$name for $seconds s");
            } catch (ValueError) {
                self::assertSame(0, self::$server->command('DBSIZE'));
            }
        }
        self::assertTrue($this->lease(str_repeat('x', 65_536), 31_536_000)->get());
    }

    public function testForceReleaseRemovesWhoeversItIs(): void
    {
        $lock = $this->lease('order:1');
        $lock->get();

        $this->lease('order:1')->forceRelease();

        self::assertNull(self::stored('order:1'));
        self::assertFalse($lock->release());
        $this->lease('order:1')->forceRelease();
    }

    public function testTheFenceRises(): void
    {
        $lock = $this->lease('order:1');
        self::assertNull($lock->fence());
        $lock->get();
        $first = $lock->fence();
        $lock->release();
        $lock->get();

        self::assertGreaterThan($first, $lock->fence());
    }

    public function testABlockIsWokenByTheRelease(): void
    {
        $lock = $this->lease('order:1');
        $lock->get();
        $waiter = self::laravelWorker(<<<'PHP'
            $lock = Cache::lock('order:1', 30);
            say('waits');
            say([$lock->block(30), hrtime(true) / 1e9]);
            PHP);
        $waiter->hear();
        eventually(fn () => self::$server->command('EXISTS', 'lock~{lock:order:1}:waiter'), 'it waits on Redis');

        self::assertTrue($lock->release());
        $released = hrtime(true) / 1e9;
        [$answer, $woken] = $waiter->hear();

        self::assertTrue($answer);
        self::assertLessThan(2.0, $woken - $released);
        $waiter->finish();
        self::assertNotNull(self::stored('order:1'), 'it stays when the process ends');
    }

    public function testABlockThatIsNotWokenInTimeThrows(): void
    {
        $held = $this->heldLock('order:1');
        foreach ([0, 0.2, -1] as $seconds) {
            [$before, $called] = [hrtime(true), false];
            try {
                $this->lease('order:1')->block($seconds, function () use (&$called): void {
                    $called = true;
                });
                self::fail('another has it');
            } catch (LockTimeoutException) {
                self::assertFalse($called);
                self::assertGreaterThanOrEqual($seconds, (hrtime(true) - $before) / 1e9);
            }
        }
        self::assertTrue($held->isHeld());
    }

    public function testTroubleWithRedisIsNoContention(): void
    {
        self::$server->command('RPUSH', 'lock:order:1', 'of another program');
        foreach (['get', 'isLocked'] as $method) {
            try {
                $this->lease('order:1')->$method();
                self::fail("$method() has no answer");
            } catch (ServerException $refusal) {
                self::assertSame('WRONGTYPE', $refusal->redisCode);
            }
        }
    }

    public function testAReleaseWithoutAnAnswerIsTriedAgain(): void
    {
        $server = RedisServer::start(tcp: true);
        $proxy = FaultProxy::start($server);
        $leases = new LeaseFactory(new Connection($proxy->dsn(), 0.2, 0.2));
        foreach (['a further call', 'the end of the object'] as $again) {
            $lock = new LeaseLock($leases, 'order:1', 30, null, 60.0);
            $lock->get();
            $proxy->cut('reset', false);
            $proxy->newConnections('refuse');
            try {
                $lock->release();
                self::fail('there is no Redis');
            } catch (ConnectionException) {
                self::assertNotNull($server->command('GET', 'lock:order:1'));
            }
            $proxy->pass();

            if ($again === 'a further call') {
                self::assertTrue($lock->release());
            }
            unset($lock);

            self::assertNull($server->command('GET', 'lock:order:1'), $again);
        }
    }

    public function testWhatTheCallbackDidCountsThoughTheReleaseHasNoAnswer(): void
    {
        $server = RedisServer::start(tcp: true);
        $proxy = FaultProxy::start($server);
        $leases = new LeaseFactory(new Connection($proxy->dsn(), 0.2, 0.2));
        $away = static function () use ($proxy): string {
            $proxy->cut('reset', false);
            $proxy->newConnections('refuse');

            return 'answer';
        };
        foreach (['get' => [], 'block' => [1]] as $method => $arguments) {
            $lock = new LeaseLock($leases, 'order:1', 30, null, 60.0);
            self::assertSame('answer', $lock->$method(...[...$arguments, $away]));
            $proxy->pass();
            self::assertNotNull($server->command('GET', 'lock:order:1'));
            self::assertTrue($lock->release(), 'it was owed');
            try {
                $lock->$method(...[...$arguments, fn () => throw new RuntimeException($away())]);
                self::fail('the callback has thrown');
            } catch (RuntimeException $failure) {
                self::assertSame(['answer', null], [$failure->getMessage(), $failure->getPrevious()]);
            }
            $proxy->pass();
            self::assertTrue($lock->get());
            self::assertTrue($lock->release());
        }
    }

    public function testAcquireAndReleaseAreOneRoundTripEach(): void
    {
        $lock = $this->lease('order:1');
        $lock->get();
        $lock->release();
        $monitor = Monitor::start(self::$server);

        $lock->get();
        self::assertCount(1, $monitor->commands());
        $lock->release();
        self::assertCount(1, $monitor->commands());
        $monitor->close();
    }

    public function testALockWithoutAnEndLivesLongAndIsRenewedWhileItsObjectLives(): void
    {
        $leases = new LeaseFactory($this->connection());
        $lock = new LeaseLock($leases, 'order:1', 0, null, 3.0);
        self::assertTrue($lock->get());
        $fence = $lock->fence();
        self::$server->command('PEXPIRE', 'lock:order:1', 2_000);
        eventually(fn () => self::$server->command('PTTL', 'lock:order:1') > 2_000, 'it is renewed');
        self::assertTrue($lock->refresh(30));
        self::assertSame($fence, $lock->fence());
        self::assertTrue($lock->release());
        self::assertNull(self::stored('order:1'));

        $lock = new LeaseLock($leases, 'order:1', 0, null, 30.0);
        self::assertTrue($lock->get());
        unset($lock);
        self::assertNotNull(self::stored('order:1'), 'it stays, for its TTL');
        self::assertLessThanOrEqual(30_000, self::$server->command('PTTL', 'lock:order:1'));
    }

    /** The README says for how long, and that no other owner changes it. */
    public function testAReleaseIsRememberedForAMinuteForOtherObjectsOfItsOwner(): void
    {
        $lock = $this->lease('order:1', 5);
        self::assertTrue($lock->get());
        self::assertTrue($lock->release());
        self::assertFalse($lock->release());
        $mark = 'lock~{lock:order:1}:mark:' . $lock->owner();
        $other = $this->lease('order:1');
        self::assertTrue($other->get());
        foreach (['by the release', 'anew by the next'] as $how) {
            self::assertGreaterThan(55_000, self::$server->command('PTTL', $mark), $how);
            self::assertLessThanOrEqual(60_000, self::$server->command('PTTL', $mark), $how);
            self::$server->command('PEXPIRE', $mark, 10_000);
            self::assertTrue($this->lease('order:1', 0, $lock->owner())->release(), $how);
        }
        self::assertTrue($other->isOwnedByCurrentProcess());

        self::$server->command('DEL', $mark);
        self::assertFalse($this->lease('order:1', 0, $lock->owner())->release());
    }

    public function testARefreshOfARestoredLockTakesTheLongTtlUnlessItIsGivenSeconds(): void
    {
        $lock = $this->lease('order:1', 20);
        self::assertTrue($lock->get());
        $restored = $this->lease('order:1', 0, $lock->owner());
        self::assertTrue($restored->refresh(100));
        self::assertLessThanOrEqual(100_000, self::$server->command('PTTL', 'lock:order:1'));
        self::assertTrue($restored->refresh());
        self::assertGreaterThan(86_000_000, self::$server->command('PTTL', 'lock:order:1'));
    }

    public function testTheSecondsOfALockAreANumber(): void
    {
        foreach ([new DateTimeImmutable('+5 seconds'), NAN, 'soon', 0.005] as $seconds) {
            try {
                (new LeaseLock(new LeaseFactory($this->connection()), 'order:1', $seconds, null, 60.0))->get();
                self::fail('no lock lasts so long');
            } catch (ValueError) {
                self::assertNull(self::stored('order:1'));
            }
        }
        self::assertTrue((new LeaseLock(new LeaseFactory($this->connection()), 'order:1', '5', null, 60.0))->get());
    }

    public function testACloneEndsNoRenewal(): void
    {
        $lock = new LeaseLock(new LeaseFactory($this->connection()), 'order:1', 0, null, 3.0);
        self::assertTrue($lock->get());
        $clone = clone $lock;
        self::assertTrue($clone->isOwnedByCurrentProcess());
        unset($clone);

        self::$server->command('PEXPIRE', 'lock:order:1', 2_000);
        eventually(fn () => self::$server->command('PTTL', 'lock:order:1') > 2_000, 'it is renewed');
        self::assertTrue((clone $lock)->release());
        self::assertNull(self::stored('order:1'));
    }

    public function testALockWithoutAnEndStaysWhenTheProcessEndsAndGoesWhenItFails(): void
    {
        $ends = ['return;' => true, 'exit;' => true, 'throw new Exception("boom");' => true, 'str_repeat("x", 1 << 30);' => false];
        foreach ($ends as $end => $stays) {
            self::$server->flush();
            $worker = self::laravelWorker(<<<PHP
                ini_set('display_errors', '0');
                \$lock = Cache::lock('order:1');
                say(\$lock->get());
                hear();
                ini_set('memory_limit', '64M');
                $end
                PHP);
            self::assertTrue($worker->hear());
            self::assertGreaterThan(80_000_000, self::$server->command('PTTL', 'lock:order:1'), 'a day');
            $worker->say();
            $worker->wait();

            self::assertSame($stays, self::stored('order:1') !== null, $end);
        }
    }

    public function testManyWorkersThatWaitForOneLockDoNotLoseACount(): void
    {
        Together::count(self::laravelWorker(...), '$lock = Cache::lock("count", 60); $lock->block(60);');
    }

    public function testWhoHasWaitedLongestIsServedFirst(): void
    {
        $take = '$lock = Cache::lock("order:1", 60); $lock->block(60);';
        Together::inOrder(self::laravelWorker(...), $take, $this->heldLock('order:1'), self::$server);
    }
}
