<?php

declare(strict_types=1);

namespace RedisLease\Tests\Fault;

use Closure;
use DistributedLock;
use PHPUnit\Framework\TestCase;
use RedisLease\Connection;
use RedisLease\ConnectionException;
use RedisLease\OutcomeUnknownException;
use RedisLease\Tests\Support\BlackHole;
use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\PhpProcess;
use RedisLease\Tests\Support\Proc;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\Worker;
use Throwable;

use function RedisLease\Tests\Support\eventually;
use function RedisLease\Tests\Support\timed;

/** A server that is dead in one of many ways costs each call a bounded time, and is never mistaken for another owner. */
final class DeadServerTest extends TestCase
{
    private const CONNECT = 0.1;
    private const COMMAND = 0.06;
    private const CALLS = ['acquire', 'renew', 'release', 'owner', 'forceRelease', 'ping', 'synchronized', 'acquire with a wait'];

    private RedisServer $server;
    /** @var list<BlackHole|FaultProxy> */
    private array $others = [];

    protected function setUp(): void
    {
        $this->server = RedisServer::start(tcp: true);
    }

    protected function tearDown(): void
    {
        foreach ($this->others as $other) {
            $other instanceof FaultProxy ? $other->stop() : $other->close();
        }
        $this->server->stop();
    }

    public function testNoCallLastsLongerThanItsTimeoutsAllow(): void
    {
        foreach ($this->waysToBeDead() as $way => [$dsn, $warms, $begin, $end]) {
            foreach (self::CALLS as $call) {
                $lock = $this->prepared($dsn, $warms);
                $begin();
                [[$outcome, $elapsed], $seconds] = Proc::timed(fn () => timed(fn () => self::outcome($lock, $call, $dsn)));
                $end();

                $wait = $call === 'acquire with a wait' ? 0.25 : 0.0;
                self::assertLessThan($wait + self::CONNECT + self::COMMAND + 0.1, $seconds, "$way: $call");
                self::assertGreaterThanOrEqual($wait, $elapsed, "$way: $call gave up early");
                self::assertContains($outcome, [ConnectionException::class, OutcomeUnknownException::class, 'error'], "$way: $call");
            }
        }
    }

    public function testTheEndOfARequestCostsNoMoreThanOneCommandTimeout(): void
    {
        foreach ($this->waysToBeDead() as $way => [$dsn, $warms, $begin, $end]) {
            $locks = [];
            for ($i = 0; $warms && $i < 5; $i++) {
                $locks[] = $this->prepared($dsn, true, "order:$i");
            }
            $begin();
            [, $seconds] = Proc::timed(static function () use (&$locks): void {
                $locks = [];
            });
            $end();

            // Each handle is dropped by itself here; the end of a request has one limit for all of them.
            self::assertLessThan(5 * self::COMMAND + 0.1, $seconds, $way);
        }
    }

    public function testAServerKnownToBeDeadCostsFarLess(): void
    {
        $hole = $this->others[] = BlackHole::open('tcp://127.0.0.1:0');
        $this->server->pause();
        foreach (['a black hole' => $hole->dsn(), 'a server that hangs' => $this->server->tcpDsn()] as $what => $dsn) {
            $lock = new DistributedLock('order:1', 5.0, connection: new Connection($dsn, 0.3, 0.3));
            $spent = [];
            for ($i = 0; $i < 15; $i++) {
                [$outcome, $spent[]] = Proc::timed(static fn () => self::outcome($lock, 'acquire', $dsn));
                self::assertContains($outcome, [ConnectionException::class, OutcomeUnknownException::class], $what);
            }
            self::assertGreaterThan(0.25, $spent[0], "$what: the first call finds out");
            sort($spent);
            self::assertLessThan(0.06, $spent[7], "$what: half of the calls should know");
            self::assertLessThan(15 * 0.6 / 2, array_sum($spent), $what);
        }
        $this->server->resume();
    }

