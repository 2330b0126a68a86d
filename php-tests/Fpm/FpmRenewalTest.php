<?php

declare(strict_types=1);

namespace RedisLease\Tests\Fpm;

use RedisLease\Tests\Support\Fpm;
use RedisLease\Tests\Support\ServerTestCase;

use function RedisLease\Tests\Support\eventually;

/** The renewal thread in FPM: none before the first use, one per worker, none that outlives it, and no request is stopped for another's lease. */
final class FpmRenewalTest extends ServerTestCase
{
    private ?Fpm $fpm = null;

    protected function tearDown(): void
    {
        $this->fpm?->stop();
    }

    public function testAWorkerHasNoThreadBeforeItsFirstUseAndOneAfterwards(): void
    {
        $this->serve(<<<'PHP'
            $lock = new DistributedLock("order:$query", 0.5, $query !== 'plain');
            echo json_encode($lock->acquire(5.0));
            PHP);
        $worker = $this->fpm->workers()[0];
        self::assertSame('true', $this->fpm->get('plain'));
        self::assertSame([], self::threads($worker));
        for ($request = 0; $request < 5; $request++) {
            self::assertSame('true', $this->fpm->get("$request"));
            eventually(static fn () => self::threads($worker) === ['lease-renewal'], 'one thread, which has its name once it runs');
        }
        self::assertSame([$worker], $this->fpm->workers());
        self::assertStringNotContainsString('exited on signal', $this->fpm->log());
    }

    public function testARequestThatEndsWithALeaseLeavesNothingToTheNext(): void
    {
        $this->serve(<<<'PHP'
            if ($query === 'lose') {
                $lock = new DistributedLock('order:1', 0.05, true, abortOnLoss: true);
                $lock->acquire(5.0);
                // Deleted and found so, while the request is blocked in C until its end.
                (new DistributedLock('order:1'))->forceRelease();
                usleep(50_000);
                exit('lost');
            }
            for ($start = hrtime(true); hrtime(true) - $start < 30_000_000;);
            echo 'went on ', json_encode((new DistributedLock('order:2'))->acquire());
            PHP);
        for ($round = 0; $round < 5; $round++) {
            $this->fpm->get('lose');
            self::assertSame('went on true', $this->fpm->get(), $this->fpm->log());
        }
    }

    public function testAReloadLeavesNoCrashAndNoStuckWorker(): void
    {
        $reloads = getenv('REDIS_LEASE_THOROUGH') ? 200 : 12;
        $this->serve(<<<'PHP'
            $lock = new DistributedLock('order:' . getmypid(), 1.0, true);
            $acquired = $lock->acquire();
            usleep(mt_rand(0, 20) * 1000);
            echo json_encode([$acquired, $lock->isHeld(), getmypid()]);
            PHP, ['pm.max_children' => 2]);
        $seen = [];
        for ($reload = 0; $reload < $reloads; $reload++) {
            $before = $this->fpm->workers();
            [$acquired, $held, $pid] = json_decode(eventually(fn () => $this->fpm->get(), 'an answer'));
            self::assertTrue($acquired && $held);
            $seen[$pid] = true;
            $request = $this->fpm->begin();
            $this->fpm->signal(SIGUSR2);
            eventually(fn () => array_intersect($before, $this->fpm->workers()) === [] && $this->fpm->workers() !== [], "reload $reload: new workers");
            Fpm::body($request);
            foreach ($before as $worker) {
                eventually(static fn () => !is_dir("/proc/$worker"), "reload $reload: the old worker is gone");
            }
        }
        self::assertGreaterThan($reloads / 2, count($seen));
        self::assertStringNotContainsString('exited on signal', $this->fpm->log());
        self::assertStringNotContainsString('SIGSEGV', $this->fpm->log());
        // A master that has only just begun anew dies of the signal.
        self::assertNotSame('', eventually(fn () => $this->fpm->get(), 'an answer'));
        self::assertSame(0, $this->fpm->stop());
        $this->fpm = null;
    }

    /** @return list<string> the names of a worker's threads but its first */
    private static function threads(int $process): array
    {
        $names = [];
        foreach (glob("/proc/$process/task/*/comm") as $file) {
            if (basename(dirname($file)) !== (string) $process) {
                $names[] = trim(file_get_contents($file));
            }
        }

        return $names;
    }

    private function serve(string $code, array $pool = []): void
    {
        $this->fpm = Fpm::start($code, $pool, ['redis_lease.dsn' => self::$server->dsn(), 'redis_lease.command_timeout' => '5']);
    }
}
