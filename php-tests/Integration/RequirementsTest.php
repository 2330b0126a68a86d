<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use DistributedLock;
use RedisLease\Connection;
use RedisLease\ConnectionException;
use RedisLease\LeaseException;
use RedisLease\OutcomeUnknownException;
use RedisLease\ServerException;
use RedisLease\Tests\Support\FakeServer;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\Monitor;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\ServerTestCase;

use function RedisLease\Tests\Support\eventually;
use function RedisLease\Tests\Support\timed;

/** The numbered requirements, each by the outcome a user would see. */
final class RequirementsTest extends ServerTestCase
{
    public function testR1TheKeyIsCreatedTogetherWithItsExpiryInOneCommand(): void
    {
        $lock = $this->lock('order:1', 7.5);
        $lock->acquire();
        $lock->release();
        $monitor = Monitor::start(self::$server);

        self::assertTrue($lock->acquire());

        $writes = [];
        foreach ($monitor->all() as $line) {
            $reads = ['GET', 'MGET', 'PTTL', 'EXISTS', 'EVALSHA', 'EVAL'];
            if (in_array('lock:order:1', $line->words, true) && !in_array($line->name(), $reads, true)) {
                $writes[] = array_map(strtoupper(...), $line->words);
            }
        }
        self::assertSame([['SET', 'LOCK:ORDER:1', strtoupper($lock->token()), 'NX', 'PX', '7500']], $writes);
    }

    public function testR1NoObserverEverSeesAKeyWithoutATtl(): void
    {
        $observer = self::worker(<<<'PHP'
            $redis = stream_socket_client(strtok($args['dsn'], '?'));
            say('looking');
            $withoutTtl = $seen = 0;
            $end = hrtime(true) + 500_000_000;
            while (hrtime(true) < $end) {
                fwrite($redis, "*2\r\n$4\r\nPTTL\r\n$12\r\nlock:order:1\r\n");
                $ttl = (int) substr(fgets($redis), 1);
                $withoutTtl += $ttl === -1;
                $seen += $ttl > 0;
            }
            say([$withoutTtl, $seen]);
            PHP);
        $observer->hear();
        $end = microtime(true) + 0.6;
        while (microtime(true) < $end) {
            $lock = $this->lock('order:1');
            $lock->acquire();
            $lock->release();
        }

        [$withoutTtl, $seen] = $observer->hear();
        self::assertGreaterThan(10, $seen, 'the observer saw too little to prove anything');
        self::assertSame(0, $withoutTtl);
        $observer->finish();
    }

    public function testR1AnAttemptRefusedByRedisLeavesNoKey(): void
    {
        $this->lock('warm')->acquire();
        $lock = $this->lock('order:1');
        self::$server->command('CONFIG', 'SET', 'maxmemory', '1');
        try {
            $lock->acquire();
            self::fail('Redis is out of memory');
        } catch (ServerException $refusal) {
            self::assertSame('OOM', $refusal->redisCode);
            self::assertFalse($lock->isHeld());
        } finally {
            self::$server->command('CONFIG', 'SET', 'maxmemory', '0');
        }
        self::assertNull(self::stored('order:1'));
    }

    public function testR2TokensAreUniqueAndLong(): void
    {
        $tokens = [];
        for ($i = 0; $i < 2000; $i++) {
            $lock = $this->heldLock('order:1');
            self::assertMatchesRegularExpression('/^[0-9a-f]{32}$/', $lock->token());
            $tokens[] = $lock->token();
            $lock->release();
        }
        self::assertCount(2000, array_unique($tokens));

        // Random bits are set half of the time: 2000 × 128 of them, within seven standard deviations.
        $ones = substr_count(implode('', array_map(
            static fn (string $byte) => decbin(ord($byte)),
            str_split(hex2bin(implode('', $tokens))),
        )), '1');
        self::assertEqualsWithDelta(128_000, $ones, 7 * sqrt(256_000 / 4));
    }

    public function testR2SeedsAndForksDoNotRepeatTokens(): void
    {
        // Processes forked from one that has drawn tokens already, with PHP's own generator seeded alike.
        $worker = self::worker(<<<'PHP'
            $warm = new DistributedLock('warm', 30.0, connection: $connection);
            $warm->acquire();
            for ($child = 0; $child < 10; $child++) {
                if (pcntl_fork() === 0) {
                    mt_srand(42);
                    for ($i = 0; $i < 10; $i++) {
                        $lock = new DistributedLock("child:$child", 30.0, connection: $connection);
                        $lock->acquire();
                        say($lock->token());
                        $lock->release();
                    }
                    exit;
                }
            }
            while (pcntl_wait($status) > 0);
            PHP);
        $tokens = [];
        for ($i = 0; $i < 100; $i++) {
            $tokens[] = $worker->hear();
        }
        $worker->finish();
        self::assertCount(100, array_unique($tokens));
    }

