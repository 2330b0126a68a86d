<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge;

use RedisLease\Bridge\HeldByRequest;
use RedisLease\Bridge\LeaseFactory;
use RedisLease\Connection;
use RedisLease\LeaseException;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\ServerTestCase;
use RedisLease\Tests\Support\Worker;
use stdClass;
use WeakReference;

use function RedisLease\Tests\Support\eventually;

/** A worker that serves one request after the other in one process, and what its requests leave behind. */
final class HeldByRequestTest extends ServerTestCase
{
    private HeldByRequest $held;
    private LeaseFactory $leases;

    protected function setUp(): void
    {
        parent::setUp();
        $this->held = new HeldByRequest();
        $this->leases = new LeaseFactory($this->connection(), 30.0, $this->held);
    }

    public function testWhatARequestLeavesBehindIsGivenBackAtItsEnd(): void
    {
        $this->held->begin();
        $kept = $this->leases->create('order:1');
        self::assertTrue($kept->acquire());
        $handedOver = $this->leases->create('order:2');
        self::assertTrue($handedOver->acquire());
        $token = $handedOver->detach();
        $this->held->end();

        self::assertFalse($kept->isHeld());
        self::assertNull(self::stored('order:1'));
        self::assertSame($token, self::stored('order:2'), 'it goes on elsewhere');
    }

    public function testALockThatAServiceKeepsIsGivenBackAtTheEndOfEachRequestThatTookIt(): void
    {
        $this->held->begin();
        $kept = $this->leases->create('order:1');
        $this->held->end();
        foreach ([1, 2] as $request) {
            $this->held->begin();
            self::assertTrue($kept->acquire());
            $this->held->end();
            self::assertNull(self::stored('order:1'), "request $request");
        }
    }

    public function testARestoredLeaseIsGivenBackToo(): void
    {
        $token = $this->heldLock('order:1')->detach();
        $this->held->begin();
        $job = $this->leases->restore('order:1', $token);
        self::assertTrue($job->renew());
        $this->held->end();

        self::assertNull(self::stored('order:1'));
    }

    public function testWhatTheWorkerHoldsItselfStaysUntilTheWorkerStops(): void
    {
        $own = $this->leases->create('worker');
        self::assertTrue($own->acquire());
        foreach ([1, 2] as $request) {
            $this->held->begin();
            self::assertTrue($own->renew());
            $this->held->end();
            self::assertTrue($own->isHeld(), "request $request");
        }

        $this->held->stop();
        self::assertFalse($own->isHeld());
        self::assertNull(self::stored('worker'));
    }

    public function testTheEndOfARequestInsideOfAnotherEndsOnlyWhatBeganInIt(): void
    {
        [$outer, $inner, $own] = array_map($this->leases->create(...), ['outer', 'inner', 'worker']);
        self::assertTrue($own->acquire());
        $this->held->begin();
        self::assertTrue($outer->acquire());
        foreach ([null, new stdClass()] as $request) {
            $this->held->begin($request);
            self::assertTrue($inner->acquire());
            $this->held->end($request);
            self::assertNull(self::stored('inner'));
            self::assertTrue($outer->renew(), 'it goes on');
        }

        $this->held->end();
        self::assertNull(self::stored('outer'));
        self::assertTrue($own->renew());
    }

    public function testAnEndThatNobodyToldOfIsThatOfTheNextRequestOrOfTheOneAround(): void
    {
        $lease = $this->leases->create('order:1');
        // Each has an object of its own, or the worker stands for all of them.
        foreach ([false, true] as $isSame) {
            $lost = new stdClass();
            $this->held->begin($lost);
            self::assertTrue($lease->acquire());
            $next = $isSame ? $lost : new stdClass();
            unset($lost);
            $this->held->begin($next);
            $this->held->end($next);
            self::assertNull(self::stored('order:1'));
        }

        [$worker, $job] = [new stdClass(), new stdClass()];
        $this->held->begin($worker);
        $this->held->begin($job);
        self::assertTrue($lease->acquire());
        $this->held->end($worker);
        self::assertNull(self::stored('order:1'));
    }

    public function testAnEndThatIsToldTwiceEndsNothingElse(): void
    {
        $own = $this->leases->create('worker');
        self::assertTrue($own->acquire());
        [$outer, $job] = [new stdClass(), new stdClass()];
        $this->held->begin($outer);
        $lease = $this->leases->create('order:1');
        self::assertTrue($lease->acquire());
        $this->held->begin($job);
        $this->held->end($job);
        $this->held->end($job);
        self::assertTrue($lease->renew());

        $this->held->end($outer);
        $this->held->end($outer);
        $this->held->end();
        self::assertNull(self::stored('order:1'));
        self::assertTrue($own->renew());
    }

    public function testWhatTheWorkerHeldIsARequestsWhereTheRequestTookItAnew(): void
    {
        $lease = $this->leases->create('order:1');
        self::assertTrue($lease->acquire());
        $this->held->begin();
        $this->held->end();
        $lease->release();
        $this->held->begin();
        self::assertTrue($lease->acquire());
        $this->held->end();

        self::assertNull(self::stored('order:1'));
    }

