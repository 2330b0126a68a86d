<?php

declare(strict_types=1);

namespace RedisLease\Tests\Fault;

use DistributedLock;
use PHPUnit\Framework\TestCase;
use RedisLease\Connection;
use RedisLease\ConnectionException;
use RedisLease\ServerException;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\RespError;
use RedisLease\Tests\Support\Worker;
use Throwable;

use function RedisLease\Tests\Support\eventually;
use function RedisLease\Tests\Support\timed;

/**
 * Real servers, brought to say no in each of their ways: the caller learns the code word at once, or,
 * where the trouble may pass, when the wait has ended. Nobody is told that somebody else holds the lock.
 */
final class RefusalsTest extends TestCase
{
    /** @var list<RedisServer> */
    private array $servers = [];

    protected function tearDown(): void
    {
        foreach ($this->servers as $server) {
            $server->stop();
        }
    }

    public function testAReplicaIsReadOnlyUntilItIsPromoted(): void
    {
        $primary = $this->server(['repl-diskless-sync-delay' => '0'], tcp: true);
        $replica = $this->server(['replicaof' => '127.0.0.1 ' . $primary->port()]);
        eventually(static fn () => str_contains($replica->command('INFO', 'replication'), 'master_link_status:up'), 'it replicates');

        $this->assertPassingRefusal($replica, 'READONLY', static fn () => $replica->command('REPLICAOF', 'NO', 'ONE'));
    }

    public function testAHeldLockSurvivesThatItsServerBecomesAReplicaForAMoment(): void
    {
        $server = $this->server(tcp: true);
        $held = $this->lock($server);
        self::assertTrue($held->acquire());
        $server->command('REPLICAOF', '127.0.0.1', 1);
        $this->assertRefused('READONLY', static fn () => $held->renew(10.0), 'renew');
        $this->assertRefused('READONLY', static fn () => $held->release(), 'release');
        $server->command('REPLICAOF', 'NO', 'ONE');

        self::assertTrue($held->release(), 'a further release() gives the final answer');
    }

    public function testALoadingServerIsWaitedFor(): void
    {
        $server = $this->server(['enable-debug-command' => 'yes', 'loading-process-events-interval-bytes' => '1024']);
        for ($i = 0; $i < 2_000; $i++) {
            $server->command('SET', "some:key:$i", str_repeat('x', 100));
        }
        $server->command('SAVE');
        $server->command('CONFIG', 'SET', 'key-load-delay', 500);
        $reloader = $server->connect();
        $reloader->send('DEBUG', 'RELOAD', 'NOSAVE');
        $isLoading = static fn () => self::codeOf($server, 'GET', 'x') === 'LOADING';
        eventually($isLoading, 'the server loads');

        $this->assertPassingRefusal($server, 'LOADING', static fn () => $server->command('CONFIG', 'SET', 'key-load-delay', 0));
    }

    public function testAReplicaThatHasLostItsPrimaryIsWaitedFor(): void
    {
        $primary = $this->server(['repl-diskless-sync-delay' => '0'], tcp: true);
        $replica = $this->server([
            'replicaof' => '127.0.0.1 ' . $primary->port(), 'replica-serve-stale-data' => 'no',
            'replica-read-only' => 'no',
        ]);
        eventually(static fn () => str_contains($replica->command('INFO', 'replication'), 'master_link_status:up'), 'it replicates');
        $primary->kill();
        eventually(static fn () => self::codeOf($replica, 'GET', 'x') === 'MASTERDOWN', 'the replica has noticed');

        $this->assertPassingRefusal($replica, 'MASTERDOWN', static fn () => $replica->command('REPLICAOF', 'NO', 'ONE'));
    }

    public function testAScriptOfSomebodyElseThatKeepsTheServerBusyIsWaitedFor(): void
    {
        $server = $this->server(['lua-time-limit' => '20']);
        $busy = $server->connect();
        $busy->send('EVAL', 'while true do end', 0);
        eventually(static fn () => self::codeOf($server, 'GET', 'x') === 'BUSY', 'the server is busy');

        $this->assertPassingRefusal($server, 'BUSY', static fn () => $server->command('SCRIPT', 'KILL'));
    }

    public function testAClusterThatIsDownIsWaitedFor(): void
    {
        $server = $this->server(['cluster-enabled' => 'yes', 'databases' => '1'], tcp: true);

        $this->assertPassingRefusal($server, 'CLUSTERDOWN', static fn () => $server->command('CLUSTER', 'ADDSLOTSRANGE', 0, 16383));
    }

