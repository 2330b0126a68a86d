<?php

declare(strict_types=1);

namespace RedisLease\Tests\Waiting;

use DistributedLock;
use RedisLease\Connection;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\Monitor;
use RedisLease\Tests\Support\MonitorLine;
use RedisLease\Tests\Support\Outcome;
use RedisLease\Tests\Support\Proc;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\Waiter;
use RedisLease\Tests\Support\Worker;

use function RedisLease\Tests\Support\eventually;
use function RedisLease\Tests\Support\timed;

/** A server that does not let us block: waiting asks from time to time, and ping() says so once. */
final class WithoutBlpopTest extends WaitingTestCase
{
    private const THROWS = 'pcntl_async_signals(true); pcntl_signal(SIGUSR1, static fn () => throw new DomainException("stop"));';

    /** Passes everything on but BLPOP, on which it closes the connection. */
    private const HANGS_UP = <<<'PHP'
        $listener = stream_socket_server('unix://' . $args['socket']);
        say('listening');
        $peers = [];
        for (;;) {
            $ready = [$listener, ...array_column($peers, 0)];
            $write = $except = null;
            stream_select($ready, $write, $except, null);
            foreach ($ready as $stream) {
                if ($stream === $listener) {
                    $client = stream_socket_accept($listener);
                    $server = stream_socket_client($args['upstream']);
                    $peers[(int) $client] = [$client, $server];
                    $peers[(int) $server] = [$server, $client];
                    continue;
                }
                if (!isset($peers[(int) $stream])) {
                    continue;
                }
                $other = $peers[(int) $stream][1];
                $bytes = fread($stream, 65536);
                if ($bytes === '' || $bytes === false || str_contains($bytes, 'BLPOP')) {
                    unset($peers[(int) $stream], $peers[(int) $other]);
                    fclose($stream);
                    fclose($other);
                } else {
                    fwrite($other, $bytes);
                }
            }
        }
        PHP;

    protected static function startServer(): RedisServer
    {
        return RedisServer::start(aclUsers: ['user alice on >secret ~* &* +@all -blpop']);
    }

    public function testAWaiterGetsTheLockSoonAfterItsReleaseAndItsExpiry(): void
    {
        $waiter = self::waiter(args: ['dsn' => self::alice()])->ready();
        $seconds = [];
        for ($round = 0; $round < 6; $round++) {
            $lock = $this->heldLock('order:1', $round % 2 === 0 ? 30.0 : 0.3);
            $waiter->wait();
            self::awaitPolling();
            $free = Outcome::now() + ($round % 2 === 0 ? 0.0 : self::keys()['lock:order:1'] / 1e3);
            $round % 2 === 0 ? $lock->release() : $lock->detach();
            $outcome = $waiter->outcome();
            self::assertTrue($outcome->answer);
            $seconds[] = $outcome->at - $free - $outcome->delay;
            $waiter->release();
        }
        self::figure('without BLPOP: hand-off %.0f ms at most', 1e3 * max($seconds));
        self::assertGreaterThan(-0.05, min($seconds));
        self::assertLessThan(0.25, max($seconds));
    }

    public function testAWaitInVainEndsByItsDeadlineAndAsksEverMoreSeldom(): void
    {
        $owner = $this->heldLock('order:1');
        $lock = new DistributedLock('order:1', 30.0, connection: new Connection(self::alice(), 5.0, 5.0));
        self::assertFalse($lock->acquire(0.01));
        $monitor = Monitor::start(self::$server);
        foreach ([[0.05, 12], [0.3, 18], [1.2, 40]] as [$wait, $most]) {
            [[$acquired, $all], $ours] = Proc::timed(static fn () => timed(static fn () => $lock->acquire($wait)));
            $commands = $monitor->commands();

            self::assertFalse($acquired);
            self::assertGreaterThanOrEqual($wait, $all);
            self::assertLessThan($wait + 0.05, $ours, "wait $wait");
            self::figure('without BLPOP: %d commands in %.2f s', count($commands), $wait);
            self::assertLessThanOrEqual($most, count($commands), "wait $wait");
            $blocking = array_filter($commands, static fn (MonitorLine $line) => !str_starts_with($line->name(), 'EVAL'));
            self::assertSame([], $blocking, 'it has learnt that it must not');
        }
        $monitor->close();
        self::assertTrue($owner->isHeld());
    }

    public function testPingSaysOncePerRefusalThatWaitingAsks(): void
    {
        $owner = $this->heldLock('order:1');
        $connection = new Connection(self::alice(['db' => '1']), 5.0, 5.0);
        $node = array_key_first($connection->ping());
        self::assertSame([$node], array_keys($connection->ping()), 'nobody has waited yet');
        $other = $this->lock('order:2');
        self::$server->connect(1)->command('SET', 'lock:order:1', 'foreign', 'PX', 60_000);
        self::assertFalse((new DistributedLock('order:1', 30.0, connection: $connection))->acquire(0.02));

        $said = $connection->ping();
        self::assertSame([$node, "$node (waiting)"], array_keys($said));
        self::assertIsFloat($said[$node]);
        self::assertMatchesRegularExpression('/polls.*BLPOP.*NOPERM|polls.*BLPOP.*permissions/s', $said["$node (waiting)"]);
        self::assertSame([$node], array_keys($connection->ping()), 'said once');
        self::assertFalse((new DistributedLock('order:1', 30.0, connection: $connection))->acquire(0.02));
        self::assertSame([$node], array_keys($connection->ping()), 'said once');
        self::assertTrue($owner->isHeld() && !$other->isHeld());
    }