    public function testAServerThatIsBackIsBackInServiceAtOnce(): void
    {
        $proxy = $this->others[] = FaultProxy::start($this->server);
        $pass = static fn () => $proxy->newConnections('pass');
        $dead = [
            'it hung' => [fn () => $this->server->pause(), fn () => $this->server->resume()],
            'nobody listened' => [static fn () => $proxy->newConnections('refuse') ?? $proxy->cut(), $pass],
            'connections were accepted only' => [static fn () => $proxy->newConnections('hang') ?? $proxy->cut(), $pass],
        ];
        foreach ($dead as $way => [$begin, $end]) {
            $lock = new DistributedLock('order:1', 5.0, connection: new Connection($proxy->dsn(), 0.2, 0.2));
            self::assertTrue(Cuts\Runner::persist(static fn () => $lock->acquire()) && $lock->release());
            $begin();
            for ($i = 0; $i < 6; $i++) {
                self::outcome($lock, 'acquire', '');
            }
            $end();
            $since = microtime(true);
            self::assertTrue(Cuts\Runner::persist(static fn () => $lock->acquire()), $way);
            self::assertLessThan(1.2, microtime(true) - $since, "$way: it was left alone for too long");
            $lock->release();
        }
    }

    public function testAWaitGoesOnThroughAnOutageAndEndsWithTheLock(): void
    {
        $proxy = $this->others[] = FaultProxy::start($this->server);
        foreach (['refuse', 'reject', 'hang'] as $how) {
            $worker = Worker::start(<<<'PHP'
                $lock = new DistributedLock('order:1', 5.0, connection: new Connection($args['dsn'], 0.1, 0.1));
                say('begins');
                say($lock->acquire(20.0));
                say($lock->release());
                PHP, ['dsn' => $proxy->dsn()]);
            $proxy->newConnections($how);
            self::assertSame('begins', $worker->hear());
            $until = microtime(true) + 0.4;
            eventually(static fn () => microtime(true) > $until, 'it has been away for a while');
            $proxy->newConnections('pass');

            self::assertTrue($worker->hear(), $how);
            self::assertTrue($worker->hear());
            $worker->finish();
        }
    }

    public function testAServerThatTurnsEverybodyAwayIsNotStormed(): void
    {
        $proxy = $this->others[] = FaultProxy::start($this->server);
        $lock = new DistributedLock('order:1', 5.0, connection: new Connection($proxy->dsn(), 0.5, 0.5));
        $attempts = function (callable $call) use ($proxy): int {
            $before = $proxy->count('accepted');
            self::assertContains(self::outcome(...$call()), [ConnectionException::class, OutcomeUnknownException::class]);

            return $proxy->count('accepted') - $before;
        };
        $proxy->newConnections('reject');
        $waiting = $attempts(static fn () => [$lock, 'acquire with a wait', '']);
        $proxy->pass();
        self::assertTrue(Cuts\Runner::persist(static fn () => $lock->acquire()));
        $proxy->breakAfter('reply', 0, 'fin', later: 'reject');
        $resolving = $attempts(static fn () => [$lock, 'renew', '']);

        self::assertThat($waiting, self::logicalAnd(self::greaterThan(2), self::lessThan(40)), 'in a wait of 0.25 s');
        self::assertThat($resolving, self::logicalAnd(self::greaterThan(2), self::lessThan(80)), 'in 1 s');
    }

    public function testADeadAddressOfANameDoesNotHideTheLivingOne(): void
    {
        $port = $this->server->port();
        $this->withResolver(function () use ($port): void {
            $hole = $this->others[] = BlackHole::open("tcp://127.0.0.2:$port");
            $cases = [
                'nobody listens at the first' => "127-0-0-3-127-0-0-1.test:$port",
                'the first drops everything' => "127-0-0-2-127-0-0-1.test:$port",
                'the second drops everything' => "127-0-0-1-127-0-0-2.test:$port",
            ];
            foreach ($cases as $what => $host) {
                [$answer, $seconds] = $this->inWorker("redis://$host", 0.6, 0.3);
                self::assertTrue($answer, $what);
                self::assertLessThan(0.6 + 0.3 + 0.1, $seconds, $what);
            }
            [$answer, $seconds] = $this->inWorker("redis://127-0-0-2-127-0-0-2.test:$port", 0.3, 0.3);
            self::assertSame(ConnectionException::class, $answer, 'both are dead');
            self::assertLessThan(0.6 + 0.1, $seconds);
        });
    }