    public function testR3AServerThatDoesNotAnswerNeverGivesALock(): void
    {
        $connection = new Connection(self::$server->dsn(), 0.1, 0.1);
        $warm = new DistributedLock('warm', connection: $connection);
        $warm->acquire();
        self::$server->pause();
        try {
            $lock = new DistributedLock('order:1', connection: $connection);
            $lock->acquire();
            self::fail('nothing was answered');
        } catch (OutcomeUnknownException $unknown) {
            self::assertFalse($lock->isHeld());
            self::assertSame(0.0, $lock->remaining());
            self::assertSame('order:1', $unknown->resource);
            self::assertMatchesRegularExpression('/^[0-9a-f]{32}$/', $unknown->token);
        } finally {
            self::$server->resume();
        }
        // The commands may still be executed now. The token of the exception is all one needs.
        self::$server->command('PING');
        DistributedLock::restore('order:1', $unknown->token, connection: $connection)->release();
        self::assertNull(self::stored('order:1'));
    }

    public function testR3AnAnswerThatIsNoConfirmationIsNoLock(): void
    {
        $fake = FakeServer::start();
        $replies = [
            "+OK\r\n", ":-1\r\n", ":0\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "$2\r\nOK\r\n", "*1\r\n:1\r\n", "$1\r\n5\r\n",
            "*2\r\n+contended\r\n$-1\r\n", "*2\r\n\$4\r\nheld\r\n:7\r\n", "*1\r\n\$9\r\ncontended\r\n", "nonsense\r\n", "\$99999999999999\r\n", "*2147483647\r\n",
            "-ERR what is this\r\n",
        ];
        foreach ($replies as $reply) {
            $fake->answerWith($reply);
            $connection = new Connection($fake->dsn(), 1.0, 0.2);
            $lock = new DistributedLock('order:1', connection: $connection);
            $outcome = null;
            try {
                $outcome = $lock->acquire();
            } catch (LeaseException $expected) {
            }
            $shown = json_encode($reply);
            self::assertNotTrue($outcome, "$shown was taken for a confirmation");
            self::assertNotFalse($outcome, "$shown was taken for another owner");
            self::assertFalse($lock->isHeld(), $shown);
            $connection->close();
        }
        $fake->stop();
    }

    public function testR4ReleaseNeverDeletesAnotherOwnersLock(): void
    {
        $late = $this->heldLock('order:1', 0.05);
        eventually(static fn () => self::stored('order:1') === null, 'the lock expires');
        $owner = $this->heldLock('order:1');

        self::assertFalse($late->release());
        unset($late);

        self::assertSame($owner->token(), self::stored('order:1'));
        self::assertTrue($owner->isHeld());
    }

    public function testR4CompareAndDeleteAreOneStep(): void
    {
        $lock = $this->heldLock('order:1');
        $monitor = Monitor::start(self::$server);
        $lock->release();

        $commands = $monitor->commands();
        self::assertCount(1, $commands, implode("\n", $commands));
        self::assertContains($commands[0]->name(), ['EVALSHA', 'EVAL', 'FCALL']);
    }

    public function testR4ReleaseWorksWhenRedisIsOutOfMemory(): void
    {
        $lock = $this->heldLock('order:1');
        self::$server->command('CONFIG', 'SET', 'maxmemory', '1');
        try {
            self::assertTrue($lock->release());
            self::assertNull(self::stored('order:1'));
        } finally {
            self::$server->command('CONFIG', 'SET', 'maxmemory', '0');
        }
    }

    public function testR5RenewalNeverCreatesAKeyAndNeverExtendsAnotherOwners(): void
    {
        $lock = $this->heldLock('order:1');
        self::$server->command('DEL', 'lock:order:1');
        self::assertFalse($lock->renew());
        self::assertNull(self::stored('order:1'));

        $lock = $this->heldLock('order:1');
        self::$server->command('SET', 'lock:order:1', 'another owner', 'PX', 2000);
        self::assertFalse($lock->renew(600.0));
        self::assertSame('another owner', self::stored('order:1'));
        self::assertLessThanOrEqual(2000, self::$server->command('PTTL', 'lock:order:1'));
    }

    public function testR6EveryLockHasATtlAlsoWhenTheCallerChoseNone(): void
    {
        $lock = new DistributedLock('order:1', connection: $this->connection());
        $lock->acquire();
        $ttl = self::$server->command('PTTL', 'lock:order:1');
        self::assertGreaterThan(9_000, $ttl);
        self::assertLessThanOrEqual(10_000, $ttl);
    }

