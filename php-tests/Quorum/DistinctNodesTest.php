<?php

declare(strict_types=1);

namespace RedisLease\Tests\Quorum;

use RedisLease\Connection;
use RedisLease\ConnectionException;
use ValueError;

use function RedisLease\Tests\Support\eventually;

/** A majority is one of different servers: what makes it another is refused, or does not count. */
final class DistinctNodesTest extends QuorumTestCase
{
    public function testTheSameAddressTwiceIsRefused(): void
    {
        [$one, $two] = self::$servers;
        $this->assertRefused("{$one->dsn()} {$two->dsn()} {$one->dsn()}", 'twice');
        $this->assertRefused("{$one->dsn()} {$two->dsn()} {$one->dsn(['db' => 3])}", 'twice');
        $this->assertRefused("redis://a redis://b redis://user:pass@a:6379/2", 'twice');
    }

    public function testAnEvenNumberOfNodesIsRefused(): void
    {
        [$one, $two] = self::$servers;
        $this->assertRefused("{$one->dsn()} {$two->dsn()}", 'even');
        $this->assertRefused('redis://a redis://b redis://c redis://d', 'even');
        self::assertFalse(@ini_set('redis_lease.dsn', 'redis://a redis://b'));
    }

    public function testTheSameServerUnderTwoAddressesCountsOnceAndSaysSo(): void
    {
        [$one, , $three] = self::$servers;
        foreach (["{$one->dsn()} {$one->tcpDsn()}", "{$one->tcpDsn()} {$one->dsn()}"] as $twice) {
            $dsn = "$twice {$three->dsn()}";
            $connection = $this->connection($dsn);
            $lock = $this->lock(connection: $connection);
            self::assertTrue($lock->acquire(), 'two servers are a majority of three nodes');
            self::assertTrue($lock->release());
            $same = array_filter($connection->ping(), is_string(...));
            self::assertCount(1, $same);
            self::assertMatchesRegularExpression('/the same server as node [12] of the DSN/', current($same));

            $three->kill();
            [$thrown] = self::thrown(static fn () => $lock->acquire());
            self::assertInstanceOf(ConnectionException::class, $thrown, 'one server is none');
            self::assertMatchesRegularExpression('/the same server as node [12] of the DSN/', $thrown->getMessage());
            eventually(static fn () => $one->command('GET', 'lock:order:1') === null, 'what it had granted went back');
            $three->restart(keepData: false);
        }
    }

    public function testTheVoteOfAServerThatIsNamedTwiceIsNotCountedForWhoIsAlone(): void
    {
        // Two clients with two servers between them: each would have a majority if votes counted twice.
        [$one, , $three] = self::$servers;
        $dsn = "{$one->dsn()} {$one->tcpDsn()} {$three->dsn()}";
        $three->command('SET', 'lock:order:1', 'somebody-else', 'PX', 30_000);
        self::assertFalse($this->lock(connection: $this->connection($dsn))->acquire());
    }

    public function testAServerBehindANameThatMovesToAnotherNodesServerCountsNoMore(): void
    {
        $proxies = $this->proxies(2);
        $connection = $this->warm(self::dsnThrough($proxies));
        $proxies[2]->leadTo(self::$servers[0]);
        $proxies[2]->cut();
        self::$servers[1]->kill();
        $lock = $this->lock(connection: $connection);
        [$thrown] = self::thrown(static fn () => $lock->acquire());
        self::assertInstanceOf(ConnectionException::class, $thrown);
        self::assertStringContainsString('the same server as node 1', $thrown->getMessage());
    }

    public function testAServerThatIsRestartedIsStillItself(): void
    {
        $connection = $this->warm();
        foreach ([0, 1, 2, 0] as $place) {
            self::$servers[$place]->restart(keepData: false);
            self::assertTrue($this->lock("order:$place", connection: $connection)->acquire());
            self::drain($connection);
            self::$servers[$place]->flush();
        }
    }

    public function testAReplicaOfAnotherNodeRefusesAndIsNeverCounted(): void
    {
        self::$servers[1]->command('REPLICAOF', '127.0.0.1', self::$servers[0]->port());
        // Without waiting for a delay that saves memory.
        self::$servers[0]->command('CONFIG', 'SET', 'repl-diskless-sync-delay', 0);
        eventually(static fn () => str_contains(self::$servers[1]->command('INFO', 'replication'), 'master_link_status:up'), 'it replicates');
        $lock = $this->lock();
        self::assertTrue($lock->acquire(), 'the two others are a majority');
        self::assertTrue($lock->renew() && $lock->release());

        self::$servers[2]->kill();
        [$thrown] = self::thrown(static fn () => $lock->acquire());
        self::assertNotNull($thrown, 'a server and its replica are no majority of three');
        self::assertStringContainsString(self::$servers[1]->socket() . ': READONLY', $thrown->getMessage());
        self::assertStringContainsString('this server is a replica', $thrown->getMessage());
        eventually(static fn () => self::$servers[0]->command('GET', 'lock:order:1') === null, 'it went back');
    }

    private function assertRefused(string $dsn, string $why): void
    {
        try {
            new Connection($dsn);
            self::fail("$dsn was taken");
        } catch (ValueError $refused) {
            self::assertStringStartsWith('RedisLease\Connection::__construct(): Argument #1 ($dsn)', $refused->getMessage());
            self::assertStringContainsString($why, $refused->getMessage());
            self::assertStringNotContainsString('pass', $refused->getMessage());
        }
    }
}
