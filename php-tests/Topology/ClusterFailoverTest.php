<?php

declare(strict_types=1);

namespace RedisLease\Tests\Topology;

use DistributedLock;
use RedisLease\Connection;
use RedisLease\Tests\Support\Callers;
use RedisLease\Tests\Support\Outcome;
use RedisLease\Tests\Support\RedisCluster;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\Waiter;
use RedisLease\Tests\Support\Worker;

use function RedisLease\Tests\Support\eventually;

/** A primary of a cluster goes, and its replica takes its place: what callers, waiters and idle processes see of it. */
final class ClusterFailoverTest extends FailoverTestCase
{
    private ?RedisCluster $cluster = null;

    protected function dsn(): string
    {
        return $this->cluster->dsn();
    }

    protected function tearDown(): void
    {
        $this->cluster?->stop();
    }

    public function testAKilledPrimaryIsReplacedAndEveryAnswerIsTrue(): void
    {
        $this->cluster = RedisCluster::start(hasReplicas: true);
        $this->throughAFailover('killed', static fn (RedisServer $primary) => $primary->kill());
    }

    public function testAHungPrimaryIsReplacedAndComesBackAsAReplica(): void
    {
        $this->cluster = RedisCluster::start(hasReplicas: true);
        $this->throughAFailover('hung', static fn (RedisServer $primary) => $primary->pause(), function (RedisServer $old): void {
            $old->resume();
            $isReplica = static fn () => str_contains($old->command('INFO', 'replication'), 'role:slave');
            eventually($isReplica, 'the old primary is a replica', 30.0);
        });
    }

    public function testTheFenceRisesEvenWhenTheGrantWasLostWithThePrimary(): void
    {
        $this->cluster = RedisCluster::start(hasReplicas: true, settings: self::AS_REPLICA, users: self::REPLICATION);
        $lock = $this->lock('order:1');
        self::assertTrue($lock->acquire() && $lock->release());
        [$primary, $replica] = $this->serversOf('order:1');
        $primary->command('ACL', 'SETUSER', 'replica', 'off');
        $primary->command('CLIENT', 'KILL', 'TYPE', 'replica');
        self::assertTrue($lock->acquire(), 'the grant is on the primary alone');
        $fence = $lock->fence();
        $primary->kill();
        $other = Worker::start(<<<'PHP'
            $lock = new DistributedLock('order:1', 30.0, connection: new Connection($args['dsn'], 0.3, 0.3));
            say([$lock->acquire(20.0), $lock->fence()]);
            hear();
            PHP, ['dsn' => $this->cluster->dsn()]);
        [$taken, $next] = $other->hear(30.0);
        self::assertTrue($taken);
        self::assertGreaterThan($fence, $next);
        self::assertSame('master', $replica->command('ROLE')[0]);
        self::assertFalse($lock->renew(), 'the lease was lost, and that is said');
        $other->say();
        $other->finish();
    }

    public function testAReplicaIsNeverUsed(): void
    {
        $this->cluster = RedisCluster::start(hasReplicas: true);
        // Only replicas are known at first.
        $hosts = array_map(static fn (RedisServer $one) => '127.0.0.1:' . $one->port(), $this->cluster->replicas);
        $dsn = 'redis+cluster://' . implode(',', $hosts);
        foreach (range(1, 20) as $number) {
            $lock = new DistributedLock("order:$number", 30.0, connection: new Connection($dsn, 2.0, 2.0));
            self::assertTrue($lock->acquire() && $lock->renew() && $lock->owner() === $lock->token() && $lock->release());
        }
        foreach ($this->cluster->replicas as $replica) {
            self::assertDoesNotMatchRegularExpression('/cmdstat_(eval|get|blpop)/', $replica->command('INFO', 'commandstats'));
        }
    }

