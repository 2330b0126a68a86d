<?php

declare(strict_types=1);

namespace RedisLease\Tests\Topology;

use RedisLease\Tests\Support\Callers;
use RedisLease\Tests\Support\Outcome;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\Sentinels;
use RedisLease\Tests\Support\Waiter;
use RedisLease\Tests\Support\Worker;
use RuntimeException;

use function RedisLease\Tests\Support\eventually;

/** Another server becomes the primary: what callers, waiters and idle processes see of it. */
final class SentinelFailoverTest extends FailoverTestCase
{
    private ?Sentinels $group = null;

    protected function dsn(): string
    {
        return $this->group->dsn();
    }

    protected function tearDown(): void
    {
        $this->group?->stop();
    }

    public function testAKilledPrimaryIsReplacedAndEveryAnswerIsTrue(): void
    {
        $this->group = Sentinels::start();
        $this->throughAFailover('killed', static fn (RedisServer $primary) => $primary->kill());
    }

    public function testAHungPrimaryIsReplacedAndComesBackAsAReplica(): void
    {
        $this->group = Sentinels::start();
        $this->throughAFailover('hung', static fn (RedisServer $primary) => $primary->pause(), function (RedisServer $old): void {
            $old->resume();
            eventually(static function () use ($old) {
                try {
                    return str_contains($old->connect()->command('INFO', 'replication'), 'role:slave');
                } catch (RuntimeException) {
                    return false; // Who is demoted ends all connections.
                }
            }, 'the old primary is a replica', 30.0);
        });
    }

    public function testAnOrderedFailoverLosesNothing(): void
    {
        $this->group = Sentinels::start();
        $order = fn () => $this->group->sentinels[0]->command('SENTINEL', 'FAILOVER', Sentinels::NAME);
        $this->throughAFailover('ordered', $order);
    }

    public function testTheFenceRisesEvenWhenTheGrantWasLostWithThePrimary(): void
    {
        $this->group = Sentinels::start(settings: self::AS_REPLICA, users: self::REPLICATION);
        $lock = $this->lock('order:1');
        self::assertTrue($lock->acquire() && $lock->release() && $lock->acquire());
        $primary = $this->group->primary();
        $primary->command('ACL', 'SETUSER', 'replica', 'off');
        $primary->command('CLIENT', 'KILL', 'TYPE', 'replica');
        self::assertTrue($lock->release() && $lock->acquire(), 'the last grant is on the primary alone');
        $primary->kill();
        eventually(fn () => $this->group->newest() !== $primary, 'a replica is the primary', 20.0);
        $other = Worker::start(<<<'PHP'
            $lock = new DistributedLock('lost', 30.0, connection: new Connection($args['dsn'], 0.3, 0.3));
            $same = new DistributedLock('order:1', 30.0, connection: new Connection($args['dsn'], 0.3, 0.3));
            say([$lock->acquire(10.0), $same->acquire(), $same->owner()]);
            PHP, ['dsn' => $this->group->dsn()]);
        [, $taken, $owner] = $other->hear(20.0);
        $other->finish();
        self::assertFalse($taken, 'the replica still has the grant before');
        self::assertNotSame($lock->token(), $owner);
        $fence = $lock->fence();
        self::assertFalse($lock->renew(), 'the lease was lost, and that is said');
        self::assertTrue($lock->forceRelease());
        self::assertTrue($lock->acquire());
        self::assertGreaterThan($fence, $lock->fence());
    }

    /** laravel#57685: after a failover the worker's connection went on to the replica, and failed until a restart. */
    public function testLaravel57685APrimaryThatWasDemotedIsLeftAtTheNextCall(): void
    {
        $this->group = Sentinels::start(sentinels: 1, replicas: 1);
        $waits = $this->lock('order:1');
        $renews = $this->lock('order:2');
        $releases = $this->lock('order:3');
        self::assertTrue($waits->acquire() && $waits->release() && $renews->acquire() && $releases->acquire());
        $this->demoteByHand();
        // The link is still open, and the server behind it refuses to write.
        self::assertTrue($renews->renew());
        $this->demoteByHand();
        self::assertTrue($releases->release());
        $this->demoteByHand();
        self::assertTrue($waits->acquire());
        $this->demoteByHand();
        self::assertTrue($renews->release());
    }

