<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Laravel;

use Illuminate\Contracts\Cache\LockTimeoutException;
use PDO;
use Redis;
use RedisLease\Bridge\FencedTable;
use RedisLease\Bridge\Laravel\LeaseLock;
use RedisLease\Bridge\LeaseFactory;
use RedisLease\Bridge\StaleFenceException;
use RedisLease\Connection;
use RedisLease\ConnectionException;
use RedisLease\ServerException;
use RedisLease\Tests\Bridge\Database\Needs;
use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\KeySlot;
use RedisLease\Tests\Support\Monitor;
use RedisLease\Tests\Support\MonitorLine;
use RedisLease\Tests\Support\Proc;
use RedisLease\Tests\Support\RedisCluster;
use RedisLease\Tests\Support\RedisServer;

use function RedisLease\Tests\Support\eventually;

/** What Laravel's users reported of locks in Redis does not happen here. Each test names the report. */
final class LaravelFaultsTest extends LaravelTestCase
{
    /** laravel#23607: a forked child frees the lock that its parent holds. */
    public function testAForkedChildDoesNotFreeItsParentsLock(): void
    {
        $worker = self::laravelWorker(<<<'PHP'
            $lock = Cache::lock('order:1', 60);
            say($lock->get());
            if (($child = pcntl_fork()) === 0) {
                say([$lock->isOwnedByCurrentProcess(), $lock->release(), $lock->refresh(), $lock->get()]);
                unset($lock);
                exit;
            }
            pcntl_waitpid($child, $status);
            hear();
            say([$lock->isOwnedByCurrentProcess(), $lock->refresh(), $lock->release()]);
            PHP);
        self::assertTrue($worker->hear());
        $owner = self::stored('order:1');
        self::assertSame([false, false, false, false], $worker->hear());

        self::assertSame($owner, self::stored('order:1'));
        $worker->say();
        self::assertSame([true, true, true], $worker->hear());
        $worker->finish();
    }

    /** laravel#23607, for a job that goes on with its request's lock. */
    public function testAForkedChildDoesNotFreeWhatItsParentHasRestored(): void
    {
        $lock = $this->lease('order:1', 60);
        $lock->get();
        foreach (['refreshed' => '$lock->refresh(60);', 'not asked for yet' => ''] as $how => $use) {
            $worker = self::laravelWorker(<<<PHP
                \$lock = Cache::restoreLock('order:1', \$args['owner']);
                $use
                if ((\$child = pcntl_fork()) === 0) {
                    say([\$lock->isOwnedByCurrentProcess(), \$lock->refresh(), \$lock->release()]);
                    exit;
                }
                pcntl_waitpid(\$child, \$status);
                say([\$lock->isOwnedByCurrentProcess(), \$lock->refresh()]);
                PHP, ['owner' => $lock->owner()]);
            self::assertSame([false, false, false], $worker->hear(), $how);
            self::assertSame([true, true], $worker->hear(), $how);
            $worker->finish();
        }
    }

    /** laravel#26213, laravel#20709: a lock is released that has passed to another worker when it expired. */
    public function testALockThatHasPassedToAnotherIsNotReleased(): void
    {
        $late = $this->lease('order:1', 0.05);
        self::assertTrue($late->get());
        eventually(fn () => !$late->isLocked(), 'the lock is over');
        $next = $this->lease('order:1');
        self::assertTrue($next->get());

        self::assertFalse($late->release());
        self::assertFalse($late->refresh());

        self::assertTrue($next->refresh());
    }

