<?php

declare(strict_types=1);

namespace RedisLease\Tests\Quorum;

use DistributedLock;
use RedisLease\Connection;
use RedisLease\ServerException;
use RedisLease\Tests\Support\Proc;

use function RedisLease\Tests\Support\eventually;

/** With restart_guard, a node that may have lost its data grants nothing until every earlier lease is over. */
final class RestartGuardTest extends QuorumTestCase
{
    private const GUARD = '?restart_guard=1';

    public function testANodeThatHasJustStartedGrantsNothingNewAndSaysForHowLong(): void
    {
        $this->awaitGuard();
        self::$servers[0]->restart(keepData: false);
        self::$servers[1]->restart(keepData: true);
        $lock = $this->lock(connection: $this->connection(self::dsn(self::GUARD)));
        [$thrown] = self::thrown(static fn () => $lock->acquire());

        self::assertInstanceOf(ServerException::class, $thrown);
        self::assertSame('RESTARTED', $thrown->redisCode);
        $said = '~: RESTARTED it started too short ago, and grants nothing for ([\d.]+) s yet~';
        self::assertSame(2, preg_match_all($said, $thrown->getMessage(), $left), $thrown->getMessage());
        // Redis tells its age in whole seconds, so one more is waited.
        self::assertGreaterThan(0.0, (float) $left[1][0]);
        self::assertLessThanOrEqual(2.0, (float) $left[1][0]);
        self::assertNothingHeldAnywhere('what the third had granted went back');
        foreach ([0, 1] as $place) {
            self::assertSame([], self::keys($place), 'it was not even asked');
        }
        [$thrown] = self::thrown(static fn () => $lock->acquire(0.1));
        self::assertInstanceOf(ServerException::class, $thrown, 'after a wait too');
        self::assertTrue($lock->acquire(8.0), 'and a wait that is long enough ends with the lock');
        self::assertGreaterThanOrEqual(1, self::$servers[0]->command('EVAL', "return tonumber(string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%d+)'))", 0), 'not before the guard');
    }

    public function testOneNodeThatHasJustStartedIsDoneWithoutAndAskedAgainAfterwards(): void
    {
        $this->awaitGuard();
        $connection = $this->connection(self::dsn(self::GUARD));
        self::$servers[2]->restart(keepData: false);
        [$isHeld, $seconds] = Proc::timed(fn () => $this->lock(connection: $connection)->acquire());
        self::assertTrue($isHeld);
        self::assertLessThan(self::COMMAND, $seconds);
        self::assertNull(self::copies()[2]);
        eventually(function () use ($connection): bool {
            $lock = $this->lock('order:2', connection: $connection);
            self::assertTrue($lock->acquire());
            $isThere = self::$servers[2]->command('GET', 'lock:order:2') === $lock->token();
            self::assertTrue($lock->release());

            return $isThere;
        }, 'it grants again', 6.0);
    }

    public function testRenewalAndReleaseAreAllowedOnANodeThatHasJustStarted(): void
    {
        [$lock, $connection] = $this->heldOnAllNodes();
        // Both keep their data, as after an orderly restart; the third loses it.
        self::$servers[0]->restart(keepData: true);
        self::$servers[1]->restart(keepData: true);
        self::$servers[2]->kill();

        self::assertTrue($lock->renew(60.0));
        self::assertSame($lock->token(), $lock->owner());
        self::assertTrue($lock->release());
        self::assertNull($lock->owner());
        self::assertFalse($lock->forceRelease());
    }

    /** A late refill would be a vote for a lease that may be over: the model shows two owners. */
    public function testAGuardedNodeTakesARefillOnlyWhenItsGuardIsOver(): void
    {
        [$lock, $connection] = $this->heldOnAllNodes();
        self::$servers[1]->restart(keepData: false);
        $start = microtime(true);
        for ($renewals = 0; microtime(true) < $start + 0.7; $renewals++) {
            self::assertTrue($lock->renew());
            self::settle($connection);
            self::assertNull(self::copies()[1], 'not yet');
        }
        self::assertGreaterThan(2, $renewals);
        eventually(static fn () => $lock->renew() && self::copies()[1] === $lock->token(), 'it has the copy again', 6.0);
    }

    public function testWhereInfoIsRefusedTheGuardCannotBeKeptAndTheNodeSaysSo(): void
    {
        foreach ([0, 1] as $place) {
            self::$servers[$place]->command('ACL', 'SETUSER', 'default', '-info');
        }
        $connection = $this->connection(self::dsn(self::GUARD));
        [$thrown] = self::thrown(fn () => $this->lock(connection: $connection)->acquire());
        self::assertInstanceOf(ServerException::class, $thrown);
        $said = '~restart_guard cannot be kept, since it does not tell its age: NOPERM~';
        self::assertSame(2, preg_match_all($said, $thrown->getMessage()), $thrown->getMessage());
    }

    public function testWithoutAGuardInfoMayBeRefusedAndPingSaysWhatThatMeans(): void
    {
        self::$servers[1]->command('ACL', 'SETUSER', 'default', '-info');
        $connection = $this->connection();
        self::assertTrue($this->lock(connection: $connection)->acquire());
        $answers = $connection->ping();

        $name = self::$servers[1]->socket();
        self::assertSame([self::$servers[0]->socket(), $name, "$name (identity)", self::$servers[2]->socket()], array_keys($answers));
        self::assertIsFloat($answers[$name]);
        self::assertStringContainsString('cannot be told', $answers["$name (identity)"]);
        self::assertStringContainsString('NOPERM', $answers["$name (identity)"]);
    }

    /** All servers have been running for longer than the guard. */
    /** @return array{DistributedLock, Connection} a lock that every node has granted, and its connection */
    private function heldOnAllNodes(): array
    {
        $this->awaitGuard();
        $connection = $this->connection(self::dsn(self::GUARD));
        self::settle($connection);
        $lock = $this->lock(connection: $connection);
        self::assertTrue($lock->acquire());
        self::settle($connection);

        return [$lock, $connection];
    }

    private function awaitGuard(): void
    {
        $age = static fn ($server) => preg_match('/uptime_in_seconds:(\d+)/', $server->command('INFO', 'server'), $found) ? (int) $found[1] : 0;
        eventually(static fn () => min(array_map($age, self::$servers)) >= 2, 'the servers have been running for long enough');
    }
}