    public function testR6ADeadWorkersLockFreesItself(): void
    {
        $worker = self::worker(<<<'PHP'
            $lock = new DistributedLock('order:1', 1.0, connection: $connection);
            say($lock->acquire());
            hear();
            PHP);
        self::assertTrue($worker->hear());
        $worker->kill();
        $lock = $this->lock('order:1');
        self::assertFalse($lock->acquire(), 'nobody can know yet that the worker is dead');

        [$acquired, $seconds] = timed(static fn () => $lock->acquire(5.0));

        self::assertTrue($acquired);
        self::assertLessThan(2.5, $seconds);
    }

    public function testR7ContentionAndTroubleAreDifferentThings(): void
    {
        $server = RedisServer::start();
        $held = new DistributedLock('order:1', 60.0, connection: new Connection($server->dsn()));
        $held->acquire();
        $lock = new DistributedLock('order:1', 1.0, connection: new Connection($server->dsn(), 0.2, 0.2));
        self::assertFalse($lock->acquire(), 'another owner: false');

        $server->pause();
        self::assertInstanceOf(OutcomeUnknownException::class, self::caught($lock), 'sent and unanswered');
        $server->resume();

        $server->kill();
        self::assertInstanceOf(ConnectionException::class, self::caught($lock), 'nobody listens');

        $server->restart(keepData: false);
        $server->command('CONFIG', 'SET', 'maxmemory', '1');
        // That nobody listened is remembered for a moment.
        eventually(static fn () => self::caught($lock) instanceof ServerException, 'Redis refuses', 3.0);
        $server->stop();
    }

    public function testR7TheExceptionNamesTheResource(): void
    {
        $connection = new Connection('unix://' . Janitor::path('.nobody'));
        $failure = self::caught(new DistributedLock("order:\xff", connection: $connection));

        self::assertInstanceOf(ConnectionException::class, $failure);
        self::assertSame("order:\xff", $failure->resource);
    }

    public function testR16OneItemFiftyBuyersOneSale(): void
    {
        $stock = Janitor::path('.stock');
        file_put_contents($stock, '1');
        $buyers = [];
        for ($i = 0; $i < 50; $i++) {
            $buyers[] = self::worker(<<<'PHP'
                $lock = new DistributedLock('item:1', 10.0, connection: $connection);
                say('ready');
                while (!file_exists($args['start'])) {
                    usleep(200);
                }
                if (!$lock->acquire(wait: 20.0)) {
                    say('no lock');
                    exit;
                }
                $left = (int) file_get_contents($args['stock']);
                if ($left > 0) {
                    usleep(2_000);
                    file_put_contents($args['stock'], (string) ($left - 1));
                    file_put_contents($args['sales'], 'sold', FILE_APPEND);
                }
                $lock->release();
                say($left > 0 ? 'sold' : 'sold out');
                PHP, ['stock' => $stock, 'start' => "$stock.start", 'sales' => "$stock.sales"]);
        }
        foreach ($buyers as $buyer) {
            self::assertSame('ready', $buyer->hear(30.0));
        }
        touch("$stock.start");

        $answers = ['sold' => 0, 'sold out' => 0, 'no lock' => 0];
        foreach ($buyers as $buyer) {
            $answers[$buyer->hear(30.0)]++;
            $buyer->finish();
        }
        self::assertSame(['sold' => 1, 'sold out' => 49, 'no lock' => 0], $answers);
        self::assertSame('sold', file_get_contents("$stock.sales"));
        self::assertSame('0', file_get_contents($stock));
    }

    public function testR16OfFiftyBuyersWhoDoNotWaitExactlyOneGetsTheLock(): void
    {
        $buyers = [];
        for ($i = 0; $i < 50; $i++) {
            $buyers[] = self::worker(<<<'PHP'
                $lock = new DistributedLock('item:1', 30.0, connection: $connection);
                $connection->ping();
                say('ready');
                hear();
                say($lock->acquire());
                hear();
                PHP);
        }
        foreach ($buyers as $buyer) {
            $buyer->hear(30.0);
        }
        foreach ($buyers as $buyer) {
            $buyer->say();
        }
        $owners = 0;
        foreach ($buyers as $buyer) {
            $owners += (int) $buyer->hear(30.0);
        }
        self::assertSame(1, $owners);
        foreach ($buyers as $buyer) {
            $buyer->say();
            $buyer->finish();
        }
    }

    private static function caught(DistributedLock $lock): ?LeaseException
    {
        try {
            $lock->acquire();
        } catch (LeaseException $caught) {
            return $caught;
        }

        return null;
    }
}
