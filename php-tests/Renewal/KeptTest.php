<?php

declare(strict_types=1);

namespace RedisLease\Tests\Renewal;

use RedisLease\Tests\Support\Monitor;

use function RedisLease\Tests\Support\eventually;

/** A short lease is kept for as long as the work takes, whatever PHP is doing meanwhile, and is asked for no oftener than it takes. */
final class KeptTest extends RenewalTestCase
{
    private const WORK = [
        'a busy loop' => 'while ($now() < $end) { $look(); }',
        'sleep' => 'while ($now() < $end) { usleep(1_500_000); $look(); }',
        'a slow query' => 'while ($now() < $end) { $query(1.5); $look(); }',
    ];

    private const SNIPPET = <<<'PHP'
        $lock = $new($args['resource']);
        $seen = ['lost' => 0, 'looks' => 0, 'least' => 9.9];
        $look = static function () use ($lock, &$seen): void {
            $seen['looks']++;
            $seen['lost'] += $lock->isHeld() ? 0 : 1;
            $seen['least'] = min($seen['least'], $lock->remaining());
        };
        $query = static function (float $seconds) use ($now): void {
            static $rows = 20_000;
            $start = $now();
            if (class_exists(PDO::class)) {
                (new PDO('sqlite::memory:'))->query("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < $rows) SELECT count(*) FROM c")->fetchAll();
            } else {
                hash_pbkdf2('sha256', 'p', 's', $rows);
            }
            $rows = (int) max(20_000, min($rows * 100, $rows * $seconds / ($now() - $start)));
        };
        if (!$lock->acquire()) {
            exit(1);
        }
        $fence = $lock->fence();
        $end = $now() + $args['seconds'];
        %s
        $released = $lock->release();
        say($seen + ['released' => $released, 'fence' => $lock->fence() === $fence]);
        PHP;

    public function testManyLeasesAreRenewedInOneRoundTrip(): void
    {
        $count = static function (): array {
            $info = self::$server->command('INFO', 'all');
            preg_match('/^total_reads_processed:(\d+)/m', $info, $reads);
            preg_match('/^cmdstat_evalsha:calls=(\d+)/m', $info, $scripts);

            return [(int) $reads[1], (int) ($scripts[1] ?? 0)];
        };
        $worker = self::renewing(<<<'PHP'
            $locks = [];
            for ($i = 0; $i < 20; $i++) {
                $locks[] = $lock = $new("order:$i", 1.5);
                $lock->acquire();
            }
            say('held');
            hear();
            say(count(array_filter($locks, static fn ($lock) => $lock->isHeld())));
            PHP);
        self::assertSame('held', $worker->hear());
        // The first round may find each lease due at a time of its own.
        [$reads, $scripts] = $count();
        eventually(static fn () => $count()[1] >= $scripts + 40, 'each was renewed twice', 20.0);
        [$reads, $scripts] = $count();
        usleep(10_000);
        $polls = 0;
        eventually(static function () use ($count, $scripts, &$polls) {
            usleep(100_000);
            $polls++;

            return $count()[1] >= $scripts + 60;
        }, 'each was renewed three times more', 20.0);
        [$readsAfter, $scriptsAfter] = $count();

        self::assertLessThan(($scriptsAfter - $scripts) / 2, $readsAfter - $reads - $polls - 1, 'reads for the renewals');
        $worker->say();
        self::assertSame(20, $worker->hear());
        $worker->finish();
    }

    public function testAOneSecondLeaseIsKeptThroughABusyLoopASleepAndASlowQuery(): void
    {
        $seconds = self::thorough(20, 4);
        $monitor = Monitor::start(self::$server);
        $workers = [];
        foreach (self::WORK as $what => $code) {
            $workers[$what] = self::renewing(sprintf(self::SNIPPET, $code), ['resource' => $what, 'seconds' => $seconds], self::sqlite());
        }
        $heard = [];
        foreach ($workers as $what => $worker) {
            $heard[$what] = $worker->hear($seconds + 20.0);
            $worker->finish();
        }
        $scripts = self::scripts($monitor);
        foreach ($heard as $what => $seen) {
            self::assertGreaterThan(1, $seen['looks'], $what);
            self::assertSame(0, $seen['lost'], "$what: it was not held all the time");
            self::assertGreaterThan(0.0, $seen['least'], $what);
            self::assertTrue($seen['released'] && $seen['fence'], $what);
            // Three in each TTL, one more or less.
            $renewals = count(array_keys($scripts, ['renew', $what], true));
            self::assertGreaterThanOrEqual(2 * $seconds, $renewals, $what);
            self::assertLessThanOrEqual(4 * ($seconds + 2), $renewals, $what);
        }
        $monitor->close();
    }

