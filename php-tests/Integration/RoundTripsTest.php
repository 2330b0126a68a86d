<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use DistributedLock;
use RedisLease\Connection;
use RedisLease\Tests\Support\Monitor;
use RedisLease\Tests\Support\MonitorLine;
use RedisLease\Tests\Support\ServerTestCase;

/** What is sent to Redis, seen by MONITOR: commands cost round trips, and silence costs nothing. */
final class RoundTripsTest extends ServerTestCase
{
    private Monitor $monitor;

    protected function setUp(): void
    {
        parent::setUp();
        $warm = $this->heldLock('warm');
        $warm->renew();
        $warm->release();
        $this->monitor = Monitor::start(self::$server);
    }

    protected function tearDown(): void
    {
        $this->monitor->close();
    }

    public function testAnAcquireAndAReleaseAreOneCommandEach(): void
    {
        $lock = $this->lock('order:1');
        for ($round = 0; $round < 5; $round++) {
            self::assertTrue($lock->acquire());
            self::assertSame(['EVALSHA'], $this->names(), "acquire $round");

            self::assertTrue($lock->release());
            self::assertSame(['EVALSHA'], $this->names(), "release $round");
        }
    }

    public function testARefusalARenewalAndARepeatedAcquireAreOneCommandEach(): void
    {
        $lock = $this->heldLock('order:1');
        $other = $this->lock('order:1');
        $this->names();

        self::assertTrue($lock->acquire());
        self::assertSame(['EVALSHA'], $this->names(), 'acquire again');
        self::assertTrue($lock->renew());
        self::assertSame(['EVALSHA'], $this->names(), 'renew');
        self::assertFalse($other->acquire());
        self::assertSame(['EVALSHA'], $this->names(), 'refused');
        self::assertIsString($other->owner());
        self::assertCount(1, $this->names(), 'owner');
        self::assertTrue($other->forceRelease());
        self::assertLessThanOrEqual(2, count($this->names()), 'force, which nobody has warmed up');
    }

    public function testNothingIsSentWhenObjectsAreMadeAskedAndThrownAway(): void
    {
        $lock = $this->lock('order:1');
        $restored = DistributedLock::restore('order:1', 'token', connection: $this->connection());
        foreach ([$lock, $restored] as $idle) {
            $idle->isHeld();
            $idle->remaining();
            $idle->fence();
            $idle->token();
            $idle->resource();
            var_export($idle, true);
        }
        unset($lock, $restored, $idle);

        self::assertSame([], $this->names());
    }

    public function testLoadingTheExtensionAndMakingObjectsSendsNothingAndOpensNothing(): void
    {
        $connections = $this->connectionsReceived();
        $worker = self::worker(<<<'PHP'
            $lock = new DistributedLock('order:1', 5.0, connection: $connection);
            $default = new DistributedLock('order:1');
            $again = Connection::default();
            say('made');
            hear();
            PHP, [], ['redis_lease.dsn' => self::$server->dsn()]);
        $worker->hear();
        $worker->say();
        $worker->finish();

        self::assertSame([], $this->names());
        self::assertSame($connections, $this->connectionsReceived());
    }

    public function testAReleasedLockIsNotReleasedAgainWhenItGoes(): void
    {
        $lock = $this->heldLock('order:1');
        $lock->release();
        $this->names();

        unset($lock);

        self::assertSame([], $this->names());
    }

    public function testADroppedLockIsReleasedWithOneCommand(): void
    {
        $lock = $this->heldLock('order:1');
        $this->names();

        unset($lock);

        self::assertSame(['EVALSHA'], $this->names());
    }

    public function testARefusedLockIsNotReleasedWhenItGoes(): void
    {
        $owner = $this->heldLock('order:1');
        $refused = $this->lock('order:1');
        $refused->acquire();
        $this->names();

        unset($refused);

        self::assertSame([], $this->names());
        self::assertTrue($owner->isHeld());
    }

    public function testAColdScriptCostsOneMoreCommandOnce(): void
    {
        self::$server->command('SCRIPT', 'FLUSH');
        $this->names();
        $lock = $this->lock('order:1');

        self::assertTrue($lock->acquire());
        self::assertSame(['EVALSHA', 'EVAL'], $this->names());
        self::assertTrue($lock->release());
        self::assertSame(['EVALSHA', 'EVAL'], $this->names());
        self::assertTrue($lock->acquire());
        self::assertTrue($lock->release());
        self::assertSame(['EVALSHA', 'EVALSHA'], $this->names());
    }

    public function testNoCommandIsOneThatManagedServicesRefuse(): void
    {
        self::$server->command('SCRIPT', 'FLUSH');
        $this->monitor->all();
        $lock = $this->lock('order:1');
        $lock->acquire();
        $lock->renew();
        $this->lock('order:1')->acquire(0.01);
        $lock->owner();
        $lock->release();
        $lock->forceRelease();

        $seen = array_map(static fn (MonitorLine $line) => $line->name(), $this->monitor->all());
        self::assertNotSame([], $seen);
        $refused = ['SCRIPT', 'TIME', 'CONFIG', 'KEYS', 'EVAL_RO', 'DEBUG', 'WATCH'];
        self::assertSame([], array_values(array_intersect($seen, $refused)));
    }

    public function testANewConnectionIsMadeInOneGo(): void
    {
        $connections = $this->connectionsReceived();
        $fresh = new Connection(self::$server->dsn(['db' => 5]));
        $lock = new DistributedLock('order:1', 5.0, connection: $fresh);

        self::assertTrue($lock->acquire());

        $names = $this->names();
        self::assertSame($connections + 1, $this->connectionsReceived());
        self::assertContains('EVALSHA', $names);
        self::assertLessThanOrEqual(4, count($names), implode(' ', $names));
        $fresh->close();
    }

    /** @return list<string> the names of the commands that clients sent since the last call */
    private function names(): array
    {
        return array_map(static fn (MonitorLine $line) => $line->name(), $this->monitor->commands());
    }

    private function connectionsReceived(): int
    {
        preg_match('/total_connections_received:(\d+)/', self::$server->command('INFO', 'stats'), $found);
        $this->monitor->all();

        return (int) $found[1];
    }
}
