<?php

declare(strict_types=1);

namespace RedisLease\Tests\Fault;

use DistributedLock;
use RedisLease\Connection;
use RedisLease\ConnectionException;
use RedisLease\LeaseException;
use RedisLease\LeaseLostException;
use RedisLease\OutcomeUnknownException;
use RedisLease\ServerException;
use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\KeySlot;
use RedisLease\Tests\Support\Monitor;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\ServerTestCase;

use function RedisLease\Tests\Support\eventually;

/** What users of other libraries reported about values and results: each symptom once, as it must not be here. */
final class PeersValuesAndResultsTest extends ServerTestCase
{
    private const NAMES = [
        'order:1', '{order}:1', 'a{b}c{d}', '{}', '{', '}', '}{', '{a', 'a}b{c', "\0\xff{\xfe}", '{}{x}', '{{x}}', ' ',
    ];

    public function testNoSerializerOrCompressionBreaksTheCompare(): void
    {
        if (!extension_loaded('redis')) {
            self::markTestSkipped('the extension redis, whose settings these are, is not loaded');
        }
        $other = new \Redis();
        $other->connect(self::$server->socket());
        $other->setOption(\Redis::OPT_SERIALIZER, (string) \Redis::SERIALIZER_PHP);
        foreach (['SERIALIZER_IGBINARY', 'SERIALIZER_JSON', 'SERIALIZER_PHP'] as $serializer) {
            if (defined("Redis::$serializer")) {
                $other->setOption(\Redis::OPT_SERIALIZER, constant("Redis::$serializer"));
            }
            $lock = $this->heldLock('order:1');
            self::assertSame($lock->token(), self::stored('order:1'), 'the value is the token and nothing else');
            self::assertSame($lock->token(), $lock->owner());
            self::assertTrue($lock->renew());
            self::assertTrue($lock->release());
            // A value that such a client stored is another owner's, whatever it looks like.
            $other->set('lock:order:1', $lock->token() ?? 'somebody', 60);
            self::assertFalse($lock->acquire());
            $other->del('lock:order:1');
        }
    }

    public function testTheKeysOfOneLockNeverLieInDifferentClusterSlots(): void
    {
        $cluster = RedisServer::start(tcp: true, settings: ['cluster-enabled' => 'yes', 'databases' => '1']);
        $cluster->command('CLUSTER', 'ADDSLOTSRANGE', 0, 16383);
        eventually(static fn () => str_contains($cluster->command('CLUSTER', 'INFO'), 'cluster_state:ok'), 'the cluster is up');
        $connection = new Connection($cluster->dsn(), 5.0, 5.0);
        $monitor = Monitor::start($cluster);
        foreach (self::NAMES as $name) {
            // On one node, too, a cluster refuses a script whose keys lie in different slots.
            $lock = new DistributedLock($name, 30.0, connection: $connection);
            $other = new DistributedLock($name, 30.0, connection: $connection);
            self::assertTrue($lock->acquire() && $lock->renew(), bin2hex($name));
            self::assertFalse($other->acquire(0.02));
            self::assertTrue($lock->release() && $other->acquire() && $lock->forceRelease());

            $scripts = array_filter($monitor->commands(), static fn ($line) => str_starts_with($line->name(), 'EVAL'));
            self::assertGreaterThan(5, count($scripts));
            foreach ($scripts as $script) {
                $keys = array_slice($script->words, 3, (int) $script->words[2]);
                self::assertCount(1, array_unique(array_map(KeySlot::of(...), $keys)), bin2hex($name) . ": $script");
            }
        }
        $connection->close();
        $cluster->stop();
    }

    public function testALockAndACachedValueOfTheSameNameDoNotShareAKey(): void
    {
        self::$server->command('SET', 'order:1', 'cached');
        $lock = $this->heldLock('order:1');
        self::assertSame('cached', self::$server->command('GET', 'order:1'));
        $lock->release();
        self::assertSame('cached', self::$server->command('GET', 'order:1'));

        // And where somebody chose the same prefix, the value is never taken for ours, nor touched.
        self::$server->command('SET', 'lock:order:2', 'cached');
        $lock = $this->lock('order:2');
        self::assertFalse($lock->acquire());
        self::assertFalse($lock->renew());
        self::assertFalse($lock->release());
        self::assertSame('cached', self::stored('order:2'));
        self::assertSame(-1, self::$server->command('PTTL', 'lock:order:2'));
    }

    public function testAnOverrunIsHardToMiss(): void
    {
        $lock = $this->lock('order:1', 0.05);
        $overrun = function (DistributedLock $held): string {
            eventually(static fn () => self::stored('order:1') === null, 'the lease has expired under the section');

            return 'done all the same';
        };
        try {
            $lock->synchronized($overrun);
            self::fail('the overrun went unnoticed');
        } catch (LeaseLostException $lost) {
            self::assertSame('done all the same', $lost->result);
            self::assertSame('order:1', $lost->resource);
        }
    }