    public function testAServerWithTooManyClientsIsWaitedFor(): void
    {
        $server = $this->server();
        $server->command('CONFIG', 'SET', 'maxclients', 2);
        $other = $server->connect();
        $id = $other->command('CLIENT', 'ID');
        $lock = $this->lock($server);
        [$caught, $seconds] = timed(static fn () => self::caught(static fn () => $lock->acquire()));
        self::assertNotNull($caught, 'there was no room');
        self::assertContains($caught::class, [ServerException::class, ConnectionException::class]);
        self::assertStringContainsString('max number of clients', $caught->getMessage());
        self::assertLessThan(0.5, $seconds);

        $worker = $this->waiter($server);
        self::assertSame('waiting', $worker->hear());
        $server->command('CLIENT', 'KILL', 'ID', $id);
        self::assertTrue($worker->hear(), 'there is room again');
        $worker->finish();
    }

    public function testAServerOutOfMemoryRefusesAtOnceAndStillTakesLocksBack(): void
    {
        $server = $this->server(['maxmemory-policy' => 'noeviction']);
        $held = $this->lock($server, 'held');
        self::assertTrue($held->acquire());
        $server->command('CONFIG', 'SET', 'maxmemory', 1);

        $this->assertLastingRefusal($server, 'OOM');
        self::assertTrue($held->renew(), 'a renewal needs no memory');
        self::assertTrue($held->release(), 'nor does a release');
        self::assertNull($server->command('GET', 'lock:held'));
    }

    public function testAServerThatCannotSaveRefusesAtOnce(): void
    {
        $directory = Janitor::directory('.lost');
        $server = $this->server(['dir' => $directory, 'save' => '3600 1000']);
        rmdir($directory);
        self::codeOf($server, 'BGSAVE');
        $hasFailed = static fn () => str_contains($server->command('INFO', 'persistence'), 'rdb_last_bgsave_status:err');
        eventually($hasFailed, 'saving failed');

        $this->assertLastingRefusal($server, 'MISCONF');
    }

    public function testAServerWithoutEnoughReplicasRefusesAtOnce(): void
    {
        $this->assertLastingRefusal($this->server(['min-replicas-to-write' => '1']), 'NOREPLICAS');
    }

    public function testAKeyOfAnotherTypeIsNamedAsAnotherProgramsUse(): void
    {
        $server = $this->server();
        $server->command('RPUSH', 'lock:order:1', 'item');

        $caught = $this->assertLastingRefusal($server, 'WRONGTYPE');
        self::assertStringContainsString('another program', $caught->getMessage());
        foreach (['owner', 'forceRelease'] as $call) {
            $this->assertRefused('WRONGTYPE', fn () => $this->lock($server)->$call(), $call);
        }
        self::assertSame(['item'], $server->command('LRANGE', 'lock:order:1', 0, -1));
    }

    public function testAMissingOrWrongPasswordIsNotTriedAgain(): void
    {
        $server = $this->server(password: 'secret');
        foreach (['' => 'NOAUTH', '?pass=wrong' => 'WRONGPASS'] as $options => $code) {
            $lock = new DistributedLock('order:1', 5.0, connection: new Connection("unix://{$server->socket()}$options"));
            foreach (['acquire', 'owner', 'forceRelease'] as $call) {
                $this->assertRefused($code, static fn () => $lock->$call(), $call);
            }
            $this->assertRefused($code, static fn () => $lock->acquire(5.0), 'acquire with a wait');
        }
    }

    public function testAPasswordChangedUnderAWorkerShowsOnlyWhenItMustConnectAgain(): void
    {
        $server = $this->server(password: 'secret');
        $lock = $this->lock($server);
        self::assertTrue($lock->acquire());
        $server->command('CONFIG', 'SET', 'requirepass', 'other');
        self::assertTrue($lock->renew(), 'the connection is logged in');
        $server->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');

        $this->assertRefused('WRONGPASS', static fn () => $lock->renew(), 'renew');
        self::assertTrue($lock->isHeld(), 'the validity stays as last confirmed');
        $server->command('CONFIG', 'SET', 'requirepass', 'secret');
        self::assertTrue($lock->release());
    }

    public function testAnAclUserWithoutTheRightsLearnsWhichAreMissing(): void
    {
        $users = [
            'user commands on >secret ~* +@all -evalsha -eval' => [['NOPERM'], 'evalsha'],
            'user keys on >secret ~other:* +@all' => [['NOPERM'], 'key'],
            // Not every Redis has a code word for what a script may not do.
            'user writes on >secret ~* +@all -set' => [['ERR', 'NOPERM'], 'command'],
        ];
        $server = $this->server(aclUsers: array_keys($users));
        foreach ($users as $user => [$codes, $missing]) {
            $name = explode(' ', $user)[1];
            $connection = new Connection($server->dsn(['user' => $name, 'pass' => 'secret']));
            $lock = new DistributedLock('order:1', 5.0, connection: $connection);
            $caught = self::caught(static fn () => $lock->acquire(5.0));
            self::assertInstanceOf(ServerException::class, $caught, $name);
            self::assertContains($caught->redisCode, $codes, $name);
            self::assertStringContainsStringIgnoringCase($missing, $caught->getMessage());
            self::assertSame([], $server->command('KEYS', '*'));
        }
    }

