<?php

declare(strict_types=1);

namespace RedisLease\Tests\Quorum;

use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\PhpProcess;
use RedisLease\Tests\Support\Worker;

use function RedisLease\Tests\Support\eventually;

/**
 * Processes whose clocks are apart and whose majorities differ take one lock in turn, while nodes hang and are restarted
 * without their data. Whoever holds the lock writes its fence down behind those of its predecessors, within its lease.
 *
 * LEASE_GRANTS says how many grants: 1,000 if not, 10,000 for the figure that is promised. SEED may be given, and is
 * printed. To see it fail: LEASE_FRESH=1 lets processes know nothing of others' clocks from one attempt to the next, so
 * that only what the nodes remember makes fences rise; LEASE_GUARD=0 restarts nodes far more often, without a guard.
 */
final class RisingFencesTest extends QuorumTestCase
{
    protected const NODES = 5;
    private const TTL = 0.6;
    /** After so many attempts a process begins anew. */
    private const FRESH = 100;
    /** Seconds to the node that is far away, and back. */
    private const FAR = 0.001;
    /** What the clocks are apart, in milliseconds, by process. */
    private const CLOCKS = [0, 2_000, 700, 1_400];
    /** The TTL, the two seconds of the clocks, and a margin. */
    private const GUARD = 3.0;

    private const PROCESS = <<<'PHP'
        mt_srand($args['seed']);
        say('ready');
        hear();
        $counts = ['grants' => 0, 'too late' => 0, 'failed' => 0];
        for ($i = 0; !file_exists($args['stop']); $i++) {
            if ($i % $args['fresh'] === 0) {
                // As a new process: nothing is known of other clocks, and the links are new.
                $connection = new Connection($dsn . str_repeat('0', $i / $args['fresh'] % 50), $args['connect'], $args['command']);
                $lock = new DistributedLock($args['resource'], $args['ttl'], connection: $connection);
            }
            try {
                if (!$lock->acquire(mt_rand(0, 3) === 0 ? 0.0 : 0.5)) {
                    continue;
                }
                usleep(mt_rand(3_000, 6_000)); // The work.
                $witness = fopen($args['witness'], 'c+');
                flock($witness, LOCK_EX);
                $end = fstat($witness)['size'];
                fseek($witness, $end);
                fwrite($witness, $lock->fence() . "\n");
                fflush($witness);
                // What was written when the lease was over proves nothing.
                if ($lock->isHeld()) {
                    $counts['grants']++;
                } else {
                    ftruncate($witness, $end);
                    $counts['too late']++;
                }
                fclose($witness);
                if (mt_rand(0, 20) === 0) {
                    $lock->renew();
                }
                $lock->release();
                usleep(mt_rand(0, 3_000));
            } catch (LeaseException) {
                $counts['failed']++;
            }
        }
        say($counts);
        PHP;

    public function testFencesStrictlyRiseOverThousandsOfGrantsWhoseMajoritiesAndClocksDiffer(): void
    {
        $wanted = (int) (getenv('LEASE_GRANTS') ?: 1_000);
        $guard = getenv('LEASE_GUARD');
        $seed = (int) (getenv('SEED') ?: random_int(1, 999_999));
        $fresh = (int) (getenv('LEASE_FRESH') ?: self::FRESH);
        $run = $this->history($wanted, $guard === false ? self::GUARD : (float) $guard, $fresh, $seed);
        [$fences, $raises, $seconds, $counts, $restarts] = $run;

        $oneTrip = 1 - $raises / count($fences);
        fwrite(STDERR, sprintf(
            "\nfences: SEED=%d, %d grants by %d processes in %.1f s, %d nodes restarted empty, %.1f %% in one round trip; %s\n",
            $seed, count($fences), count(self::CLOCKS), $seconds, $restarts, 100 * $oneTrip, json_encode($counts),
        ));
        $last = 0;
        foreach ($fences as $number => $fence) {
            self::assertGreaterThan($last, $fence, "grant $number of " . count($fences));
            $last = $fence;
        }
        self::assertGreaterThanOrEqual($wanted, count($fences));
        // Each process learns of the others' clocks first: in a short run that counts for more.
        self::assertGreaterThanOrEqual($fresh < self::FRESH ? 0.0 : ($wanted >= 10_000 ? 0.9 : 0.8), $oneTrip);
    }

