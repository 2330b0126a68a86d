<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use DistributedLock;
use RedisLease\Tests\Support\ServerTestCase;

use function RedisLease\Tests\Support\eventually;

/** Any client that follows the SET NX PX convention excludes us, and is excluded. */
final class InteroperationTest extends ServerTestCase
{
    private const COMPARE_AND_DELETE = <<<'LUA'
        if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
        return 0
        LUA;

    public function testAnotherClientsLockExcludesUsUntilItIsGone(): void
    {
        self::assertSame('OK', self::$server->command('SET', 'lock:x', 'theirs', 'NX', 'PX', 30_000));
        $lock = $this->lock('x');

        self::assertFalse($lock->acquire());
        self::assertSame('theirs', $lock->owner());
        self::assertFalse($lock->renew());
        self::assertFalse($lock->release());

        self::assertSame('theirs', self::stored('x'));
        self::assertSame(1, self::$server->command('EVAL', self::COMPARE_AND_DELETE, 1, 'lock:x', 'theirs'));
        self::assertTrue($lock->acquire());
    }

    public function testOurLockExcludesAnotherClientUntilItIsReleased(): void
    {
        $lock = $this->heldLock('x');

        self::assertNull(self::$server->command('SET', 'lock:x', 'theirs', 'NX', 'PX', 30_000));
        self::assertSame(0, self::$server->command('EVAL', self::COMPARE_AND_DELETE, 1, 'lock:x', 'theirs'));
        self::assertSame('string', self::$server->command('TYPE', 'lock:x'));
        self::assertSame($lock->token(), self::stored('x'));

        self::assertTrue($lock->release());
        self::assertSame('OK', self::$server->command('SET', 'lock:x', 'theirs', 'NX', 'PX', 30_000));
    }

    public function testAnotherClientCanReleaseOurLockWithItsToken(): void
    {
        $lock = $this->heldLock('x');

        self::assertSame(1, self::$server->command('EVAL', self::COMPARE_AND_DELETE, 1, 'lock:x', $lock->token()));

        self::assertFalse($lock->renew());
        self::assertFalse($lock->isHeld());
        self::assertFalse($lock->release());
    }

    public function testALockThatAnotherClientTookIsRestoredHereAndGetsAFence(): void
    {
        $first = $this->heldLock('x');
        $first->release();
        self::$server->command('SET', 'lock:x', 'theirs', 'NX', 'PX', 30_000);
        $restored = DistributedLock::restore('x', 'theirs', 30.0, $this->connection());

        self::assertTrue($restored->renew());

        self::assertGreaterThan($first->fence(), $restored->fence());
        self::assertTrue($restored->release());
        $next = $this->heldLock('x');
        self::assertGreaterThan($restored->fence(), $next->fence());
    }

    public function testTheLockOfAnotherClientWithoutAnyTtlIsContendedAndLeftAlone(): void
    {
        self::$server->command('SET', 'lock:x', 'for ever');
        $lock = $this->lock('x');

        self::assertFalse($lock->acquire());
        self::assertFalse($lock->acquire(0.05));
        self::assertSame(-1, self::$server->command('PTTL', 'lock:x'));

        // A caller that restores it means to have a lease: it gets a TTL, as every lock has.
        $restored = DistributedLock::restore('x', 'for ever', 30.0, $this->connection());
        self::assertTrue($restored->renew());
        self::assertGreaterThan(29_000, self::$server->command('PTTL', 'lock:x'));
    }

    public function testSpoiltCompanionsNeverLeadToALockWithoutAnEnd(): void
    {
        $spoil = [
            'a list' => ['RPUSH', 'item'], 'a set' => ['SADD', 'item'], 'an empty string' => ['SET', ''],
            'a bit' => ['SETBIT', '7', '1'], 'text' => ['SET', 'zzz'], 'a huge number' => ['SET', '9999999999999999:x'],
            'almost a fence' => ['SET', '9:x'],
        ];
        foreach ($spoil as $how => $command) {
            self::$server->flush();
            $lock = $this->heldLock('x', 5.0);
            $before = $lock->fence();
            $companions = array_diff(self::$server->command('KEYS', '*'), ['lock:x']);
            self::assertNotSame([], $companions, 'the fence has to be remembered somewhere');
            $lock->release();
            foreach ($companions as $companion) {
                self::$server->command('DEL', $companion);
                self::$server->command($command[0], $companion, ...array_slice($command, 1));
            }
            try {
                self::assertTrue($lock->acquire(), $how);
                self::assertGreaterThan($before, $lock->fence(), $how);
            } catch (\RedisLease\ServerException $refusal) {
                self::assertFalse($lock->isHeld(), $how);
            }
            $ttl = self::$server->command('PTTL', 'lock:x');
            self::assertTrue($ttl === -2 || ($ttl > 0 && $ttl <= 5_000), "$how: PTTL $ttl");
        }
    }

    public function testTwoHostsContendWithoutSharingAnything(): void
    {
        $snippet = <<<'PHP'
            $lock = new DistributedLock('x', 30.0, connection: $connection);
            while (($command = hear()) !== 'end') {
                say($lock->$command());
            }
            PHP;
        $one = self::worker($snippet);
        $two = self::worker($snippet);
        $steps = [
            [$one, 'acquire', true], [$two, 'acquire', false], [$two, 'release', false], [$one, 'renew', true],
            [$two, 'renew', false], [$one, 'release', true], [$two, 'acquire', true], [$one, 'acquire', false],
            [$one, 'release', false], [$two, 'isHeld', true], [$two, 'release', true],
        ];
        foreach ($steps as $number => [$worker, $command, $expected]) {
            $worker->say($command);
            self::assertSame($expected, $worker->hear(), "step $number: $command");
        }
        foreach ([$one, $two] as $worker) {
            $worker->say('end');
            $worker->finish();
        }
        eventually(static fn () => self::stored('x') === null, 'the lock is free');
    }
}