    public function testAServerWithoutTheCommandsSaysSo(): void
    {
        $server = $this->server(['rename-command' => ['EVALSHA ""', 'EVAL ""']]);

        $caught = $this->assertLastingRefusal($server, 'ERR');
        self::assertStringContainsString('unknown command', $caught->getMessage());
    }

    public function testForgottenScriptsAreNoticedByNobody(): void
    {
        $server = $this->server();
        $lock = $this->lock($server);
        foreach (['acquire', 'renew', 'acquire', 'release', 'acquire', 'forceRelease'] as $call) {
            $server->command('SCRIPT', 'FLUSH');
            self::assertTrue($lock->$call(), $call);
        }
    }

    /** The refusal passes: thrown at once without a wait, after a wait too short, and lived through by a longer one. */
    private function assertPassingRefusal(RedisServer $server, string $code, callable $cure): void
    {
        $lock = $this->lock($server);
        [, $seconds] = timed(fn () => $this->assertRefused($code, static fn () => $lock->acquire(), 'acquire'));
        self::assertLessThan(0.5, $seconds);
        [, $seconds] = timed(fn () => $this->assertRefused($code, static fn () => $lock->acquire(0.2), 'acquire with a wait'));
        self::assertGreaterThanOrEqual(0.2, $seconds, 'the wait was not used');

        $worker = $this->waiter($server);
        self::assertSame('waiting', $worker->hear());
        $cure();
        self::assertTrue($worker->hear(), "the trouble is over, and the waiter has the lock");
        $worker->finish();
        self::assertTrue($lock->acquire());
        self::assertTrue($lock->release());
    }

    /** The refusal lasts: a wait makes no difference. */
    private function assertLastingRefusal(RedisServer $server, string $code): Throwable
    {
        $lock = $this->lock($server);
        [, $seconds] = timed(function () use ($code, $lock): void {
            $this->assertRefused($code, static fn () => $lock->acquire(), 'acquire');
            $this->assertRefused($code, static fn () => $lock->acquire(5.0), 'acquire with a wait');
        });
        self::assertLessThan(1.0, $seconds, 'waiting would not have helped');

        return $this->assertRefused($code, static fn () => $lock->synchronized(static fn () => self::fail('it ran')), 'synchronized');
    }

    private function assertRefused(string $code, callable $action, string $what): ServerException
    {
        $caught = self::caught($action);
        self::assertInstanceOf(ServerException::class, $caught, "$what: " . $caught);
        self::assertSame($code, $caught->redisCode, $what);
        self::assertStringContainsString($code, $caught->getMessage());
        self::assertNotNull($caught->resource);
        self::assertStringNotContainsString('secret', (string) $caught);

        return $caught;
    }

    private static function caught(callable $action): ?Throwable
    {
        try {
            $action();
        } catch (Throwable $caught) {
            return $caught;
        }

        return null;
    }

    /** The code word of the server's refusal, or null. */
    private static function codeOf(RedisServer $server, string ...$command): ?string
    {
        try {
            $server->command(...$command);
        } catch (RespError $refusal) {
            return strtok($refusal->getMessage(), ' ');
        }

        return null;
    }

    /** A worker that waits for the lock, long enough for everything to be over. */
    private function waiter(RedisServer $server): Worker
    {
        return Worker::start(<<<'PHP'
            $lock = new DistributedLock('order:1', 5.0, connection: new Connection($args['dsn'], 1.0, 1.0));
            try {
                $lock->acquire(0.05);
            } catch (LeaseException) {
                say('waiting');
            }
            say($lock->acquire(20.0));
            PHP, ['dsn' => $server->dsn()]);
    }

    private function lock(RedisServer $server, string $resource = 'order:1'): DistributedLock
    {
        return new DistributedLock($resource, 5.0, connection: new Connection($server->dsn(), 1.0, 1.0));
    }

    private function server(array $settings = [], bool $tcp = false, ?string $password = null, array $aclUsers = []): RedisServer
    {
        return $this->servers[] = RedisServer::start($tcp, $password, $settings, $aclUsers);
    }
}
