<?php

declare(strict_types=1);

namespace RedisLease\Tests\Renewal;

use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\Monitor;

use function RedisLease\Tests\Support\eventually;

/** Cancel beats schedule: once a lease is given back, in whatever way, the server sees no renewal of it any more. */
final class ReleaseTest extends RenewalTestCase
{
    /** Ways to end a lease: code, and the script or command with which the server sees it end; null for none. */
    private const ENDS = [
        'release' => ['$lock->release();', 'release'],
        'drop' => ['unset($lock);', 'release'],
        'synchronized' => ['$lock->synchronized(static fn () => null);', 'release'],
        'an exception' => ['try { $lock->synchronized(static fn () => throw new Exception()); } catch (Exception) {}', 'release'],
        'forceRelease' => ['$lock->forceRelease();', 'force_release'],
        'detach' => ['$lock->detach();', null],
        'a new lock in its place' => ['$lock = $new("other");', 'release'],
    ];

    public function testNotOneRenewalComesAfterTheReleaseWheneverThatIs(): void
    {
        $cycles = self::thorough(200, 24);
        $snippet = <<<'PHP'
            mt_srand($args['seed']);
            for ($cycle = 0; $cycle < $args['cycles']; $cycle++) {
                // Renewals every 10 ms or so: many releases meet one that is under way.
                $lock = $new("{$args['seed']}:$cycle", 0.03 + mt_rand(0, 100) / 1000);
                $lock->acquire();
                usleep(mt_rand(0, 150_000));
                $lock->release();
            }
            say('done');
            hear();
            PHP;
        $monitor = Monitor::start(self::$server);
        $workers = [];
        foreach ([1, 2] as $seed) {
            $workers[] = self::renewing($snippet, ['seed' => $seed, 'cycles' => intdiv($cycles, 2)]);
        }
        foreach ($workers as $worker) {
            self::assertSame('done', $worker->hear(60.0));
        }
        // What was still under way has arrived when it says so; what was still planned, some TTLs later.
        usleep(self::thorough(2_000_000, 500_000));
        $ended = $renewals = [];
        foreach (self::scripts($monitor) as [$script, $lock]) {
            if ($script === 'release') {
                $ended[$lock] = true;
            } elseif ($script === 'renew') {
                self::assertArrayNotHasKey($lock, $ended, 'a renewal after the release');
                $renewals[$lock] = ($renewals[$lock] ?? 0) + 1;
            }
        }
        self::assertCount($cycles, $ended);
        self::assertGreaterThan($cycles / 2, count($renewals), 'most of them were renewed');
        foreach ($workers as $worker) {
            $worker->say();
            $worker->finish();
        }
        $monitor->close();
    }

    public function testHoweverALeaseEndsNoRenewalFollows(): void
    {
        $monitor = Monitor::start(self::$server);
        foreach (self::ENDS as $way => [$code, $script]) {
            $worker = self::renewing(<<<PHP
                \$lock = \$new('order:1', 0.15);
                \$lock->acquire();
                hear();
                $code
                // Marks the place in the transcript.
                (new DistributedLock('mark', connection: \$connection))->owner();
                say('ended');
                hear();
                PHP);
            eventually(static fn () => self::renewals($monitor) > 0, "$way: it is renewed");
            $worker->say();
            $worker->hear();
            usleep(200_000);
            $seen = $monitor->commands();
            $names = array_map(static fn ($line) => self::script($line) ?? $line->name(), $seen);
            $end = array_search($script ?? 'GET', $names, true);
            self::assertIsInt($end, "$way: " . implode(' ', $names));
            $after = array_slice($seen, $end + 1);
            self::assertSame([], array_filter($after, static fn ($line) => self::script($line) === 'renew'), $way);
            $worker->say();
            $worker->finish();
            $monitor->commands();
        }
        $monitor->close();
    }

