<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Symfony;

use RedisLease\Bridge\Symfony\LeaseStore;
use RedisLease\Bridge\Symfony\LockFactory;
use RedisLease\Connection;
use RedisLease\ConnectionException;
use RedisLease\Tests\Support\RedisCluster;
use RedisLease\Tests\Support\RedisServer;
use Symfony\Component\Lock\Exception\LockAcquiringException;
use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\Key;

use function RedisLease\Tests\Support\eventually;

/** What Symfony's users reported of locks in Redis does not happen here. Each test names the report. */
final class SymfonyFaultsTest extends SymfonyTestCase
{
    /** symfony#40325, symfony#61273: a forked child's end frees the parent's lock. */
    public function testAForkedChildDoesNotFreeItsParentsLock(): void
    {
        $ends = [
            'exit' => 'exit;',
            'dropping the lock' => 'unset($lock); exit;',
            'releasing' => '$lock->release(); exit;',
            'asking and releasing' => '$lock->isAcquired(); unset($lock, $key); exit;',
        ];
        foreach ([true, false] as $autoRelease) {
            foreach ($ends as $how => $end) {
                self::$server->flush();
                $worker = self::symfonyWorker(<<<PHP
                    \$key = new Key('order:1');
                    \$lock = \$factory->createLockFromKey(\$key, 60.0, \$args['autoRelease']);
                    say(\$lock->acquire());
                    if ((\$child = pcntl_fork()) === 0) {
                        $end
                    }
                    pcntl_waitpid(\$child, \$status);
                    say(pcntl_wexitstatus(\$status));
                    hear();
                    say(\$lock->isAcquired());
                    PHP, ['autoRelease' => $autoRelease]);
                self::assertTrue($worker->hear());
                $token = self::stored('order:1');
                self::assertNotNull($token);
                self::assertSame(0, $worker->hear(), $how);

                self::assertSame($token, self::stored('order:1'), $how);
                $worker->say();
                self::assertTrue($worker->hear(), $how);
                $worker->finish();
            }
        }
    }

    /** symfony#40325, for a lock that another process has handed over. */
    public function testAForkedChildDoesNotFreeWhatItsParentWasHanded(): void
    {
        $key = new Key('order:1');
        $this->factory()->createLockFromKey($key, 60.0, false)->acquire();
        foreach (['asked for' => '$lock->isAcquired();', 'extended' => '$lock->refresh();', 'only known' => ''] as $how => $use) {
            foreach (['unset($lock, $key); exit;', '$lock->release(); exit;', '$lock->isAcquired(); unset($lock, $key); exit;'] as $end) {
                $worker = self::symfonyWorker(<<<PHP
                    \$key = unserialize(\$args['key']);
                    \$lock = \$factory->createLockFromKey(\$key, 60.0);
                    $use
                    if ((\$child = pcntl_fork()) === 0) {
                        $end
                    }
                    pcntl_waitpid(\$child, \$status);
                    say(pcntl_wexitstatus(\$status));
                    hear();
                    posix_kill(getmypid(), SIGKILL);
                    PHP, ['key' => serialize($key)]);
                self::assertSame(0, $worker->hear());

                self::assertSame($key->getState(LeaseStore::class), self::stored('order:1'), "$how, then $end");
                $worker->kill();
            }
        }
    }

    /** symfony#40325, for what is made of a key in the child: a clone is not handed over, a serialized key is. */
    public function testAClonedKeyInAForkedChildOwnsNothingAndAnUnserializedOneDoes(): void
    {
        $copies = ['clone $key' => false, 'clone $clone' => false, 'unserialize(serialize($key))' => true];
        foreach ($copies as $copy => $owns) {
            foreach (['$key = new Key("order:1");', '$key = unserialize($args["key"]);'] as $number => $origin) {
                self::$server->flush();
                $key = new Key('order:1');
                $number === 0 || $this->factory()->createLockFromKey($key, 60.0, false)->acquire();
                $worker = self::symfonyWorker(<<<PHP
                    $origin
                    \$lock = \$factory->createLockFromKey(\$key, 60.0, false);
                    \$lock->acquire();
                    \$clone = clone \$key;
                    if ((\$child = pcntl_fork()) === 0) {
                        \$other = \$factory->createLockFromKey($copy, 60.0);
                        say([\$other->isAcquired(), \$store->fence($copy) === null]);
                        \$other->release();
                        exit;
                    }
                    pcntl_waitpid(\$child, \$status);
                    say(\$factory->createLockFromKey(clone \$key, 60.0, false)->isAcquired());
                    PHP, ['key' => serialize($key)]);

                self::assertSame([$owns, true], $worker->hear(), "$origin $copy");
                self::assertSame(!$owns, $worker->hear(), "$origin $copy: a clone in the process itself is its own");
                $worker->finish();
                self::assertSame($owns, self::stored('order:1') === null, "$origin $copy");
            }
        }
    }

