<?php

declare(strict_types=1);

namespace RedisLease\Tests\Quorum;

use DistributedLock;
use RedisLease\Connection;
use RedisLease\ConnectionException;
use RedisLease\Tests\Support\Proc;

use function RedisLease\Tests\Support\eventually;

/** A majority is enough: a node that hangs or is dead costs nothing, and has its part again when it is back. */
final class OneOrTwoOfFiveDownTest extends QuorumTestCase
{
    protected const NODES = 5;
    protected const CONNECT = 1.0;
    protected const COMMAND = 1.0;

    /** What befalls which nodes. */
    private const WAYS = [
        'one hung' => [[2], []],
        'two hung' => [[0, 4], []],
        'one dead' => [[], [1]],
        'two dead' => [[], [0, 3]],
        'one hung, one dead' => [[3], [1]],
    ];

    public function testEveryCallWorksWithOneOrTwoNodesHungOrDead(): void
    {
        foreach ([true, false] as $isWarm) {
            foreach (self::WAYS as $way => $down) {
                $connection = $isWarm ? $this->warm() : $this->connection();
                self::begin($down);
                $lock = $this->lock(connection: $connection);
                [$first, $seconds] = Proc::timed(static fn () => $lock->acquire());

                self::assertTrue($first, $way);
                self::assertLessThan(self::COMMAND / 2, $seconds, "$way: the first call waited for who is down");
                self::assertSame($lock->token(), $lock->owner(), $way);
                self::assertTrue($lock->renew(60.0), $way);
                self::assertGreaterThan(50.0, $lock->remaining(), $way);
                self::assertFalse($this->lock(connection: $connection)->acquire(), "$way: another owner");
                self::assertTrue($lock->acquire(), "$way: it holds it already");
                self::assertTrue($lock->release(), $way);
                self::assertNull($lock->owner(), $way);
                self::assertFalse($lock->release(), $way);
                self::assertSame('done', $lock->synchronized(static fn () => 'done'), $way);
                self::assertTrue($lock->acquire() && $lock->forceRelease(), $way);
                $this->tearDown();
                $this->setUp();
            }
        }
    }

    public function testNodesThatHangOrAreDeadDoNotSlowACycleDown(): void
    {
        foreach (self::WAYS as $way => $down) {
            $connection = $this->warm();
            $healthy = self::medianCycle($connection);
            self::begin($down);
            $troubled = self::medianCycle($connection);
            // The exact ratio is the benchmark's: here a time-out would be a thousand times as much.
            self::assertLessThan(3 * $healthy + 0.001, $troubled, $way);
            $this->tearDown();
            $this->setUp();
        }
    }

    public function testAHungNodeHasItsPartAgainAsSoonAsItIsBack(): void
    {
        $connection = $this->warm();
        self::$servers[1]->pause();
        for ($i = 0; $i < 20; $i++) {
            self::assertTrue(self::cycle($connection, "order:$i"));
        }
        self::$servers[1]->resume();
        eventually(function () use ($connection): bool {
            $lock = $this->lock('order:1', connection: $connection);
            self::assertTrue($lock->acquire());
            $isThere = self::$servers[1]->command('GET', 'lock:order:1') === $lock->token();
            self::assertTrue($lock->release());

            return $isThere;
        }, 'a cycle uses the node again', 3.0);
        self::assertNothingHeldAnywhere();
    }

    public function testADeadNodeHasItsPartAgainAsSoonAsItIsBack(): void
    {
        $connection = $this->warm();
        self::$servers[4]->kill();
        for ($i = 0; $i < 20; $i++) {
            self::assertTrue(self::cycle($connection, "order:$i"));
        }
        self::$servers[4]->restart(keepData: false);
        eventually(function () use ($connection): bool {
            $lock = $this->lock('order:1', connection: $connection);
            self::assertTrue($lock->acquire());
            $isThere = self::$servers[4]->command('GET', 'lock:order:1') === $lock->token();
            self::assertTrue($lock->release());

            return $isThere;
        }, 'a cycle uses the node again', 3.0);
        self::assertNothingHeldAnywhere();
    }

    public function testALateGrantIsKeptAsOneMoreCopyAndGoesWithTheRelease(): void
    {
        $lock = $this->lock(connection: $this->warm());
        self::$servers[0]->pause();
        self::assertTrue($lock->acquire());
        self::$servers[0]->resume();
        $hasCopy = static fn () => self::$servers[0]->command('GET', 'lock:order:1') === $lock->token();
        eventually($hasCopy, 'the late grant is kept');

        self::assertTrue($lock->release());
        self::assertNothingHeldAnywhere();
    }

