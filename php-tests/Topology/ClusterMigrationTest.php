<?php

declare(strict_types=1);

namespace RedisLease\Tests\Topology;

use DistributedLock;
use PHPUnit\Framework\TestCase;
use RedisLease\Connection;
use RedisLease\ServerException;
use RedisLease\Tests\Support\Callers;
use RedisLease\Tests\Support\KeySlot;
use RedisLease\Tests\Support\Outcome;
use RedisLease\Tests\Support\RedisCluster;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\Waiter;
use RedisLease\Tests\Support\Worker;

use function RedisLease\Tests\Support\eventually;

/** Slots move from server to server under the locks in them: no caller needs to know. */
final class ClusterMigrationTest extends TestCase
{
    private const TIMEOUT = 1.0;

    private static RedisCluster $cluster;

    public static function setUpBeforeClass(): void
    {
        self::$cluster = RedisCluster::start();
    }

    public static function tearDownAfterClass(): void
    {
        self::$cluster->stop();
    }

    public function testAHeldLockFollowsItsSlot(): void
    {
        $lock = self::lock('order:1');
        self::assertTrue($lock->acquire());
        $fence = $lock->fence();
        [$old, $new] = $this->move('order:1');
        self::assertTrue($lock->renew(), 'MOVED is followed');
        self::assertSame($lock->token(), $new->command('GET', 'lock:order:1'));
        self::assertTrue($lock->release());
        self::assertNull($new->command('GET', 'lock:order:1'));
        $calls = self::calls($old);
        self::assertTrue($lock->acquire());
        self::assertGreaterThan($fence, $lock->fence());
        self::assertTrue($lock->release());
        self::assertSame($calls, self::calls($old), 'the old server is asked no more');
    }

    public function testWhatIsAskedForInAMigrationIsFoundWhereverItIs(): void
    {
        $held = self::lock('{asked}held');
        self::assertTrue($held->acquire());
        $slot = KeySlot::of('lock:{asked}');
        [$from, $to] = self::$cluster->sides($slot);
        self::$cluster->open($slot, $from, $to);
        // Its keys are still here; then they are there and the slot is not.
        self::assertTrue($held->renew());
        self::$cluster->moveKeys($slot, $from, $to);
        self::assertTrue($held->renew(), 'ASK is followed');
        self::assertSame($held->token(), $held->owner());
        self::assertSame(0, $from->command('CLUSTER', 'COUNTKEYSINSLOT', $slot));

        // Of a new lock some keys cannot be there: the server says TRYAGAIN until the slot is.
        try {
            $isTaken = self::lock('{asked}new')->acquire();
            self::assertTrue($isTaken, 'a server that needs no second try');
        } catch (ServerException $refused) {
            self::assertSame('TRYAGAIN', $refused->redisCode);
        }
        $waiter = Waiter::start(self::$cluster->dsn(), '{asked}new');
        $waiter->ready()->wait(20.0);
        eventually(static fn () => self::rejected($to) > 2, 'it is tried again');
        self::$cluster->settle($slot, $to);
        self::assertTrue($waiter->outcome(5.0)->answer);
        $waiter->end();
        self::assertFalse(self::lock('{asked}held')->acquire());
        self::assertTrue($held->release());
    }

    public function testSomeKeysOfOneLockHereAndSomeThereAreWaitedFor(): void
    {
        $lock = self::lock('{split}lock');
        self::assertTrue($lock->acquire());
        $slot = KeySlot::of('lock:{split}');
        [$from, $to] = self::$cluster->sides($slot);
        self::$cluster->open($slot, $from, $to);
        $from->command('MIGRATE', '127.0.0.1', $to->port(), 'lock:{split}lock', 0, 5_000);
        self::assertGreaterThan(0, $from->command('CLUSTER', 'COUNTKEYSINSLOT', $slot), 'its fence is still here');
        $dsn = self::$cluster->dsn();
        $other = Worker::start(<<<'PHP'
            $lock = DistributedLock::restore('{split}lock', $args['token'], 30.0, new Connection($args['dsn'], 2.0, 2.0));
            say('ready');
            say($lock->renew() && $lock->release());
            PHP, compact('dsn') + ['token' => $lock->token()]);
        $other->hear();
        eventually(static fn () => self::rejected($from) > 2, 'it is tried again');
        self::assertFalse($other->hasSaid());
        self::$cluster->moveKeys($slot, $from, $to);
        self::$cluster->settle($slot, $to);
        self::assertTrue($other->hear());
        $other->finish();
    }