    private function throughAFailover(string $how, callable $strike, ?callable $afterwards = null): void
    {
        $primary = $this->group->primary();
        $dsn = $this->group->dsn();
        $keeper = $this->lock('kept');
        self::assertTrue($keeper->acquire());
        foreach ($this->group->replicas() as $replica) {
            eventually(static fn () => $replica->command('GET', 'lock:kept') === $keeper->token(), 'it is replicated');
        }
        $idle = Worker::start(<<<'PHP'
            $lock = new DistributedLock('idle', 30.0, connection: new Connection($args['dsn'], 0.3, 0.3));
            say($lock->acquire() && $lock->release());
            hear();
            say([$lock->acquire(), $lock->renew(), $lock->release()]);
            PHP, compact('dsn'));
        self::assertTrue($idle->hear());
        $waiter = Waiter::start($dsn, 'kept', args: ['connectTimeout' => self::TIMEOUT, 'commandTimeout' => self::TIMEOUT]);
        $waiter->ready()->wait(30.0);
        $callers = Callers::start(3, $dsn, ['a', 'b', 'kept'], timeout: self::TIMEOUT);
        eventually(static fn () => count(Callers::grants($callers->calls())) > 30, 'they work');

        $struck = Outcome::now();
        $strike($primary);
        eventually(fn () => $this->group->newest() !== $primary, 'a replica is the primary', 20.0);
        $promoted = Outcome::now();
        // At first one sentinel alone may know: this is asked of all of them.
        $idle->say();
        self::assertSame([true, true, true], $idle->hear(), 'an idle process finds the new primary at its next call');
        $idle->finish();
        $grant = static fn () => Callers::grants($callers->calls(), $promoted)[0] ?? null;
        $first = eventually($grant, 'a lock is granted after the promotion');
        self::assertTrue($keeper->renew(), 'what was replicated is still held');
        $released = Outcome::now();
        self::assertTrue($keeper->release());
        $outcome = $waiter->outcome(10.0);
        self::assertTrue($outcome->answer, (string) $outcome->answer);
        self::assertLessThan(1.5 + self::NOISE, $outcome->at - $released, 'the waiter was served');
        if ($afterwards !== null) {
            $afterwards($primary);
        }
        self::assertTrue($waiter->release());
        $waiter->end();
        $served = count(Callers::grants($callers->calls()));
        eventually(static fn () => count(Callers::grants($callers->calls())) > $served + 50, 'they work again');
        $calls = $callers->stop();

        $faults = Callers::faults($calls);
        $after = $first['ended'] - $promoted;
        fwrite(STDERR, sprintf(
            "\nprimary %s: promotion after %.2f s, served %.0f ms after it; %d calls, %d threw\n",
            $how, $promoted - $struck, 1000 * $after, count($calls), array_sum($faults),
        ));
        $faultsThatFit = '/ (ConnectionException|OutcomeUnknownException): /';
        $calm = $promoted + self::SERVED_WITHIN + self::NOISE;
        self::assertTruthful($calls, $struck, $promoted, $first['ended'], $calm, $released, $faultsThatFit);
    }

    /** As a failover does it, but without cutting anybody's connection. */
    private function demoteByHand(): void
    {
        $old = $this->group->primary();
        $new = $this->group->servers[$old === $this->group->servers[0] ? 1 : 0];
        $offset = static fn (RedisServer $server) => preg_match('/(master|slave)_repl_offset:(\d+)/', $server->command('INFO', 'replication'), $found) ? $found[2] : null;
        eventually(static fn () => $offset($old) === $offset($new), 'the replica has everything');
        [$sentinel] = $this->group->sentinels;
        $sentinel->command('SENTINEL', 'REMOVE', Sentinels::NAME);
        $new->command('REPLICAOF', 'NO', 'ONE');
        $sentinel->command('SENTINEL', 'MONITOR', Sentinels::NAME, '127.0.0.1', $new->port(), 1);
        $old->command('REPLICAOF', '127.0.0.1', $new->port());
        $isLinked = static fn () => str_contains($old->command('INFO', 'replication'), 'master_link_status:up');
        eventually($isLinked, 'the old primary follows the new one', 20.0);
    }
}