    /** symfony#40325: the child is another owner, and may take the lock when it is free. */
    public function testAForkedChildIsAnotherOwner(): void
    {
        $worker = self::symfonyWorker(<<<'PHP'
            $lock = $factory->createLock('order:1', 60.0);
            $lock->acquire();
            if (pcntl_fork() === 0) {
                say([$lock->isAcquired(), $lock->acquire()]);
                say('contended');
                while (!$lock->acquire()) { usleep(1000); }
                say($lock->isAcquired());
                exit;
            }
            pcntl_wait($status);
            PHP);
        self::assertSame([false, false], $worker->hear());
        $worker->hear();

        self::$server->command('DEL', 'lock:order:1');

        self::assertTrue($worker->hear());
        $worker->finish();
        self::assertNull(self::stored('order:1'), 'the child has given its own lock back');
    }

    /** laravel#26213, #20709, and the same of Symfony's: a lock is released that has passed to another worker. */
    public function testALockThatHasPassedToAnotherIsNotReleased(): void
    {
        foreach (['release', 'drop'] as $how) {
            $late = $this->factory()->createLock('order:1', 0.05);
            self::assertTrue($late->acquire());
            eventually(fn () => self::stored('order:1') === null, 'the lock is over');
            $next = $this->factory()->createLock('order:1', 60.0);
            self::assertTrue($next->acquire());

            if ($how === 'release') {
                $late->release();
            }
            unset($late);

            self::assertTrue($next->isAcquired(), $how);
            $next->release();
        }
    }

    /** symfony#57970, symfony#28208: a release from another process does nothing, and says nothing. */
    public function testAnotherProcessReleasesByTheKeyAndKnowsWhenItCannot(): void
    {
        $key = new Key('order:1');
        $lock = $this->factory()->createLockFromKey($key, 60.0, false);
        $lock->acquire();
        $worker = self::symfonyWorker(<<<'PHP'
            $stranger = $factory->createLockFromKey(new Key('order:1'));
            $stranger->release();
            say($stranger->isAcquired());
            hear();
            $owner = $factory->createLockFromKey(unserialize($args['key']));
            say($owner->isAcquired());
            $owner->release();
            say($owner->isAcquired());
            PHP, ['key' => serialize($key)]);

        self::assertFalse($worker->hear(), 'a name alone owns nothing');
        self::assertTrue($lock->isAcquired());
        $worker->say();
        self::assertTrue($worker->hear());
        self::assertFalse($worker->hear());
        $worker->finish();
        self::assertNull(self::stored('order:1'));
    }

    /** symfony#54942: acquire(true) has no maximum wait. */
    public function testABlockingAcquireEndsAsAConflictWhenTheLongestWaitIsOver(): void
    {
        $held = $this->heldLock('order:1');
        $lock = $this->factory(longestWait: 0.2)->createLock('order:1');

        try {
            $lock->acquire(true);
            self::fail('another owner has it');
        } catch (LockConflictedException) {
            self::assertFalse($lock->isAcquired());
            self::assertTrue($held->isHeld());
        }
    }

    /** An outage is seen as contention, and a blocking acquire polls a dead Redis for ever. */
    public function testAnOutageIsToldAsOne(): void
    {
        $server = RedisServer::start();
        $factory = new LockFactory(new LeaseStore(new Connection($server->dsn(), 0.2, 0.2), 30.0, 300.0));
        $lock = $factory->createLock('order:1');
        $server->kill();

        foreach ([false, true] as $blocking) {
            $before = hrtime(true);
            try {
                $lock->acquire($blocking);
                self::fail('there is no Redis');
            } catch (LockAcquiringException $outage) {
                do {
                    $outage = $outage->getPrevious();
                } while ($outage instanceof LockAcquiringException);
                self::assertInstanceOf(ConnectionException::class, $outage);
            }
            self::assertLessThan(20.0, (hrtime(true) - $before) / 1e9, 'and not after 300 s');
        }
    }

