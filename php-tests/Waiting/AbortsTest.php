<?php

declare(strict_types=1);

namespace RedisLease\Tests\Waiting;

use RedisLease\Tests\Support\Janitor;

/** Many waits that end in every way but the good one, while others go on: nothing is left, nobody is stuck. */
final class AbortsTest extends WaitingTestCase
{
    private const ABORTS = 1_000;

    /**
     * Twelve children wait for one lock, again and again, for a short time or until a signal; two more use it.
     * Their parent sends signals and kills until it is told to stop, and replaces who died. Each aborted wait
     * is a byte in the log: w for one that ended in vain, t for one that threw, k for a killed process.
     */
    private const TURMOIL = <<<'PHP'
        $note = static fn (string $how) => file_put_contents($args['log'], $how, FILE_APPEND);
        $lock = static fn (float $ttl) => new DistributedLock('order:1', $ttl, connection: new Connection($args['dsn'], 5.0, 5.0));
        $parent = getmypid();
        $wait = static function () use ($note, $lock, $parent): void {
            mt_srand(getmypid());
            pcntl_async_signals(true);
            pcntl_signal(SIGTERM, SIG_DFL);
            // It throws only where that is caught.
            $waits = false;
            pcntl_signal(SIGUSR1, static function () use (&$waits): void {
                if ($waits) {
                    $waits = false;
                    throw new DomainException();
                }
            });
            while (posix_getppid() === $parent) {
                try {
                    $mine = $lock(0.3);
                    $waits = true;
                    $acquired = $mine->acquire(mt_rand(0, 1) ? mt_rand(0, 20) / 1e3 : 30.0);
                    $waits = false;
                    if ($acquired) {
                        $mine->release();
                    } else {
                        $note('w');
                    }
                } catch (DomainException) {
                    $note('t');
                }
            }
        };
        $use = static function () use ($args, $lock, $parent): void {
            $stop = $longest = 0;
            pcntl_async_signals(true);
            pcntl_signal(SIGTERM, static function () use (&$stop): void { $stop = 1; });
            while (!$stop && posix_getppid() === $parent) {
                $mine = $lock(0.3);
                $before = hrtime(true);
                if (!$mine->acquire(60.0)) {
                    exit(1);
                }
                $longest = max($longest, hrtime(true) - $before);
                usleep(mt_rand(0, 2000));
                $mine->release();
            }
            file_put_contents($args['longest'], $longest / 1e9 . "\n", FILE_APPEND);
            exit(0);
        };
        $begin = static function (Closure $life): int {
            // A machine may have no process to spare for a moment. To signal -1 would be to signal all there are.
            while (($child = @pcntl_fork()) === -1) {
                usleep(10_000);
            }
            $child === 0 && $life();
            return $child;
        };
        $users = [$begin($use), $begin($use)];
        $waiters = [];
        for ($i = 0; $i < 12; $i++) {
            $waiters[] = $begin($wait);
        }
        say('turmoil');
        do {
            $read = [STDIN];
            $write = $except = null;
            $victim = array_rand($waiters);
            if (mt_rand(0, 9) === 0) {
                posix_kill($waiters[$victim], SIGKILL);
                pcntl_waitpid($waiters[$victim], $status);
                $note('k');
                $waiters[$victim] = $begin($wait);
            } else {
                posix_kill($waiters[$victim], SIGUSR1);
            }
        } while (stream_select($read, $write, $except, 0, 1000) === 0);
        foreach ($waiters as $waiter) {
            posix_kill($waiter, SIGKILL);
            pcntl_waitpid($waiter, $status);
        }
        say('only users');
        hear();
        foreach ($users as $user) {
            posix_kill($user, SIGTERM);
            pcntl_waitpid($user, $status);
            say(pcntl_wifexited($status) && pcntl_wexitstatus($status) === 0);
        }
        PHP;

    public function testAThousandAbortedWaitsLeaveNothingBehindAndNobodyStuck(): void
    {
        [$log, $longest] = [Janitor::path('.log'), Janitor::path('.longest')];
        touch($log);
        $worker = self::worker(self::TURMOIL, compact('log', 'longest'), self::withPosix());
        $worker->hear();
        $patient = self::waiter()->ready()->wait();

        $most = $withoutTtl = [];
        while (self::aborts($log) < self::ABORTS) {
            foreach (self::keys() as $key => $left) {
                $kind = preg_replace('/^lock~.*?:(fence|wake|waiter|mark).*$/', '$1', $key);
                $most[$kind] = max($most[$kind] ?? 0, $left);
                if ($left === -1) {
                    $withoutTtl[$key] = true;
                }
            }
            usleep(500);
        }
        $ways = array_count_values(str_split((string) file_get_contents($log)));
        self::assertTrue($patient->outcome()->answer, 'who waited through it all has got the lock');
        $patient->release();
        $worker->say('stop');
        $worker->hear(30.0);
        $patient->wait();
        self::assertTrue($patient->outcome()->answer, 'a waiter among those who are left gets the lock');
        $patient->release();
        $worker->say();
        self::assertTrue($worker->hear() && $worker->hear(), 'the users of the lock always got it');
        $worker->finish();

        $slowest = max(array_map(floatval(...), file($longest)));
        self::figure(
            '%d waits in vain, %d thrown, %d killed; the longest wait of the others %.2f s',
            $ways['w'],
            $ways['t'],
            $ways['k'],
            $slowest,
        );
        self::assertSame([], array_keys($withoutTtl), 'keys that had no TTL at some moment');
        self::assertGreaterThan(50, min($ways['w'], $ways['t'], $ways['k']));
        self::assertLessThan(2 * self::LONGEST_SLICE, $slowest);
        foreach (['wake' => 100, 'waiter' => 4_000, 'mark' => 60_000, 'lock:order:1' => 30_000] as $kind => $limit) {
            self::assertLessThanOrEqual($limit, $most[$kind] ?? 0, "the longest TTL of $kind");
        }
        self::assertNothingHeldOrQueued();
    }

    private static function aborts(string $log): int
    {
        clearstatcache();

        return filesize($log);
    }
}