    /** @return array{list<int>, int, float, array<string, int>, int} fences in their order, write-backs, seconds, ... */
    private function history(int $wanted, float $guard, int $fresh, int $seed): array
    {
        mt_srand($seed);
        $witness = Janitor::path('.fences');
        $stop = Janitor::path('.stop');
        $raised = Janitor::path('.raises');
        touch($witness);
        $workers = $this->processes(compact('witness', 'stop', 'fresh'), $raised, $seed, $guard);
        $begun = microtime(true);
        array_map(static fn (Worker $worker) => $worker->say(), $workers);
        $restarts = $this->trouble($witness, $wanted, $guard);
        touch($stop);
        $counts = [];
        foreach ($workers as $worker) {
            foreach ($worker->hear(20.0) as $what => $count) {
                $counts[$what] = ($counts[$what] ?? 0) + $count;
            }
            $worker->finish();
        }
        $fences = array_map(intval(...), file($witness));

        return [$fences, array_sum(array_map(intval(...), file($raised))), microtime(true) - $begun, $counts, $restarts];
    }

    /** @return list<Worker> */
    private function processes(array $args, string $raised, int $seed, float $guard): array
    {
        $library = Janitor::path('.so');
        $source = dirname(__DIR__) . '/Support/wall-clock.c';
        exec('cc -shared -fPIC -o ' . escapeshellarg($library) . ' ' . escapeshellarg($source) . ' 2>&1', $said, $failed);
        if ($failed !== 0) {
            self::markTestSkipped('there is no C compiler to set clocks apart: ' . implode("\n", $said));
        }
        $copy = Janitor::path('.so');
        $names = ["\0clock_gettime\0" => "\0clock_gettimT\0", "\0send\0" => "\0senT\0"];
        file_put_contents($copy, strtr((string) file_get_contents(PhpProcess::extension()), $names));

        $environment = ['REDIS_LEASE_SO' => $copy, 'LD_PRELOAD' => $library, 'RAISES_FILE' => $raised];
        $before = getenv('REDIS_LEASE_SO');
        $workers = [];
        foreach (self::CLOCKS as $number => $offset) {
            // To each process another node is far away.
            $far = $this->proxies($number);
            $far[$number]->delay(self::FAR, self::FAR);
            foreach ($environment + ['WALL_OFFSET_MS' => $offset] as $name => $value) {
                putenv("$name=$value");
            }
            try {
                $workers[] = self::worker(self::PROCESS, $args + [
                    'dsn' => self::dsnThrough($far) . "?restart_guard=$guard.0", 'ttl' => self::TTL, 'seed' => $seed + $number,
                ]);
            } finally {
                array_map(putenv(...), ['LD_PRELOAD', 'WALL_OFFSET_MS', 'RAISES_FILE']);
                putenv($before === false ? 'REDIS_LEASE_SO' : "REDIS_LEASE_SO=$before");
            }
        }
        foreach ($workers as $worker) {
            self::assertSame('ready', $worker->hear());
        }

        return $workers;
    }

    /** Nodes hang, and are restarted without their data, in turn, until there were so many grants. */
    private function trouble(string $witness, int $wanted, float $guard): int
    {
        // Redis tells its age in whole seconds: the guard holds for up to one more.
        $pause = $guard > 0.0 ? $guard + 1.3 : 0.1;
        $restarts = $strikes = 0;
        $next = microtime(true) + 0.5;
        $hung = null;
        eventually(function () use ($witness, $wanted, $pause, &$restarts, &$strikes, &$next, &$hung): bool {
            clearstatcache();
            $grants = filesize($witness) / 17;
            if (microtime(true) >= $next) {
                $next = microtime(true) + $pause;
                // Every fourth time all at once, as by a power cut.
                $places = $strikes++ % 4 === 2 ? array_keys(self::$servers) : [$restarts % self::NODES];
                array_map(static fn (int $place) => self::$servers[$place]->kill(), $places);
                array_map(static fn (int $place) => self::$servers[$place]->restart(keepData: false), $places);
                $restarts += count($places);
            }
            if ($hung !== null) {
                self::$servers[$hung]->resume();
                $hung = null;
            } elseif (mt_rand(0, 99) === 0) {
                $hung = mt_rand(0, self::NODES - 1);
                self::$servers[$hung]->pause();
            }
            usleep(mt_rand(1_000, 20_000));

            return $grants >= $wanted && $strikes >= 3;
        }, "$wanted grants", 600.0);
        self::mend();

        return $restarts;
    }
}