    public function testServersThatDisagreeAreWaitedFor(): void
    {
        $lock = self::lock('disputed');
        self::assertTrue($lock->acquire());
        $slot = KeySlot::of('lock:disputed');
        [$one, $two] = self::$cluster->sides($slot);
        // Each says that the other has it. Who owns keys cannot.
        $one->flush();
        $one->command('CLUSTER', 'SETSLOT', $slot, 'NODE', $two->command('CLUSTER', 'MYID'));
        $dsn = self::$cluster->dsn();
        $owed = Worker::start(<<<'PHP'
            $lock = DistributedLock::restore('disputed', $args['token'], 30.0, new Connection($args['dsn'], 5.0, 5.0));
            say('ready');
            say($lock->renew());
            PHP, compact('dsn') + ['token' => $lock->token()]);
        $owed->hear();
        $waiter = Waiter::start($dsn, 'disputed');
        $waiter->ready()->wait(20.0);
        eventually(static fn () => self::rejected($one) > 50, 'they are sent to and fro');
        self::assertFalse($owed->hasSaid() || $waiter->process->hasSaid());
        $two->command('CLUSTER', 'SETSLOT', $slot, 'IMPORTING', $one->command('CLUSTER', 'MYID'));
        self::$cluster->settle($slot, $two);
        self::assertFalse($owed->hear(), 'a true answer: it is gone');
        $owed->finish();
        self::assertTrue($waiter->outcome(5.0)->answer);
        $waiter->end();
    }

    public function testAWaiterWhoseSlotMovesGetsTheLock(): void
    {
        $lock = self::lock('waited');
        self::assertTrue($lock->acquire());
        $waiter = Waiter::start(self::$cluster->dsn(), 'waited');
        $waiter->ready()->wait(20.0);
        $slot = KeySlot::of('lock:waited');
        [$from] = self::$cluster->sides($slot);
        eventually(static fn () => str_contains($from->command('CLIENT', 'LIST'), 'cmd=blpop'), 'it waits');
        [, $new] = $this->move('waited');
        eventually(static fn () => str_contains($new->command('CLIENT', 'LIST'), 'cmd=blpop'), 'it waits at the new server');
        $released = Outcome::now();
        self::assertTrue($lock->release());
        $outcome = $waiter->outcome(10.0);
        self::assertTrue($outcome->answer);
        self::assertLessThan(0.4, $outcome->at - $released - $outcome->delay, 'it was woken there');
        $waiter->end();
    }

    public function testAThousandContendedSectionsWhileSlotsMove(): void
    {
        // Four names in two slots: three of them have one hash tag.
        $names = ['{to and fro}a', '{to and fro}b', '{to and fro}c', 'single'];
        $slots = [KeySlot::of('lock:{to and fro}'), KeySlot::of('lock:single')];
        $callers = Callers::start(
            5, self::$cluster->dsn(), $names, 10.0, 20.0, 1_000, renews: true, sections: 200, timeout: self::TIMEOUT,
        );
        for ($moves = 0; $callers->areBusy(); $moves++) {
            foreach ($slots as $slot) {
                [$from, $to] = self::$cluster->sides($slot);
                self::$cluster->open($slot, $from, $to);
                self::$cluster->moveKeys($slot, $from, $to);
                self::$cluster->settle($slot, $to);
            }
            usleep(10_000); // Else nearly every section would meet nothing but TRYAGAIN.
        }
        $calls = $callers->stop();

        fwrite(STDERR, sprintf("\nslots moved %d times under %d calls\n", 2 * $moves, count($calls)));
        self::assertSame([], Callers::faults($calls), 'no error reaches the caller');
        self::assertCount(1_000, Callers::grants($calls));
        self::assertSame([], array_filter($calls, static fn (array $call) => $call['answer'] !== true));
        self::assertSame([], Callers::doubleOwners($calls));
        self::assertSame([], Callers::fencesThatDoNotRise($calls));
        self::assertGreaterThan(2, $moves);
    }