    public function testALateGrantOfALockThatWasReleasedMeanwhileVanishes(): void
    {
        foreach ([0.0, 0.05] as $pause) {
            $lock = $this->lock(connection: $this->warm());
            self::$servers[0]->pause();
            self::assertTrue($lock->acquire());
            // Past the silence from which on a node is left out, and not.
            $until = microtime(true) + $pause;
            eventually(static fn () => microtime(true) >= $until, 'a moment');
            self::assertTrue($lock->release());
            self::$servers[0]->resume();
            self::assertNothingHeldAnywhere("$pause s");
            self::assertNotNull(self::fences()[0], 'the late grant had come');
        }
    }

    public function testALateGrantOfALockThatWasNotAcquiredVanishes(): void
    {
        self::takeElsewhere([0, 1, 2]);
        $lock = $this->lock(connection: $this->warm());
        self::$servers[3]->pause();
        self::assertFalse($lock->acquire());
        self::$servers[3]->resume();
        eventually(static fn () => self::fences()[3] !== null, 'the late grant has come');
        eventually(static fn () => self::copies()[3] === null && self::copies()[4] === null, 'it went back');
        self::assertSame(['somebody-else', 'somebody-else', 'somebody-else'], array_slice(self::copies(), 0, 3));
    }

    public function testHundredsOfCyclesBesideAHungNodeLeaveNothingOnIt(): void
    {
        $connection = $this->warm();
        self::$servers[2]->command('CONFIG', 'RESETSTAT');
        self::$servers[2]->pause();
        for ($i = 0; $i < 400; $i++) {
            self::assertTrue(self::cycle($connection, 'order:' . $i % 3));
        }
        self::$servers[2]->resume();
        self::drain($connection);
        self::assertNothingHeldAnywhere();
        preg_match('/^cmdstat_set:calls=(\d+)/m', self::$servers[2]->command('INFO', 'commandstats'), $sets);
        // Two for each grant: it was not asked for many, and then left out.
        self::assertLessThanOrEqual(2 * 66, (int) ($sets[1] ?? 0));
    }

    public function testAConnectionThatTheServersHaveClosedIsReplacedInEveryCall(): void
    {
        $close = static function (): void {
            foreach (self::$servers as $server) {
                $server->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
            }
        };
        foreach ([self::dsn(), self::tcpDsn()] as $dsn) {
            $connection = $this->warm($dsn);
            $lock = $this->lock(connection: $connection);
            $calls = ['acquire' => true, 'renew' => true, 'forceRelease' => true];
            foreach ($calls as $call => $answer) {
                $close();
                self::assertSame($answer, $lock->$call(), $call);
            }
            self::assertFalse($lock->release());
            self::assertTrue($lock->acquire());
            $close();
            self::assertSame($lock->token(), $lock->owner());
            $close();
            self::assertTrue($lock->release());

            // Nothing was sent on them, so nothing can arrive late, and no release has to bear that in mind.
            foreach (self::$servers as $server) {
                foreach (preg_grep('/:mark:/', $server->command('KEYS', '*')) as $mark) {
                    self::assertStringNotContainsString('dead', $server->command('GET', $mark));
                }
            }
        }
    }

    public function testServersThatWereKilledUnderOpenTcpConnectionsAreUnavailableAndNotUnknown(): void
    {
        $lock = $this->lock(connection: $this->warm(self::tcpDsn()));
        foreach (self::$servers as $server) {
            $server->kill();
        }
        foreach (['acquire', 'owner', 'forceRelease'] as $call) {
            [$thrown] = self::thrown(static fn () => $lock->$call());
            self::assertInstanceOf(ConnectionException::class, $thrown, $call);
        }
    }

    /** @param array{list<int>, list<int>} $down which nodes hang, and which are dead */
    private static function begin(array $down): void
    {
        foreach ($down[0] as $place) {
            self::$servers[$place]->pause();
        }
        foreach ($down[1] as $place) {
            self::$servers[$place]->kill();
        }
    }

    private static function cycle(Connection $connection, string $resource): bool
    {
        $lock = new DistributedLock($resource, 30.0, connection: $connection);

        return $lock->acquire() && $lock->release();
    }

    private static function medianCycle(Connection $connection): float
    {
        $seconds = [];
        for ($i = 0; $i < 60; $i++) {
            [$isDone, $seconds[]] = Proc::timed(static fn () => self::cycle($connection, 'order:9'));
            self::assertTrue($isDone);
        }

        return self::median($seconds);
    }
}