    public function testWhereBlpopHasAnotherNameWaitingAsksToo(): void
    {
        $server = RedisServer::start(settings: ['rename-command' => 'BLPOP ""']);
        $connection = new Connection($server->dsn(), 5.0, 5.0);
        $owner = new DistributedLock('order:1', 30.0, connection: $connection);
        self::assertTrue($owner->acquire());
        self::assertFalse((new DistributedLock('order:1', 30.0, connection: $connection))->acquire(0.05));
        self::assertCount(2, $connection->ping());
        $waiter = self::waiter(args: ['dsn' => $server->dsn()])->ready()->wait();
        eventually(static fn () => str_contains($server->command('INFO', 'commandstats'), 'cmdstat_evalsha'), 'it asks');
        $owner->release();
        self::assertTrue($waiter->outcome()->answer);
        $waiter->release();
        $waiter->end();
        $server->stop();
    }

    /** As some proxies do with a command that they do not know. */
    public function testAServerThatHangsUpOnBlpopIsAskedEverMoreSeldomToo(): void
    {
        $socket = Janitor::path('.sock');
        $proxy = Worker::start(self::HANGS_UP, ['socket' => $socket, 'upstream' => 'unix://' . self::$server->socket()]);
        $proxy->hear();
        $owner = $this->heldLock('order:1');
        $waiter = self::waiter(args: ['dsn' => "unix://$socket"])->ready();
        $monitor = Monitor::start(self::$server);
        $outcome = $waiter->wait(1.5)->outcome();
        $asked = array_filter($monitor->commands(), static fn (MonitorLine $line) => str_starts_with($line->name(), 'EVAL'));
        $monitor->close();
        self::assertFalse($outcome->answer);
        self::assertLessThan(1.55 + $outcome->delay, $outcome->seconds);
        self::figure('hung up on BLPOP: %d attempts in 1.5 s', count($asked));
        self::assertLessThan(60, count($asked));
        $waiter->wait();
        self::awaitPolling();
        self::assertTrue($owner->release());
        $released = Outcome::now();
        $outcome = $waiter->outcome();
        self::assertTrue($outcome->answer);
        self::assertLessThan(0.25, $outcome->at - $released - $outcome->delay);
        self::assertTrue($waiter->release());
        $waiter->end();
        $proxy->kill();
    }

    public function testManyWaitersWhoMustAskGetTheLockAllTheSameAndFromThoseWhoBlock(): void
    {
        $waiters = [];
        foreach ([self::alice(), self::$server->dsn(), self::alice(), self::$server->dsn()] as $dsn) {
            $waiters[] = self::waiter(args: ['dsn' => $dsn])->ready()->wait();
        }
        // Who comes first is no matter where somebody has to ask.
        $fences = [];
        while ($waiters !== []) {
            $lucky = eventually(static fn () => array_filter($waiters, static fn (Waiter $waiter) => $waiter->process->hasSaid()), 'the next has it');
            self::assertCount(1, $lucky);
            $waiter = reset($lucky);
            $outcome = $waiter->outcome();
            self::assertTrue($outcome->answer && $outcome->isHeld);
            $fences[] = $outcome->fence;
            self::assertTrue($waiter->release());
            unset($waiters[key($lucky)]);
        }
        self::assertCount(4, array_unique($fences));
        self::assertNothingHeldOrQueued();
    }

    public function testAHandlerThatThrowsEndsThePauseAtOnce(): void
    {
        $owner = $this->heldLock('order:1');
        $waiter = self::waiter(prepare: self::THROWS, args: ['dsn' => self::alice()])->ready();
        $late = [];
        for ($round = 0; $round < 10; $round++) {
            $waiter->wait();
            self::awaitPolling();
            $sent = Outcome::now();
            $waiter->process->signal(SIGUSR1);
            $outcome = $waiter->outcome();
            self::assertSame('DomainException: stop', $outcome->answer);
            $late[] = $outcome->at - $sent;
        }
        self::assertLessThan(0.05, self::percentile($late, 0.8));
        self::assertTrue($owner->release());
        self::assertNothingHeldOrQueued();
    }

    private static function alice(array $parameters = []): string
    {
        return self::$server->dsn($parameters + ['user' => 'alice', 'pass' => 'secret']);
    }

    /** A waiter has asked often enough that it must be asking in pauses. */
    private static function awaitPolling(): void
    {
        $asked = static fn (): int => preg_match('/^cmdstat_evalsha:calls=(\d+)/m', self::$server->command('INFO', 'commandstats'), $found)
            ? (int) $found[1] : 0;
        $before = $asked();
        eventually(static fn () => $asked() >= $before + 5, 'it asks again and again');
    }
}