    private function throughAFailover(string $how, callable $strike, ?callable $afterwards = null): void
    {
        $dsn = $this->cluster->dsn();
        [$primary, $replica] = $this->serversOf('kept');
        $witness = $this->cluster->primaries[($this->placeOf('kept') + 1) % 3];
        $keeper = $this->lock('kept');
        self::assertTrue($keeper->acquire());
        $copy = $replica->connect();
        $copy->command('READONLY');
        eventually(static fn () => $copy->command('GET', 'lock:kept') === $keeper->token(), 'it is replicated');
        // Two locks are with the server that goes, and one is elsewhere: the whole cluster is down for a while.
        $names = ['{kept}a', '{kept}b', 'kept', $this->nameElsewhere()];
        $idle = Worker::start(<<<'PHP'
            $lock = new DistributedLock('{kept}idle', 30.0, connection: new Connection($args['dsn'], 0.3, 0.3));
            say($lock->acquire() && $lock->release());
            hear();
            say([$lock->acquire(5.0), $lock->renew(), $lock->release()]);
            PHP, compact('dsn'));
        self::assertTrue($idle->hear());
        $waiter = Waiter::start($dsn, 'kept', args: ['connectTimeout' => self::TIMEOUT, 'commandTimeout' => self::TIMEOUT]);
        $waiter->ready()->wait(30.0);
        $callers = Callers::start(2, $dsn, $names, timeout: self::TIMEOUT);
        $patient = Callers::start(2, $dsn, array_values(array_diff($names, ['kept'])), wait: 20.0, timeout: self::TIMEOUT);
        eventually(static fn () => count(Callers::grants($patient->calls())) > 30, 'they work');

        $struck = Outcome::now();
        $strike($primary);
        eventually(static fn () => $replica->command('ROLE')[0] === 'master', 'the replica is a primary', 20.0);
        $promoted = Outcome::now();
        $idle->say();
        $isBack = static fn () => str_contains($witness->command('CLUSTER', 'INFO'), 'cluster_state:ok');
        eventually($isBack, 'the cluster is whole', 20.0);
        $whole = Outcome::now();
        $grant = static fn () => Callers::grants($patient->calls(), $promoted)[0] ?? null;
        $first = eventually($grant, 'a lock is granted after the promotion', 20.0);
        self::assertSame([true, true, true], $idle->hear(), 'an idle process finds the new primary');
        $idle->finish();
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
        $served = count(Callers::grants($patient->calls()));
        eventually(static fn () => count(Callers::grants($patient->calls())) > $served + 50, 'they work again');
        $waited = $patient->stop();
        $calls = [...$callers->stop(), ...$waited];
        usort($calls, static fn (array $one, array $other) => $one['ended'] <=> $other['ended']);

        $faults = Callers::faults($calls);
        $after = $first['ended'] - $promoted;
        fwrite(STDERR, sprintf(
            "\nprimary %s: promotion after %.2f s, the cluster whole %.0f ms after it, served %.0f ms after it; %d calls, %d threw\n",
            $how, $promoted - $struck, 1000 * ($whole - $promoted), 1000 * $after, count($calls), array_sum($faults),
        ));
        $faultsThatFit = '/ (ConnectionException|OutcomeUnknownException|ServerException: CLUSTERDOWN)/';
        $calm = max($promoted + self::SERVED_WITHIN, $whole) + self::NOISE;
        self::assertTruthful($calls, $struck, $promoted, $first['ended'], $calm, $released, $faultsThatFit);
        $waits = array_filter($waited, static fn (array $call) => $call['op'] === 'acquire' && $call['answer'] !== true);
        self::assertSame([], $waits, 'whoever waits is told nothing of it all');
    }

    private function placeOf(string $resource): int
    {
        return array_search($this->cluster->primaryOf("lock:$resource"), $this->cluster->primaries, true);
    }

    /** @return array{RedisServer, RedisServer} the primary of the beginning and its replica */
    private function serversOf(string $resource): array
    {
        $place = $this->placeOf($resource);

        return [$this->cluster->primaries[$place], $this->cluster->replicas[$place]];
    }

    private function nameElsewhere(): string
    {
        for ($number = 1; $this->placeOf("other:$number") === $this->placeOf('kept'); $number++);

        return "other:$number";
    }
}