    public function testIsHeldIsNeverTrueWhenTheLeaseHasExpired(): void
    {
        $lock = $this->heldLock('order:1', 0.25);
        $looks = 0;
        do {
            // In this order: what is no longer in Redis must not have been held a moment before.
            $isThere = self::stored('order:1') === $lock->token();
            $isHeld = $lock->isHeld();
            $looks++;
            self::assertTrue($isThere || !$isHeld, 'held, and gone from Redis');
            self::assertSame($isHeld, $isHeld && $lock->remaining() > -1.0);
        } while ($isThere);
        self::assertGreaterThan(10, $looks);
        self::assertFalse($lock->isHeld());
        self::assertSame(0.0, $lock->remaining());
    }

    public function testAWorkerThatWasStoppedPastItsLeaseLearnsIt(): void
    {
        $worker = self::worker(<<<'PHP'
            $lock = new DistributedLock('order:1', 0.2, connection: $connection);
            $lock->acquire();
            say($lock->isHeld());
            hear();
            say([$lock->isHeld(), $lock->remaining(), $lock->renew(), $lock->release()]);
            PHP);
        self::assertTrue($worker->hear());
        $worker->pause();
        eventually(static fn () => self::stored('order:1') === null, 'the lease has expired');
        $worker->resume();
        $worker->say();
        self::assertSame([false, 0.0, false, false], $worker->hear());
        $worker->finish();
    }

    public function testAReleaseThatIsInterruptedDoesNotOrphanTheLock(): void
    {
        $proxy = FaultProxy::start(self::$server);
        $worker = self::worker(<<<'PHP'
            pcntl_async_signals(true);
            pcntl_signal(SIGUSR1, static function (): void {
                throw new Exception('cancelled');
            });
            $lock = new DistributedLock('order:1', 60.0, connection: new Connection($args['proxy'], 5.0, 5.0));
            $lock->acquire();
            say('held');
            hear();
            try {
                $lock->release();
                say('not cancelled');
            } catch (Exception $cancelled) {
                say($cancelled->getMessage());
            }
            PHP, ['proxy' => $proxy->dsn()]);
        $worker->hear();
        $proxy->pass();
        $proxy->hold('request');
        $worker->say();
        eventually(static fn () => $proxy->seen('request') !== '', 'the release is under way');
        $worker->signal(SIGUSR1);
        $proxy->deliver();
        self::assertSame('cancelled', $worker->hear());
        $worker->finish();

        self::assertNull(self::stored('order:1'));
        $proxy->stop();
    }

    public function testAReleaseWithoutAnAnswerDoesNotOrphanTheLock(): void
    {
        $proxy = FaultProxy::start(self::$server);
        $worker = self::worker(<<<'PHP'
            $lock = new DistributedLock('order:1', 60.0, connection: new Connection($args['proxy'], 0.1, 0.1));
            $lock->acquire();
            say('held');
            hear();
            say(thrown(static fn () => $lock->release()));
            hear();
            PHP, ['proxy' => $proxy->dsn()]);
        $worker->hear();
        $proxy->breakAfter('request', 10, 'hold', later: 'hang');
        $worker->say();
        self::assertSame(OutcomeUnknownException::class, $worker->hear());
        self::assertIsString(self::stored('order:1'));
        $proxy->newConnections('pass');
        $worker->say();
        $worker->finish();

        self::assertNull(self::stored('order:1'), 'the end of the request tries once more');
        $proxy->stop();
    }

    public function testThatRedisIsDownIsATypedErrorAndNotContention(): void
    {
        $server = RedisServer::start();
        $lock = new DistributedLock('order:1', 30.0, connection: new Connection($server->dsn(), 0.5, 0.5));
        $server->kill();
        foreach (['acquire', 'renew', 'release', 'owner', 'forceRelease'] as $call) {
            $lock = DistributedLock::restore('order:1', 'a token', 30.0, new Connection($server->dsn(), 0.5, 0.5));
            try {
                $lock->$call();
                self::fail("$call gave an answer");
            } catch (LeaseException $typed) {
                self::assertInstanceOf(ConnectionException::class, $typed, $call);
                self::assertNotInstanceOf(ServerException::class, $typed);
                self::assertSame('order:1', $typed->resource, $call);
                self::assertStringContainsString($server->socket(), $typed->getMessage(), 'where');
            }
        }
        $server->stop();
    }

    public function testTheTokenIsNotLostWithTheException(): void
    {
        $proxy = FaultProxy::start(self::$server);
        $connection = new Connection($proxy->dsn(), 0.1, 0.1);
        $lock = new DistributedLock('order:1', 30.0, connection: $connection);
        $lock->owner();
        // Executed, and nobody is told.
        $proxy->breakAfter('reply', 0, 'hold', later: 'hang');
        try {
            $lock->acquire();
            self::fail('there was no answer');
        } catch (OutcomeUnknownException $unknown) {
        }
        unset($lock);
        self::assertSame(self::stored('order:1'), $unknown->token);
        $proxy->newConnections('pass');

        $recovered = DistributedLock::restore($unknown->resource, $unknown->token, 30.0, $connection);
        self::assertTrue(Cuts\Runner::persist(static fn () => $recovered->acquire()), 'it was ours all along');
        self::assertGreaterThan(0, $recovered->fence());
        self::assertTrue($recovered->release());
        self::assertNull(self::stored('order:1'));
        $proxy->stop();
    }
}