    public function testADeadSeedDoesNotMatterWhileAnotherLives(): void
    {
        $port = self::$cluster->primaries[1]->port();
        $dead = RedisServer::freePort();
        foreach (["127.0.0.1:$dead,127.0.0.1:$port", "127.0.0.1:$port,127.0.0.1:$dead"] as $seeds) {
            $connection = new Connection("redis+cluster://$seeds", self::TIMEOUT, self::TIMEOUT);
            foreach (['one', 'two', 'three', 'four', 'five'] as $name) {
                $lock = new DistributedLock($name, 30.0, connection: $connection);
                self::assertTrue($lock->acquire() && $lock->release());
            }
            $connection->close();
        }
    }

    /** laravel#59533: a lock's keys were in different slots, and a cluster refused every call. */
    public function testLaravel59533AllKeysOfALockAreInOneSlot(): void
    {
        foreach (['plain', '{tag}rest', 'a{}b', '{', '}', '{}', '{}{x}', 'a{b', 'a}b{c}', "\0{\xff}", '{{x}}', 'user:{7}:{8}'] as $name) {
            $lock = self::lock($name);
            self::assertTrue($lock->acquire() && $lock->renew(), $name);
            $waiter = Waiter::start(self::$cluster->dsn(), bin2hex($name), prepare: <<<'PHP'
                $lock = new DistributedLock(hex2bin($args['resource']), 30.0, connection: $connection);
                PHP);
            $waiter->ready()->wait(20.0);
            $blocks = static function (): bool {
                foreach (self::$cluster->primaries as $server) {
                    if (str_contains($server->command('CLIENT', 'LIST'), 'cmd=blpop')) {
                        return true;
                    }
                }

                return false;
            };
            eventually($blocks, 'it waits');
            self::assertTrue($lock->release(), $name);
            self::assertTrue($waiter->outcome()->answer, $name);
            $waiter->end();
            foreach (self::$cluster->primaries as $server) {
                $keys = $server->command('KEYS', '*');
                self::assertLessThanOrEqual(1, count(array_unique(array_map(KeySlot::of(...), $keys))), $name);
                $server->flush();
            }
        }
    }

    protected function setUp(): void
    {
        foreach (self::$cluster->primaries as $server) {
            $server->flush();
            $server->command('CONFIG', 'RESETSTAT');
        }
    }

    /** @return array{RedisServer, RedisServer} the old owner of the resource's slot and the new one */
    private function move(string $resource): array
    {
        $slot = KeySlot::of("lock:$resource");
        [$from, $to] = self::$cluster->sides($slot);
        self::$cluster->open($slot, $from, $to);
        self::$cluster->moveKeys($slot, $from, $to);
        self::$cluster->settle($slot, $to);

        return [$from, $to];
    }

    private static function lock(string $resource): DistributedLock
    {
        $connection = new Connection(self::$cluster->dsn(), self::TIMEOUT, self::TIMEOUT);

        return new DistributedLock($resource, 30.0, connection: $connection);
    }

    /** How many scripts the server was asked to run, whatever it answered. */
    private static function calls(RedisServer $server): int
    {
        return self::stat($server, 'calls') + self::rejected($server);
    }

    private static function rejected(RedisServer $server): int
    {
        return self::stat($server, 'rejected_calls');
    }

    private static function stat(RedisServer $server, string $what): int
    {
        preg_match_all("/cmdstat_eval\w*:.*\b$what=(\d+)/", $server->command('INFO', 'commandstats'), $found);

        return array_sum(array_map(intval(...), $found[1]));
    }
}