    public function testAManualRenewalToALongerTtlIsWhatTheThreadGoesOnWith(): void
    {
        $worker = self::renewing(<<<'PHP'
            $lock = $new('order:1', 0.6);
            $lock->acquire();
            $lock->renew(3.0);
            say($lock->remaining());
            hear();
            say($lock->remaining());
            $lock->renew(0.1);
            say($lock->remaining());
            hear();
            say([$lock->isHeld(), $lock->release()]);
            PHP);
        $monitor = Monitor::start(self::$server);
        self::assertGreaterThan(2.5, $worker->hear());
        eventually(static fn () => self::renewals($monitor) > 0, 'the thread renews the longer one');
        self::assertGreaterThan(2_500, self::$server->command('PTTL', 'lock:order:1'));
        $worker->say();
        self::assertGreaterThan(2.0, $worker->hear());
        self::assertGreaterThan(2.0, $worker->hear(), 'a shorter one takes nothing away');
        eventually(static fn () => self::$server->command('PTTL', 'lock:order:1') < 600, 'the longer one is not renewed any more', 5.0);
        eventually(static fn () => self::renewals($monitor) > 0, 'the own TTL is renewed again');
        $worker->say();
        self::assertSame([true, true], $worker->hear());
        $worker->finish();
        $monitor->close();
    }

    public function testTheValidityThatPhpSeesFollowsTheThreadAndSoDoesTheFence(): void
    {
        $worker = self::renewing(<<<'PHP'
            $lock = $new('order:1', 1.0);
            $lock->acquire();
            $fence = $lock->fence();
            say([$lock->token(), $fence]);
            hear();
            for ($grew = 0, $last = $lock->remaining(); $grew < 3;) {
                $left = $lock->remaining();
                $grew += $left > $last ? 1 : 0;
                $last = $left;
            }
            say($lock->isHeld());
            hear();
            while ($lock->fence() === $fence);
            say($lock->fence());
            $lock->release();
            PHP);
        [, $fence] = $worker->hear();
        $worker->say();
        self::assertTrue($worker->hear());
        self::$server->command('DEL', 'lock~{lock:order:1}:fence');
        $worker->say();
        self::assertGreaterThan($fence, $worker->hear(), 'a fence that Redis lost is minted anew by the renewal');
        $worker->finish();
    }

    public function testALockReacquiredWhileItIsHeldIsOneLeaseAndALockTakenAgainIsRenewedAgain(): void
    {
        $worker = self::renewing(<<<'PHP'
            $lock = $new('order:1', 0.6);
            for ($turn = 0; $turn < 3; $turn++) {
                $lock->acquire();
                $lock->acquire();
                hear();
                say($lock->isHeld());
                $lock->release();
                say(null);
                hear();
            }
            PHP);
        $monitor = Monitor::start(self::$server);
        for ($turn = 0; $turn < 3; $turn++) {
            eventually(static fn () => self::renewals($monitor) > 0, "turn $turn: it is renewed");
            $worker->say();
            self::assertTrue($worker->hear());
            $worker->hear();
            self::assertNull(self::stored('order:1'));
            $monitor->commands();
            $worker->say();
        }
        $worker->finish();
        $monitor->close();
    }

    public function testManyLeasesOnSeveralServersAreKeptByOneThread(): void
    {
        $other = \RedisLease\Tests\Support\RedisServer::start();
        $worker = self::renewing(<<<'PHP'
            $second = new Connection($args['other'], 5.0, 5.0);
            $locks = [];
            for ($i = 0; $i < 100; $i++) {
                $locks[] = $lock = $new("order:$i", 1.0, false, $i % 2 ? $second : null);
                $lock->acquire();
            }
            $start = $now();
            $lost = 0;
            while ($now() - $start < 2.5) {
                foreach ($locks as $lock) {
                    $lost += $lock->isHeld() ? 0 : 1;
                }
                usleep(1000);
            }
            say([$lost, $threads()]);
            PHP, ['other' => $other->dsn()]);
        self::assertSame([0, ['lease-renewal']], $worker->hear());
        $worker->finish();
        self::assertSame(0, self::$server->command('EXISTS', 'lock:order:0', 'lock:order:98'), 'given back at the end');
        self::assertSame(0, $other->command('EXISTS', 'lock:order:1', 'lock:order:99'));
        $other->stop();
    }

    /** @return array<string, string> */
    private static function sqlite(): array
    {
        $directory = ini_get('extension_dir');

        // One setting twice: the space is no part of its name.
        return is_file("$directory/pdo.so") && is_file("$directory/pdo_sqlite.so") ? ['extension' => 'pdo', 'extension ' => 'pdo_sqlite'] : [];
    }
}