    public function testLocalhostWorksOnWhicheverOfItsAddressesTheServerListens(): void
    {
        if (gethostbyname('localhost') === 'localhost') {
            self::markTestSkipped('this machine does not know the name localhost');
        }
        [$answer] = $this->inWorker('redis://localhost:' . $this->server->port(), 1.0, 1.0);
        self::assertTrue($answer);
    }

    public function testASlowResolverDoesNotStretchTheDeadline(): void
    {
        $this->withResolver(function (): void {
            [$answer, $seconds] = $this->inWorker('redis://slow.test:6379', 0.3, 0.3);
            self::assertSame(ConnectionException::class, $answer);
            self::assertLessThan(0.3 + 0.1 + 0.1, $seconds);
        });
    }

    public function testASlowResolverIsAskedOnceAndNotByEveryCallAnew(): void
    {
        $this->withResolver(function (): void {
            $worker = Worker::start(<<<'PHP'
                $lock = new DistributedLock('order:1', 5.0, connection: new Connection('redis://slow.test', 0.02, 0.02));
                $count = static fn () => [count(scandir('/proc/self/fd')), count(scandir('/proc/self/task'))];
                thrown(static fn () => $lock->acquire());
                $before = $count();
                for ($i = 0; $i < 50; $i++) {
                    thrown(static fn () => $lock->acquire());
                }
                say([$before, $count()]);
                PHP);
            [$before, $after] = $worker->hear();
            $worker->kill();

            self::assertLessThanOrEqual($before[0] + 2, $after[0], 'descriptors');
            self::assertLessThanOrEqual($before[1] + 2, $after[1], 'threads');
        });
    }

    public function testANameThatDoesNotExistIsSaidToBeTheTrouble(): void
    {
        $lock = new DistributedLock('order:1', 5.0, connection: new Connection('redis://no-such-host.invalid', 1.0, 1.0));
        try {
            $lock->acquire();
            self::fail('it has no address');
        } catch (ConnectionException $unavailable) {
            self::assertStringContainsString('resolve', $unavailable->getMessage());
            self::assertStringContainsString('no-such-host.invalid', $unavailable->getMessage());
        }
    }

    /**
     * @return iterable<string, array{string, bool, Closure, Closure}> DSN, whether it can be warmed up, begin
     *     and end of the outage
     */
    private function waysToBeDead(): iterable
    {
        $nothing = static fn () => null;
        $pause = fn () => $this->server->pause();
        $resume = fn () => $this->server->resume();
        $proxy = $this->others[] = FaultProxy::start($this->server);
        $pass = static fn () => $proxy->newConnections('pass');
        yield 'a black hole' => [($this->others[] = BlackHole::open('tcp://127.0.0.1:0'))->dsn(), false, $nothing, $nothing];
        yield 'a unix socket with a full queue' =>
            [($this->others[] = BlackHole::open('unix://' . Janitor::path('.hole')))->dsn(), false, $nothing, $nothing];
        yield 'nobody there' => ['redis://127.0.0.1:1', false, $nothing, $nothing];
        yield 'no such socket' => ['unix://' . Janitor::path('.none'), false, $nothing, $nothing];
        foreach (['TCP' => $this->server->tcpDsn(), 'a unix socket' => $this->server->dsn()] as $transport => $dsn) {
            yield "a server that hangs, $transport" => [$dsn, true, $pause, $resume];
            yield "a server that hung before, $transport" => [$dsn, false, $pause, $resume];
        }
        yield 'the network swallows what is sent' => [
            $proxy->dsn(), true,
            static fn () => $proxy->newConnections('hang') ?? $proxy->hold(), static fn () => $pass() ?? $proxy->cut(),
        ];
        yield 'answers are always late' => [
            $proxy->dsn(), true,
            static fn () => $proxy->delay(0.0, 0.3), static fn () => $proxy->delay(0.0, 0.0) ?? $proxy->cut(),
        ];
        yield 'cut off and refused' => [
            $proxy->dsn(), true, static fn () => $proxy->newConnections('refuse') ?? $proxy->cut('reset'), $pass,
        ];
    }

