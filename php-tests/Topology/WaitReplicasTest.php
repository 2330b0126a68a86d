<?php

declare(strict_types=1);

namespace RedisLease\Tests\Topology;

use DistributedLock;
use PHPUnit\Framework\TestCase;
use RedisLease\Connection;
use RedisLease\ConnectionException;
use RedisLease\Tests\Support\RedisCluster;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\Sentinels;

use function RedisLease\Tests\Support\timed;

/** wait_replicas: a grant counts when so many replicas have it, and is given back when they do not say so. */
final class WaitReplicasTest extends TestCase
{
    private const TIMEOUT = 0.4;

    private static RedisServer $primary;
    private static RedisServer $replica;
    private static RedisServer $alone;

    public static function setUpBeforeClass(): void
    {
        self::$primary = RedisServer::start(tcp: true, settings: ['repl-diskless-sync-delay' => '0']);
        self::$replica = RedisServer::start(tcp: true, settings: ['replicaof' => '127.0.0.1 ' . self::$primary->port()]);
        self::$alone = RedisServer::start(tcp: true);
        self::$primary->awaitReplicas(1);
    }

    public static function tearDownAfterClass(): void
    {
        foreach ([self::$primary, self::$replica, self::$alone] as $server) {
            $server->stop();
        }
    }

    public function testAGrantThatTheReplicaHasCounts(): void
    {
        $lock = self::lock(self::$primary->tcpDsn() . '?wait_replicas=1');
        self::assertTrue($lock->acquire());
        self::assertSame($lock->token(), self::$replica->command('GET', 'lock:order:1'), 'it is there before acquire() returns');
        self::assertTrue($lock->renew() && $lock->acquire() && $lock->release());
    }

    public function testAGrantThatAHungReplicaDoesNotConfirmIsGivenBack(): void
    {
        $lock = self::lock(self::$primary->tcpDsn() . '?wait_replicas=1');
        self::$replica->pause();
        try {
            $this->assertGivenBack($lock, self::$primary);
        } finally {
            self::$replica->resume();
        }
        self::assertTrue($lock->acquire(5.0), 'it goes on');
        self::assertTrue($lock->release());
    }

    public function testAWaitGoesOnUntilTheReplicaIsBack(): void
    {
        $lock = self::lock(self::$primary->tcpDsn() . '?wait_replicas=1', 'order:2');
        self::$replica->pause();
        $resumed = hrtime(true);
        try {
            // The shell continues the replica while we wait.
            $resume = proc_open(['sh', '-c', 'sleep 0.8; kill -CONT ' . self::$replica->pid()], [], $pipes);
            self::assertTrue($lock->acquire(10.0));
            self::assertGreaterThan(0.7, (hrtime(true) - $resumed) / 1e9);
        } finally {
            proc_close($resume);
            self::$replica->resume();
        }
        self::assertSame($lock->token(), self::$replica->command('GET', 'lock:order:2'));
        self::assertTrue($lock->release());
    }

    public function testMoreReplicasThanThereAreCannotConfirm(): void
    {
        $this->assertCannotBeMet(self::$primary->tcpDsn() . '?wait_replicas=2', self::$primary, 'wait_replicas=2', 'has 1 replicas');
    }

    /** redisson#4706 and #6920: WAIT that could never be satisfied locked everybody out. */
    public function testRedisson4706And6920ReplicasThatAreNotThereAreSaidAtOnce(): void
    {
        foreach ([self::$alone->tcpDsn() . '?wait_replicas=1', self::$alone->dsn(['wait_replicas' => '1'])] as $dsn) {
            $this->assertCannotBeMet($dsn, self::$alone, 'wait_replicas=1', 'has 0 replicas');
        }
        $lock = self::lock(self::$alone->tcpDsn());
        self::assertTrue($lock->acquire() && $lock->release(), 'nobody is locked out');
    }

    public function testASentinelsReplicasConfirm(): void
    {
        $group = Sentinels::start(sentinels: 1, replicas: 1);
        try {
            [$primary, $replica] = $group->servers;
            $this->assertConfirmedUnlessItHangs($group->dsn('?wait_replicas=1'), $primary, $replica);
            $this->assertCannotBeMet($group->dsn('?wait_replicas=2'), $primary, 'wait_replicas=2', 'has 1 replicas');
        } finally {
            $group->stop();
        }
    }

    public function testAClustersReplicasConfirm(): void
    {
        // A hung replica is not to be thought dead in the time of a test.
        $cluster = RedisCluster::start(hasReplicas: true, settings: ['cluster-node-timeout' => '15000']);
        try {
            $primary = $cluster->primaryOf('lock:order:1');
            $replica = $cluster->replicas[array_search($primary, $cluster->primaries, true)];
            $this->assertConfirmedUnlessItHangs($cluster->dsn() . '?wait_replicas=1', $primary, $replica);
            $this->assertCannotBeMet($cluster->dsn() . '?wait_replicas=2', $primary, 'wait_replicas=2', 'has 1 replicas');
        } finally {
            $cluster->stop();
        }
    }

    private function assertConfirmedUnlessItHangs(string $dsn, RedisServer $primary, RedisServer $replica): void
    {
        $lock = self::lock($dsn);
        self::assertTrue($lock->acquire());
        $copy = $replica->connect();
        if (str_contains($dsn, 'cluster')) {
            $copy->command('READONLY');
        }
        self::assertSame($lock->token(), $copy->command('GET', 'lock:order:1'));
        self::assertTrue($lock->release());
        $replica->pause();
        try {
            $this->assertGivenBack($lock, $primary);
        } finally {
            $replica->resume();
        }
    }

    private function assertGivenBack(DistributedLock $lock, RedisServer $primary): void
    {
        [$said, $seconds] = timed(static fn () => self::unavailable($lock));
        self::assertStringContainsString(
            "0 of the 1 replicas that wait_replicas asks for confirmed the grant at 127.0.0.1:{$primary->port()}",
            $said,
        );
        self::assertLessThan(2 * self::TIMEOUT + 0.5, $seconds);
        self::assertFalse($lock->isHeld());
        self::assertNull($primary->command('GET', 'lock:order:1'), 'nothing is left held');
    }

    private function assertCannotBeMet(string $dsn, RedisServer $primary, string ...$said): void
    {
        foreach ([0.0, 30.0] as $wait) {
            $lock = self::lock($dsn);
            [$message, $seconds] = timed(static fn () => self::unavailable($lock, $wait));
            foreach ($said as $part) {
                self::assertStringContainsString($part, $message);
            }
            self::assertLessThan(2 * self::TIMEOUT + 0.5, $seconds, 'it is said at once, however long the wait');
            self::assertNull($primary->command('GET', 'lock:order:1'), 'nothing is left held');
        }
    }

    private static function unavailable(DistributedLock $lock, float $wait = 0.0): string
    {
        try {
            $lock->acquire($wait);
        } catch (ConnectionException $unavailable) {
            return $unavailable->getMessage();
        }
        self::fail('the grant was not to count');
    }

    private static function lock(string $dsn, string $resource = 'order:1'): DistributedLock
    {
        return new DistributedLock($resource, 30.0, connection: new Connection($dsn, self::TIMEOUT, self::TIMEOUT));
    }
}
