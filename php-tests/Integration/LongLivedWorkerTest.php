<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use DistributedLock;
use RedisLease\Connection;
use RedisLease\ServerException;
use RedisLease\Tests\Support\PhpProcess;
use RedisLease\Tests\Support\ServerTestCase;
use RedisLease\Tests\Support\Worker;

use function RedisLease\Tests\Support\timed;

/** What shows only in a worker that lives long, ends badly, or was configured by hand. */
final class LongLivedWorkerTest extends ServerTestCase
{
    public function testConnectionsThatNobodyUsesAnyMoreDoNotPileUp(): void
    {
        for ($round = 0; $round < 40; $round++) {
            self::$server->command('CONFIG', 'SET', 'requirepass', "secret$round");
            $connection = new Connection('unix://' . self::$server->socket() . "?pass=secret$round", 5.0, 5.0);
            $lock = new DistributedLock('order:1', 30.0, connection: $connection);
            self::assertTrue($lock->acquire());
            self::assertTrue($lock->release());
        }
        unset($lock, $connection);
        self::$server->command('CONFIG', 'SET', 'requirepass', '');

        self::assertLessThan(15, substr_count(self::$server->command('CLIENT', 'LIST'), "\n"));
    }

    /** As in FrankenPHP's worker mode: between two requests only PHP's interface to the server is told. */
    public function testAProgramThatServesManyRequestsGivesBackWhatEachHasLeft(): void
    {
        if (!extension_loaded('ffi')) {
            self::markTestSkipped('it takes FFI to end a request without ending the program');
        }
        $worker = Worker::start(<<<'PHP'
            $php = FFI::cdef('
                typedef struct { char *name, *pretty_name; void *startup, *shutdown; int (*activate)(void); int (*deactivate)(void); } sapi;
                extern sapi sapi_module;
            ');
            $connection = new Connection($args['dsn'], 5.0, 5.0);
            $kept = new DistributedLock('order:kept', 60.0, true, $connection);
            for ($request = 1; $request <= 3; $request++) {
                $lock = new DistributedLock("order:$request", 60.0, connection: $connection);
                $acquired = [$lock->acquire(), $kept->acquire()];
                say($acquired);
                hear();
                $result = ($php->sapi_module->deactivate)();
                say([$result, $lock->isHeld(), $lock->token(), $kept->isHeld(), $kept->release()]);
                hear();
            }
            PHP, ['dsn' => self::$server->dsn()], ['ffi.enable' => '1'], phpIni: true);
        for ($request = 1; $request <= 3; $request++) {
            self::assertSame([true, true], $worker->hear());
            self::assertNotNull(self::stored("order:$request"));
            self::assertNotNull(self::stored('order:kept'));
            $worker->say();
            self::assertSame([0, false, null, false, false], $worker->hear());
            self::assertNull(self::stored("order:$request"));
            self::assertNull(self::stored('order:kept'), 'a lease is held for the rest of the request at most');
            $worker->say();
        }
        $worker->finish();
    }

    public function testVariablesThatAreLeftAtTheEndShareOneTimeOutWhenRedisHangs(): void
    {
        $worker = Worker::start(<<<'PHP'
            $slow = new Connection($args['dsn'], 0.2, 0.2);
            $lock1 = new DistributedLock('1', 60.0, connection: $slow);
            $lock2 = new DistributedLock('2', 60.0, connection: $slow);
            $lock3 = new DistributedLock('3', 60.0, connection: $slow);
            $lock4 = new DistributedLock('4', 60.0, connection: $slow);
            $lock5 = new DistributedLock('5', 60.0, connection: $slow);
            $lock6 = new DistributedLock('6', 60.0, connection: $slow);
            foreach ([$lock1, $lock2, $lock3, $lock4, $lock5, $lock6] as $lock) {
                $lock->acquire();
            }
            unset($lock);
            say('held');
            hear();
            PHP, ['dsn' => self::$server->dsn()]);
        $worker->hear();
        self::$server->pause();
        try {
            $worker->say();
            [, $seconds] = timed(static fn () => $worker->finish());
        } finally {
            self::$server->resume();
        }
        self::assertLessThan(0.7, $seconds, 'six time-outs are 1.2 s');
    }

    public function testALockThatCannotMintItsFenceIsNotTaken(): void
    {
        self::assertTrue($this->lock('order:1')->acquire());
        $fence = null;
        foreach (self::$server->command('KEYS', '*') as $key) {
            $fence = str_ends_with($key, ':fence') ? $key : $fence;
        }
        self::$server->flush();
        self::$server->command('RPUSH', $fence, 'not a fence');
        $lock = $this->lock('order:1');
        try {
            $lock->acquire();
            self::fail('it has no fence');
        } catch (ServerException $refusal) {
            self::assertSame('WRONGTYPE', $refusal->redisCode);
        }

        self::assertNull(self::stored('order:1'), 'nobody holds it, so nobody must find it held');
    }

    public function testRenewingOnAServerThatHasBecomeAReplicaIsRefusedThoughNothingNeedsExtending(): void
    {
        $lock = $this->heldLock('order:1', 60.0);
        self::$server->command('REPLICAOF', '127.0.0.1', 1);
        try {
            $lock->renew(5.0);
            self::fail('a replica cannot vouch for a lease');
        } catch (ServerException $refusal) {
            self::assertSame('READONLY', $refusal->redisCode);
        } finally {
            self::$server->command('REPLICAOF', 'NO', 'ONE');
        }
    }

    public function testABadDsnInPhpIniIsNeverReplacedByTheDefault(): void
    {
        $code = 'try { (new DistributedLock("x"))->acquire(); echo "acquired"; } catch (\ValueError $e) { echo $e->getMessage(); }';
        $process = PhpProcess::run($code, ['redis_lease.dsn' => 'rediss:/localhost']);

        self::assertSame(0, $process->wait());
        self::assertStringContainsString('redis_lease.dsn', $process->output());
    }

    public function testASwitchKnowsEveryWordForOnAndOff(): void
    {
        foreach (['on' => true, 'yes' => true, 'true' => true, '1' => true, 'off' => false, 'no' => false, '0' => false] as $word => $releases) {
            $worker = Worker::start(<<<'PHP'
                final class Holder
                {
                    public static DistributedLock $lock;
                }
                ini_set('redis_lease.release_on_shutdown', $args['word']);
                Holder::$lock = new DistributedLock('order:1', 60.0, connection: new Connection($args['dsn']));
                say(Holder::$lock->acquire());
                PHP, ['dsn' => self::$server->dsn(), 'word' => (string) $word]);
            self::assertTrue($worker->hear());
            $worker->finish();

            self::assertSame($releases, self::stored('order:1') === null, (string) $word);
            self::$server->flush();
        }
        self::assertFalse(@ini_set('redis_lease.release_on_shutdown', 'perhaps'));
    }

    public function testWithoutReleaseOnShutdownAPlainVariableIsLeftToItsTtlToo(): void
    {
        $worker = Worker::start(<<<'PHP'
            ini_set('redis_lease.release_on_shutdown', '0');
            $kept = new DistributedLock('order:1', 60.0, connection: new Connection($args['dsn']));
            $dropped = new DistributedLock('order:2', 60.0, connection: new Connection($args['dsn']));
            say($kept->acquire() && $dropped->acquire());
            unset($dropped);
            PHP, ['dsn' => self::$server->dsn()]);
        self::assertTrue($worker->hear());
        $worker->finish();

        self::assertIsString(self::stored('order:1'), 'the end of the request');
        self::assertNull(self::stored('order:2'), 'the last reference went before it');
    }

    public function testAPrefixThatWouldBeCutIsRefused(): void
    {
        self::assertFalse(@ini_set('redis_lease.prefix', "a\0b:"));
        self::assertFalse(@ini_set('redis_lease.prefix', str_repeat('x', 1025)));
    }
}
