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

    public function testARequestInsideOfAnotherChangesNothing(): void
    {
        $this->held->begin();
        $outer = $this->leases->create('order:1');
        self::assertTrue($outer->acquire());
        $this->held->begin();
        self::assertTrue($outer->isHeld());
        $this->held->end();
        self::assertFalse($outer->isHeld(), 'it is not taken for the worker\'s own');
    }

    public function testAnEndNeverThrowsAndWhatIsOwedCanStillBeGivenBack(): void
    {
        $server = RedisServer::start();
        $leases = new LeaseFactory(new Connection($server->dsn(), 1.0, 1.0), 30.0, $this->held);
        $this->held->begin();
        [$first, $second] = [$leases->create('order:1'), $this->leases->create('order:2')];
        self::assertTrue($first->acquire());
        self::assertTrue($second->acquire());
        $server->pause();
        $this->held->end();

        self::assertFalse($first->isHeld());
        self::assertNull(self::stored('order:2'), 'the others are given back all the same');
        $server->resume();
        // A server that has not answered is asked briefly at first, and on a busy machine in vain.
        eventually(static function () use ($first): bool {
            try {
                $first->release();

                return true;
            } catch (LeaseException) {
                return false;
            }
        }, 'the release is answered');
        self::assertNull($server->command('GET', 'lock:order:1'));
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
            PHP);
        self::assertSame([false, true], $worker->hear());
        self::assertFalse($worker->hear());
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