    /** laravel#59567, laravel#60042: a retry of a job frees the lock of a newer one. */
    public function testARetryThatRunsLateFreesNothingAndWritesNothing(): void
    {
        Needs::module('pdo_sqlite', 'php-sqlite3');
        $pdo = new PDO('sqlite::memory:');
        $pdo->exec('CREATE TABLE report (id INTEGER PRIMARY KEY, text TEXT, fence BIGINT)');
        $reports = new FencedTable($pdo, 'report');
        $first = $this->lease('report', 60);
        $first->get();
        [$owner, $fence] = [$first->owner(), $first->fence()];
        self::assertTrue($first->release());
        $newer = $this->lease('report', 60);
        $newer->get();
        $reports->put(1, ['text' => 'newer'], $newer->fence());

        $retry = $this->lease('report', 0, $owner);
        self::assertFalse($retry->refresh());
        try {
            $reports->put(1, ['text' => 'late'], $fence);
            self::fail('a newer one has written');
        } catch (StaleFenceException) {
            $retry->release();
        }

        self::assertTrue($newer->refresh());
        self::assertSame('newer', $pdo->query('SELECT text FROM report')->fetchColumn());
    }

    /** From the request to the job, by the owner: symfony#57970 and symfony#28208 of Laravel's. */
    public function testAJobInAnotherProcessGoesOnWithTheLockAndReleasesIt(): void
    {
        $request = self::laravelWorker(<<<'PHP'
            $lock = Cache::lock('podcast:1', 60);
            say([$lock->get(), $lock->owner(), $lock->fence()]);
            PHP);
        [$acquired, $owner, $fence] = $request->hear();
        self::assertTrue($acquired);
        $request->finish();
        self::assertSame($owner, self::stored('podcast:1'));

        $job = self::laravelWorker(<<<'PHP'
            $stranger = Cache::lock('podcast:1', 60);
            say([$stranger->get(), $stranger->release()]);
            $lock = Cache::restoreLock('podcast:1', $args['owner']);
            say([$lock->refresh(120), $lock->fence(), $lock->release()]);
            PHP, ['owner' => $owner]);
        self::assertSame([false, false], $job->hear());
        self::assertSame([true, $fence, true], $job->hear());
        $job->finish();
        self::assertNull(self::stored('podcast:1'));
    }

    /** An outage looks like contention: get() is false, and the work is skipped without a word. */
    public function testAnOutageIsToldAsOne(): void
    {
        $server = RedisServer::start();
        $leases = new LeaseFactory(new Connection($server->dsn(), 0.2, 0.2));
        $lock = new LeaseLock($leases, 'order:1', 30, null, 60.0);
        $server->kill();
        $uses = [
            'get' => fn () => $lock->get(),
            'block' => fn () => $lock->block(0.5),
            'isLocked' => fn () => $lock->isLocked(),
            'forceRelease' => fn () => $lock->forceRelease(),
        ];
        foreach ($uses as $what => $use) {
            try {
                $use();
                self::fail("$what(): there is no Redis");
            } catch (ConnectionException $outage) {
                self::assertSame('order:1', $outage->resource, $what);
            }
        }
    }

    /** Redis hangs for a moment, and the lock of 0 seconds that it granted meanwhile is nobody's for a day. */
    public function testAGrantThatNobodyHeardOfIsGivenBackLater(): void
    {
        $server = RedisServer::start(tcp: true);
        $proxy = FaultProxy::start($server);
        $lease = ['driver' => 'redis_lease', 'store' => 'memory', 'dsn' => $proxy->dsn()];
        $stores = ['leases' => $lease + ['connect_timeout' => 0.2, 'command_timeout' => 0.2]] + self::stores();
        $ends = [
            'by the next who asks' => '$lock = Cache::lock("job"); say($lock->get() && $lock->release());',
            'by a worker of a queue' => 'event(new Illuminate\Queue\Events\Looping("any", "any")); say(true); hear();',
            'after a request' => 'event("Laravel\Octane\Events\RequestTerminated"); say(true); hear();',
            'at the end of the process' => 'say(true);',
        ];
        foreach ($ends as $how => $then) {
            $worker = self::laravelWorker(<<<PHP
                Cache::lock('warm', 1)->get();
                say('warm');
                hear();
                try {
                    Cache::lock('job')->get(fn () => say('ran'));
                } catch (OutcomeUnknownException) {
                    say('unknown');
                }
                hear();
                $then
                PHP, ['stores' => $stores]);
            $worker->hear();
            $proxy->hold('reply');
            $proxy->newConnections('refuse');
            $worker->say();
            self::assertSame('unknown', $worker->hear(), $how);
            self::assertGreaterThan(80_000_000, $server->command('PTTL', 'lock:job'), 'a day');
            $proxy->cut('reset', false);
            $proxy->pass();

            $worker->say();
            self::assertTrue($worker->hear(), $how);
            $how === 'at the end of the process' && $worker->finish();

            self::assertNull($server->command('GET', 'lock:job'), $how);
        }
    }