    public function testAnEndNeverThrowsAndTakesOneTimeOutInAll(): void
    {
        $server = RedisServer::start();
        $leases = new LeaseFactory(new Connection($server->dsn(), 1.0, 1.0), 30.0, $this->held);
        $this->held->begin();
        $kept = [];
        for ($number = 1; $number <= 5; $number++) {
            $kept[$number] = $leases->create("order:$number");
            self::assertTrue($kept[$number]->acquire());
            if ($number === 1) {
                $elsewhere = $this->leases->create('elsewhere');
                self::assertTrue($elsewhere->acquire());
            }
        }
        $server->pause();
        $start = hrtime(true);
        $this->held->end();
        self::assertLessThan(3.0, (hrtime(true) - $start) / 1e9, 'a release takes one second, and there are five');
        self::assertFalse($kept[1]->isHeld());
        self::assertTrue($elsewhere->isHeld());

        $this->held->begin();
        $this->held->end();
        self::assertNull(self::stored('elsewhere'), 'what was not tried yet comes first');
        unset($kept[2]);
        gc_collect_cycles();
        $server->resume();
        $left = static function () use ($server): int {
            return count(preg_grep('/^lock:/', $server->command('KEYS', '*')));
        };
        // A server that has not answered is asked briefly at first, and on a busy machine in vain.
        eventually(function () use ($left): bool {
            $this->held->begin();
            $this->held->end();

            return $left() === 0;
        }, 'each end gives back what is owed');
    }

    public function testWhatHasEndedByItselfIsOwedNoLonger(): void
    {
        $server = RedisServer::start();
        $this->held->begin();
        $lease = (new LeaseFactory(new Connection($server->dsn(), 0.5, 0.5), 0.5, $this->held))->create('order:1');
        self::assertTrue($lease->acquire());
        $server->pause();
        $this->held->end();
        self::assertFalse($lease->isHeld());
        $kept = WeakReference::create($lease);
        unset($lease);
        usleep(500_000);
        $this->held->end();
        self::assertNull($kept->get());
    }

    public function testWhatIsOwedIsNoneOfTheWorkersAndNotTakenFromTheRequestAround(): void
    {
        $server = RedisServer::start();
        $leases = new LeaseFactory(new Connection($server->dsn(), 0.5, 0.5), 30.0, $this->held);
        $this->held->begin();
        [$first, $second] = [$leases->create('order:1'), $leases->create('order:2')];
        self::assertTrue($first->acquire() && $second->acquire());
        $server->pause();
        $this->held->end();
        $server->resume();
        $owed = array_values(array_filter([$first, $second], static fn ($lease): bool => $lease->isHeld()));
        self::assertCount(1, $owed, 'the second one was not tried');

        $this->held->begin();
        eventually(static function () use ($owed): bool {
            try {
                return $owed[0]->acquire();
            } catch (LeaseException) {
                return false;
            }
        }, 'a service takes it again');
        $this->held->begin();
        $this->held->end();
        self::assertTrue($owed[0]->renew(), 'an inner request has ended, not this one');
        eventually(function () use ($server): bool {
            $this->held->begin();
            $this->held->end();
            $this->held->end();

            return $server->command('EXISTS', 'lock:order:1', 'lock:order:2') === 0;
        }, 'all is given back at the end');
    }

    public function testAForkedChildGivesNothingBack(): void
    {
        $worker = $this->bridgeWorker(<<<'PHP'
            $held->begin();
            $lock = $leases->create('order:1');
            $lock->acquire();
            if (($child = pcntl_fork()) === 0) {
                $held->end();
                exit;
            }
            pcntl_waitpid($child, $status);
            say([$status, $lock->renew()]);
            $held->end();
            PHP);
        self::assertSame([0, true], $worker->hear());
        $worker->finish();
        self::assertNull(self::stored('order:1'));
    }

    public function testRequestsInCoroutinesGiveBackTheirOwn(): void
    {
        $worker = $this->bridgeWorker(<<<'PHP'
            eval('namespace Swoole; final class Coroutine { public static int $id; static function getCid(): int { return self::$id; } }');
            $in = static function (int $coroutine, callable $do): mixed {
                Swoole\Coroutine::$id = $coroutine;

                return $do();
            };
            $locks = [];
            foreach ([1, 2] as $id) {
                $in($id, function () use ($held, $leases, $id, &$locks): void {
                    $held->begin();
                    $locks[$id] = $leases->create("order:$id");
                    $locks[$id]->acquire();
                });
            }
            $in(1, $held->end(...));
            say([$locks[1]->isHeld(), $locks[2]->isHeld()]);
            $in(2, $held->end(...));
            say($locks[2]->isHeld());

            // Each has a loop, and a lock, of its own.
            foreach ([3, 4] as $id) {
                $in($id, function () use ($held, $leases, $id, &$locks): void {
                    $locks[$id] = $leases->create("worker:$id");
                    $locks[$id]->acquire();
                    $held->begin();
                });
            }
            $in(4, $held->end(...));
            $in(3, $held->end(...));
            say([$locks[3]->isHeld(), $locks[4]->isHeld()]);
            PHP);
        self::assertSame([false, true], $worker->hear());
        self::assertFalse($worker->hear());
        self::assertSame([true, true], $worker->hear());
        $worker->finish();
    }

    private function bridgeWorker(string $snippet): Worker
    {
        $prepare = <<<'PHP'
            require $args['bridge'];
            $held = new RedisLease\Bridge\HeldByRequest();
            $leases = new RedisLease\Bridge\LeaseFactory($connection, 30.0, $held);

            PHP;

        return self::worker($prepare . $snippet, ['bridge' => dirname(__DIR__, 2) . '/bridge/autoload.php']);
    }
}
