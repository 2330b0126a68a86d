<?php

declare(strict_types=1);

namespace RedisLease\Tests\Topology;

use DistributedLock;
use PHPUnit\Framework\TestCase;
use RedisLease\Connection;
use RedisLease\ConnectionException;
use RedisLease\Tests\Support\BlackHole;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\Sentinels;

use function RedisLease\Tests\Support\eventually;
use function RedisLease\Tests\Support\timed;

/** Any sentinel that answers leads to the primary, and none is believed against the server's own word. */
final class SentinelDiscoveryTest extends TestCase
{
    /** Time-outs that a hung sentinel may not use up. */
    private const TIMEOUT = 1.0;

    private static Sentinels $group;
    /** Sentinels that watch over something else. */
    private static RedisServer $ignorant;

    public static function setUpBeforeClass(): void
    {
        self::$group = Sentinels::start();
        self::$ignorant = RedisServer::start(tcp: true, isSentinel: true);
    }

    public static function tearDownAfterClass(): void
    {
        self::$group->stop();
        self::$ignorant->stop();
    }

    protected function tearDown(): void
    {
        foreach (self::$group->servers as $server) {
            $server->command('CONFIG', 'RESETSTAT');
        }
    }

    public function testTheLockIsOnThePrimaryAndNoReplicaIsAsked(): void
    {
        $connection = new Connection(self::$group->dsn('/2'), self::TIMEOUT, self::TIMEOUT);
        $lock = new DistributedLock('order:1', 30.0, connection: $connection);
        self::assertTrue($lock->acquire() && $lock->renew());
        $primary = self::$group->primary();
        self::assertSame($lock->token(), $primary->connect(2)->command('GET', 'lock:order:1'));
        self::assertSame(['127.0.0.1:' . $primary->port()], array_keys($connection->ping()));
        self::assertTrue($lock->release());

        foreach (self::$group->replicas() as $replica) {
            self::assertStringNotContainsString('cmdstat_eval', $replica->command('INFO', 'commandstats'));
        }
    }

    public function testASentinelThatIsDeadHangsOrDoesNotKnowTheNameIsPassedOver(): void
    {
        $hole = BlackHole::open('tcp://127.0.0.1:0');
        $hung = self::$group->sentinels[1];
        $hung->pause();
        try {
            $bad = ['no listener' => self::nowhere(), 'no network' => $hole, 'hung' => $hung, 'another name' => self::$ignorant];
            foreach ($bad + ['all of them' => null] as $what => $one) {
                $before = $one === null ? array_values($bad) : [$one];
                $this->assertLeadsToThePrimary([...$before, self::$group->sentinels[0]], $what);
            }
        } finally {
            $hung->resume();
            $hole->close();
        }
    }

    public function testAWrongNameIsSaidForEachSentinel(): void
    {
        $dsn = str_replace('/' . Sentinels::NAME, '/other', self::$group->dsn());
        $said = $this->unavailable($dsn);
        self::assertStringContainsString('no primary of "other" was found', $said);
        foreach (self::$group->sentinels as $sentinel) {
            $line = "127.0.0.1:{$sentinel->port()}: this sentinel knows no primary of that name";
            self::assertStringContainsString($line, $said);
        }
    }

    public function testWithoutAnySentinelACallEndsWithinItsTimeOuts(): void
    {
        $hole = BlackHole::open('tcp://127.0.0.1:0');
        $hung = self::$group->sentinels[1];
        $hung->pause();
        try {
            foreach ([[self::nowhere(), self::nowhere()], [$hole, $hung, self::nowhere()]] as $sentinels) {
                [$said, $seconds] = timed(fn () => $this->unavailable(Sentinels::dsnOf($sentinels), 0.3));
                self::assertLessThan(1.5, $seconds);
                foreach ($sentinels as $sentinel) {
                    self::assertStringContainsString("127.0.0.1:{$sentinel->port()}: ", $said);
                }
            }
        } finally {
            $hung->resume();
            $hole->close();
        }
    }

    public function testASentinelThatNamesAReplicaIsNotBelieved(): void
    {
        // A sentinel of its own that nobody tells of the others: its view is as old as the test wants.
        [$replica] = self::$group->replicas();
        $stale = RedisServer::start(tcp: true, isSentinel: true);
        $stale->command('SENTINEL', 'MONITOR', Sentinels::NAME, '127.0.0.1', $replica->port(), 2);
        $named = static fn () => $stale->command('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', Sentinels::NAME)[1];
        eventually(static fn () => $named() === (string) $replica->port(), 'the sentinel names a replica');
        $said = $this->unavailable(Sentinels::dsnOf([$stale]));
        self::assertStringContainsString("127.0.0.1:{$replica->port()}: it is a replica", $said);
        $this->assertLeadsToThePrimary([$stale, self::$group->sentinels[0]], 'a stale one first');
        self::assertSame((string) $replica->port(), $named(), 'it was stale to the end');
        $stale->stop();
    }

    private function assertLeadsToThePrimary(array $sentinels, string $what): void
    {
        $connection = new Connection(Sentinels::dsnOf($sentinels), self::TIMEOUT, self::TIMEOUT);
        $lock = new DistributedLock('order:1', 30.0, connection: $connection);
        [$taken, $seconds] = timed(static fn () => $lock->acquire());
        self::assertTrue($taken, $what);
        self::assertLessThan(2 * self::TIMEOUT, $seconds, $what);
        self::assertSame($lock->token(), self::$group->primary()->command('GET', 'lock:order:1'), $what);
        self::assertTrue($lock->release(), $what);
        $connection->close();
    }

    private function unavailable(string $dsn, float $timeout = self::TIMEOUT): string
    {
        $lock = new DistributedLock('order:1', 30.0, connection: new Connection($dsn, $timeout, $timeout));
        try {
            $lock->acquire();
        } catch (ConnectionException $unavailable) {
            self::assertFalse($lock->isHeld());

            return $unavailable->getMessage();
        }
        self::fail('no primary was expected');
    }

    /** A port that nobody listens on. */
    private static function nowhere(): object
    {
        return new class (RedisServer::freePort()) {
            public function __construct(private readonly int $port)
            {
            }

            public function port(): int
            {
                return $this->port;
            }
        };
    }
}