    /** A restart of Redis fails whoever comes in that moment. */
    public function testABlockThatMeetsAShortOutageBearsIt(): void
    {
        $server = RedisServer::start();
        $worker = self::laravelWorker(
            'say(Cache::lock("warm", 1)->get()); hear(); say("waits"); say(Cache::lock("job", 60)->block(60));',
            ['stores' => ['leases' => ['driver' => 'redis_lease', 'store' => 'memory', 'dsn' => $server->dsn()]] + self::stores()],
        );
        $worker->hear();
        $server->kill();
        $worker->say();
        $worker->hear();
        usleep(200_000);
        $server->restart(keepData: false);

        self::assertTrue($worker->hear());
        $worker->finish();
    }

    /** The same, for who has something to give back first. */
    public function testABlockThatMeetsAShortOutageBearsItAlsoWhileSomethingIsOwed(): void
    {
        $server = RedisServer::start();
        $worker = self::laravelWorker(
            <<<'PHP'
                $lock = Cache::lock('job', 60);
                say($lock->get());
                hear();
                try {
                    $lock->release();
                } catch (ConnectionException) {
                    say('owed');
                }
                say($lock->block(60));
                PHP,
            ['stores' => ['leases' => ['driver' => 'redis_lease', 'store' => 'memory', 'dsn' => $server->dsn()]] + self::stores()],
        );
        self::assertTrue($worker->hear());
        $server->command('SAVE');
        $server->kill();
        $worker->say();
        self::assertSame('owed', $worker->hear());
        usleep(200_000);
        $server->restart(keepData: true);

        self::assertTrue($worker->hear());
        $worker->finish();
    }

    /** laravel#36337: with a serializer or compression of phpredis the release compares other bytes. */
    public function testTheClientsSerializerDoesNotMatter(): void
    {
        Needs::module('redis', 'php-redis');
        $options = ['prefix' => 'p:', 'serializer' => Redis::SERIALIZER_PHP];
        $this->app(['store' => 'redis'], ['redis' => [
            'client' => 'phpredis',
            'options' => $options,
            'default' => ['host' => self::$server->socket(), 'port' => 0],
        ]], ['redis' => ['driver' => 'redis', 'connection' => 'default']]);
        $cache = app('cache');
        $cache->put('order:1', ['a' => 'value'], 60);
        $lock = $cache->lock('order:1', 60);

        self::assertTrue($lock->get());
        self::assertSame($lock->owner(), self::stored('order:1'));
        self::assertTrue($lock->release());
        self::assertSame(['a' => 'value'], $cache->get('order:1'), 'laravel#34250: lock and value have keys of their own');
    }

    /** laravel#34033, laravel#41516: the poll is too coarse, and goes on past the deadline. */
    public function testABlockEndsAtItsDeadlineAndTakesWhatIsFreedBefore(): void
    {
        $owner = $this->lease('order:1', 0.4);
        $owner->get();
        [$answer, $took] = Proc::timed(fn () => $this->lease('order:1', 60)->block(10));
        self::assertTrue($answer);
        self::assertLessThan(2.0, $took);

        [$thrown, $took] = Proc::timed(function (): ?string {
            try {
                $this->lease('order:1')->block(0.1);
            } catch (LockTimeoutException $timeout) {
                return $timeout::class;
            }

            return null;
        });
        self::assertSame(LockTimeoutException::class, $thrown);
        self::assertLessThan(1.0, $took);
    }