    public function testTheEndOfTheRequestEndsTheRenewalWithOrWithoutARelease(): void
    {
        $monitor = Monitor::start(self::$server);
        foreach (['1', '0'] as $releases) {
            foreach (['', 'exit;', 'no_such_function();', 'throw new Exception("x");'] as $end) {
                $worker = self::renewing(<<<PHP
                    \$lock = \$new('order:1', 0.3);
                    \$lock->acquire(5.0);
                    \$cycle = [\$lock];
                    \$cycle[] = &\$cycle;
                    hear();
                    fclose(STDERR);
                    $end
                    PHP, [], ['redis_lease.release_on_shutdown' => $releases, 'display_errors' => '0']);
                eventually(static fn () => self::renewals($monitor) > 0, 'it is renewed');
                $worker->say();
                $worker->wait();
                $monitor->commands();
                self::assertSame($releases === '1', self::stored('order:1') === null, $end);
                eventually(static fn () => self::stored('order:1') === null, 'it is gone by its TTL', 1.0);
                self::assertSame(0, self::renewals($monitor), $end);
            }
        }
        $monitor->close();
    }

    /** The server's answers take their time: one to a renewal is awaited before the release is sent. */
    public function testNoReleaseIsSentWhileARenewalIsUnderWay(): void
    {
        $late = 0.09;
        $proxy = FaultProxy::start(self::$server);
        $worker = self::renewing(<<<'PHP'
            $lock = $new('order:1', 1.0, false, new Connection($args['proxy'], 5.0, 5.0));
            for (;;) {
                $lock->acquire();
                say('held');
                hear();
                $start = $now();
                $lock->release();
                say($now() - $start);
            }
            PHP, ['proxy' => $proxy->dsn()]);
        $monitor = Monitor::start(self::$server);
        $proxy->delay(0.0, $late);
        for ($round = 1; ; $round++) {
            $worker->hear();
            $monitor->commands();
            eventually(static fn () => self::renewals($monitor) > 0, 'a renewal is under way');
            $worker->say();
            // Its own answer, and what was left until the renewal's.
            if ($worker->hear() > $late + 0.01) {
                break;
            }
            self::assertLessThan(8, $round, 'no release waited for the renewal');
        }
        self::assertLessThan(8, $round);
        $worker->kill();
        $monitor->close();
    }

    /** The renewal's answer is held back: the release does not wait for it longer than its own time-outs allow, and breaks it off. */
    public function testAReleaseDoesNotWaitLongForARenewalThatIsNotAnsweredNorLetsItTryAgain(): void
    {
        $monitor = Monitor::start(self::$server);
        $proxy = FaultProxy::start(self::$server);
        $worker = self::renewing(<<<'PHP'
            $near = new Connection($args['proxy'], 2.0, 2.0);
            $lock = $new('order:1', 2.0, false, $near);
            $lock->acquire();
            say('held');
            hear();
            // The release goes by a new connection, which the proxy lets pass.
            $near->close();
            $start = $now();
            $waited = $delay();
            $released = $lock->release();
            say([$released, $now() - $start - ($delay() - $waited)]);
            hear();
            PHP, ['proxy' => $proxy->dsn()]);
        $worker->hear();
        // Its own connection, and with it the thread's, which is opened at the first renewal.
        eventually(static fn () => $proxy->count('open') >= 2, 'the thread has its connection');
        $proxy->hold('reply');
        $before = strlen($proxy->seen('request'));
        eventually(static fn () => strlen($proxy->seen('request')) > $before, 'a renewal is under way');
        $worker->say();
        [$released, $seconds] = $worker->hear();
        self::assertTrue($released);
        self::assertLessThan(0.5, $seconds);
        // By then its time-out would have had it sent again.
        usleep(1_200_000);
        $order = array_column(self::scripts($monitor), 0);
        self::assertSame('release', end($order), implode(' ', $order));
        $worker->say();
        $worker->finish();
        $monitor->close();
        self::assertNull(self::stored('order:1'));
    }
}