    /** An owner is waited for longer than Redis is. */
    public function testAWaitGoesOnForAsLongAsTheOwnerNeeds(): void
    {
        $before = hrtime(true);
        $owner = $this->heldLock('order:1', 3.3);
        $lock = $this->factory(longestWait: 30.0)->createLock('order:1', 60.0);

        self::assertTrue($lock->acquire(true));

        self::assertGreaterThan(3.2, (hrtime(true) - $before) / 1e9);
        self::assertFalse($owner->isHeld());
    }

    /** While it waits, a worker cannot be stopped: the signal is served after the wait. */
    public function testASignalIsServedWhileItWaits(): void
    {
        $held = $this->heldLock('order:1');
        $worker = self::symfonyWorker(<<<'PHP'
            pcntl_async_signals(true);
            pcntl_signal(SIGTERM, function () { throw new Exception('stopped'); });
            $lock = $factory->createLock('order:1');
            say('waits');
            try {
                $lock->acquire(true);
            } catch (Throwable $stopped) {
                say($stopped->getPrevious()?->getMessage());
            }
            PHP);
        $worker->hear();
        eventually(fn () => self::$server->command('EXISTS', 'lock~{lock:order:1}:waiter'), 'it waits on Redis');

        $worker->signal(SIGTERM);

        self::assertSame('stopped', $worker->hear());
        $worker->finish();
        self::assertTrue($held->isHeld());
    }

    /** symfony#39470: of several servers one is down, and nothing can be locked. */
    public function testOneOfThreeServersMayBeDown(): void
    {
        $servers = [RedisServer::start(), RedisServer::start(), RedisServer::start()];
        $dsn = implode(' ', array_map(static fn (RedisServer $server): string => $server->dsn(), $servers));
        $factory = new LockFactory(new LeaseStore(new Connection($dsn, 5.0, 5.0), 30.0, 0.2));
        $servers[1]->kill();
        [$lock, $other] = [$factory->createLock('order:1'), $factory->createLock('order:1')];

        self::assertTrue($lock->acquire());
        self::assertFalse($other->acquire());
        self::assertTrue($lock->isAcquired());
        $lock->refresh(60.0);
        $lock->release();
        self::assertTrue($other->acquire(true));
        $other->release();

        $servers[2]->kill();
        $this->expectException(LockAcquiringException::class);
        $factory->createLock('order:2')->acquire();
    }

    /** laravel#59533, of Symfony's: whatever braces a name has, on a real cluster. */
    public function testLocksWorkOnACluster(): void
    {
        $cluster = RedisCluster::start();
        $factory = new LockFactory(new LeaseStore(new Connection($cluster->dsn(), 5.0, 5.0), 30.0, 0.2));
        foreach (['order:1', 'order:{eu}:2', 'order:{3', '}4{', '{}5'] as $name) {
            [$lock, $other] = [$factory->createLock($name), $factory->createLock($name)];
            self::assertTrue($lock->acquire(), $name);
            self::assertFalse($other->acquire(), $name);
            $lock->refresh(60.0);
            $lock->release();
            self::assertTrue($other->acquire(true), $name);
            $other->release();
        }
    }

    /** A connection that has died is used again: laravel#41302 of Symfony's. */
    public function testAServerThatWasStartedAnewIsUsedAtOnce(): void
    {
        $server = RedisServer::start();
        $factory = new LockFactory(new LeaseStore(new Connection($server->dsn(), 5.0, 5.0)));
        $lock = $factory->createLock('order:1');
        self::assertTrue($lock->acquire());
        $server->restart(keepData: true);

        self::assertTrue($lock->isAcquired());
        $lock->refresh();
        $server->restart(keepData: true);
        $lock->release();
        self::assertNull($server->command('GET', 'lock:order:1'));
    }
}