    /** laravel#59533: the keys of one lock are in different slots of a cluster. */
    public function testAllKeysOfALockAreInOneSlot(): void
    {
        $lock = $this->lease('order:{eu}:1');
        $lock->get();
        $waiter = self::laravelWorker('say("waits"); Cache::lock("order:{eu}:1", 30)->block(30); say("done");');
        $waiter->hear();
        eventually(fn () => count(self::$server->command('KEYS', '*')) >= 3, 'it waits on Redis');
        $slots = array_map(KeySlot::of(...), self::$server->command('KEYS', '*'));

        self::assertCount(1, array_unique($slots));
        $lock->release();
        $waiter->hear();
        $waiter->finish();
    }

    /** laravel#59533: the same, and whatever braces a name has, on a real cluster. */
    public function testLocksWorkOnACluster(): void
    {
        $cluster = RedisCluster::start();
        $leases = new LeaseFactory(new Connection($cluster->dsn(), 5.0, 5.0));
        foreach (['order:1', 'order:{eu}:2', 'order:{3', '}4{', '{}5'] as $name) {
            $lock = new LeaseLock($leases, $name, 30, null, 60.0);
            self::assertTrue($lock->get(), $name);
            self::assertFalse((new LeaseLock($leases, $name, 30, null, 60.0))->get(), $name);
            self::assertTrue((new LeaseLock($leases, $name, 0, $lock->owner(), 60.0))->refresh(60), $name);
            self::assertTrue($lock->release(), $name);
            self::assertTrue((new LeaseLock($leases, $name, 30, null, 60.0))->block(1), $name);
        }
    }

    /** horizon#1738: a worker dies right after it took the lock, and the lock stays for ever. */
    public function testTheLockOfAKilledWorkerHasAnEndFromItsFirstMoment(): void
    {
        $monitor = Monitor::start(self::$server);
        $worker = self::laravelWorker('$lock = Cache::lock("order:1", 1); $lock->get(); say("has it"); hear();');
        $worker->hear();
        $set = array_values(array_filter(
            $monitor->all(),
            static fn (MonitorLine $line): bool => strtoupper($line->words[0]) === 'SET' && $line->words[1] === 'lock:order:1',
        ));
        $monitor->close();
        self::assertCount(1, $set);
        self::assertSame(['PX', '1000'], array_map(strtoupper(...), array_slice($set[0]->words, -2)));
        $worker->kill();

        self::assertTrue($this->lease('order:1')->block(10));
    }

    /** laravel#41302, laravel#16537: a connection that has died is used again and again. */
    public function testAServerThatWasStartedAnewIsUsedAtOnce(): void
    {
        $server = RedisServer::start();
        $leases = new LeaseFactory(new Connection($server->dsn(), 5.0, 5.0));
        foreach ([1, 2] as $time) {
            $lock = new LeaseLock($leases, 'order:1', 30, null, 60.0);
            self::assertTrue($lock->get());
            $server->restart(keepData: true);
            self::assertTrue($lock->release(), "time $time");
        }
    }

    /** laravel#57685: after a failover the worker talks to a replica, and is told READONLY for ever. */
    public function testAServerThatTakesNoWritesIsNoContentionAndIsUsedWhenItDoesAgain(): void
    {
        $server = RedisServer::start();
        $lock = new LeaseLock(new LeaseFactory(new Connection($server->dsn(), 5.0, 5.0)), 'order:1', 30, null, 60.0);
        self::assertTrue($lock->get());
        self::assertTrue($lock->release());
        $server->command('REPLICAOF', '127.0.0.1', '1');
        try {
            $lock->get();
            self::fail('a replica grants nothing');
        } catch (ServerException $refusal) {
            self::assertSame('READONLY', $refusal->redisCode);
        }
        $server->command('REPLICAOF', 'NO', 'ONE');

        self::assertTrue($lock->get());
    }
}