    private function prepared(string $dsn, bool $warms, string $resource = 'order:1'): DistributedLock
    {
        $connection = new Connection($dsn, self::CONNECT, self::COMMAND);
        if (!$warms) {
            $connection->close();

            return DistributedLock::restore($resource, 'a token', 5.0, $connection);
        }
        $lock = new DistributedLock($resource, 5.0, connection: $connection);
        eventually(function () use ($lock, $resource): bool {
            // The call before may have left a command that arrives only now.
            $this->server->command('DEL', "lock:$resource");

            return Cuts\Runner::persist(static fn () => $lock->acquire());
        }, 'the lock is held before the outage');

        return $lock;
    }

    /** The class of what was thrown, or the answer. */
    private static function outcome(DistributedLock $lock, string $call, string $dsn): mixed
    {
        try {
            return match ($call) {
                'ping' => is_string(current((new Connection($dsn, self::CONNECT, self::COMMAND))->ping())) ? 'error' : 'pong',
                'synchronized' => $lock->synchronized(static fn () => 'it ran'),
                'acquire with a wait' => $lock->acquire(0.25),
                default => $lock->$call(),
            };
        } catch (Throwable $caught) {
            return $caught::class;
        }
    }

    /** @return array{mixed, float} acquire() in a process of its own: its answer or what it threw, and the seconds it took */
    private function inWorker(string $dsn, float $connect, float $command): array
    {
        $worker = Worker::start(<<<'PHP'
            $connection = new Connection($args['dsn'], $args['connect'], $args['command']);
            $lock = new DistributedLock('order:1', 5.0, connection: $connection);
            $start = hrtime(true);
            $answer = null;
            $threw = thrown(static function () use ($lock, &$answer): void {
                $answer = $lock->acquire();
            });
            say([$threw ?? $answer, (hrtime(true) - $start) / 1e9]);
            PHP, ['dsn' => $dsn, 'connect' => $connect, 'command' => $command]);
        $heard = $worker->hear();
        $worker->wait();

        return $heard;
    }

    /**
     * Runs the test with a resolver that knows the names that end in .test: see resolver.c. PHP binds an
     * extension to the system's library first, so a copy of the extension asks for it by another name.
     */
    private function withResolver(callable $test): void
    {
        $resolver = Janitor::path('.so');
        $source = dirname(__DIR__) . '/Support/resolver.c';
        exec('cc -shared -fPIC -o ' . escapeshellarg($resolver) . ' ' . escapeshellarg($source) . ' 2>&1', $said, $failed);
        if ($failed !== 0) {
            self::markTestSkipped('there is no C compiler for the resolver of this test: ' . implode("\n", $said));
        }
        $copy = Janitor::path('.so');
        $extension = (string) file_get_contents(PhpProcess::extension());
        file_put_contents($copy, str_replace("\0getaddrinfo\0", "\0getaddrinfT\0", $extension, $replaced));
        self::assertSame(1, $replaced, 'the extension names the resolver once');

        $before = getenv('REDIS_LEASE_SO');
        putenv("LD_PRELOAD=$resolver");
        putenv("REDIS_LEASE_SO=$copy");
        try {
            $test();
        } finally {
            putenv('LD_PRELOAD');
            putenv($before === false ? 'REDIS_LEASE_SO' : "REDIS_LEASE_SO=$before");
        }
    }
}
