<?php

declare(strict_types=1);

namespace RedisLease\Tests\Renewal;

use RedisLease\Tests\Support\Worker;

use function RedisLease\Tests\Support\eventually;

/** A lost lease stops the PHP code that it was to protect, wherever that is, once, and nothing else. */
final class AbortTest extends RenewalTestCase
{
    /** Places where PHP code can be for ever. Each ends with the exception only. */
    private const PLACES = [
        'a loop' => 'while (true);',
        'a for loop' => 'for ($i = 0; ; $i++) { $i %= 7; }',
        'a recursion' => '$f = static function () use (&$f): void { for ($i = 0; $i < 9; $i++) { strlen("x"); } static $depth = 0; if (++$depth < 50) { $f(); } $depth--; }; while (true) { $f(); }',
        'calls of functions' => 'while (true) { array_map(static fn ($x) => $x + 1, [1, 2, 3]); }',
        'a generator' => '$g = (static function () { while (true) { yield 1; } })(); foreach ($g as $_);',
        'inside a generator' => '$g = (static function () { while (true); yield 1; })(); $g->current();',
        'a fiber' => '$f = new Fiber(static function (): void { while (true); }); $f->start();',
        'between fibers' => '$f = new Fiber(static function (): void { while (true) { Fiber::suspend(); } }); $f->start(); while (true) { $f->resume(); }',
        'synchronized' => '(new DistributedLock("inner", connection: $connection))->synchronized(static function (): void { while (true); });',
        'a callback from C' => '$a = range(1, 100); while (true) { usort($a, static fn ($x, $y) => $y <=> $x); }',
        'short sleeps' => 'while (true) { usleep(1000); }',
        'included code' => 'eval("while (true);");',
        'a destructor' => '(new class { function __destruct() { while (true); } });',
    ];

    public function testItIsThrownWhereverThePhpCodeIs(): void
    {
        $cases = '';
        foreach (self::PLACES as $place => $code) {
            $cases .= sprintf("case %s: %s break;\n", var_export($place, true), $code);
        }
        $snippet = <<<PHP
            \$run = static function (string \$place) use (\$connection): void {
                switch (\$place) {
                    $cases
                }
            };
            PHP . <<<'PHP'

            while (($place = hear()) !== null) {
                $lock = $new('order:1', 0.45, true);
                $lock->acquire();
                $finally = $inner = false;
                say('held');
                try {
                    try {
                        $run($place);
                    } finally {
                        $finally = true;
                        $released = $lock->release();
                    }
                    say('it went on');
                } catch (LeaseLostException $lost) {
                    $at = $now();
                    // Once: nothing more comes, however long this runs.
                    for ($i = 0; $i < 300_000; $i++);
                    say([$lost->loss, $lost->resource, $lost->getPrevious(), $finally, $released, $lock->isHeld(), $lost->getLine() > 0, $at]);
                }
            }
            PHP;
        $worker = self::renewing($snippet);
        foreach (array_keys(self::PLACES) as $place) {
            $worker->say($place);
            self::assertSame('held', $worker->hear(), $place);
            self::$server->command('SET', 'lock:order:1', 'another', 'PX', 60_000);
            $heard = $worker->hear();
            self::assertSame(['taken', 'order:1', null, true, false, false, true], array_slice((array) $heard, 0, 7), $place);
            self::$server->flush();
        }
        $worker->say(null);
        $worker->finish();
    }

    public function testAProcessThatWasStoppedForLongerThanItsLeaseIsInterruptedAtOnce(): void
    {
        foreach (['while (true);', 'usleep(10); while (true) { md5("x"); }'] as $work) {
            // What the thread waits for a busy machine's processor is not told apart from what the work does.
            for ($try = 1; $try === 1 || ($late >= self::AT_ONCE && $try <= 3); $try++) {
                [$late, $seen] = $this->stoppedPastItsLease($work);
                self::assertSame(['expired', false], $seen);
            }
            self::assertLessThan(self::AT_ONCE, $late, 'interrupted');
        }
    }

    /** @return array{float, array{string, bool}} how long after it went on it was told, and the loss with isHeld() */
    private function stoppedPastItsLease(string $work): array
    {
        $worker = self::renewing(<<<PHP
            \$lock = \$new('order:1', 0.5, true);
            \$lock->acquire();
            \$delay(true);
            try {
                say('held');
                $work
            } catch (LeaseLostException \$lost) {
                \$at = \$now();
                say([\$at, \$delay(), \$lost->loss, \$lock->isHeld()]);
            }
            PHP);
        $worker->hear();
        $worker->pause();
        usleep(1_500_000);
        $resumed = hrtime(true) / 1e9;
        $worker->resume();
        [$at, $noise, $loss, $held] = $worker->hear();
        self::assertGreaterThanOrEqual($resumed, $at, 'too early');
        $worker->finish();

        return [$at - $resumed - $noise, [$loss, $held]];
    }

    public function testWithoutAbortOnLossTheWorkGoesOn(): void
    {
        $worker = self::renewing(<<<'PHP'
            $lock = $new('order:1', 0.3);
            $lock->acquire();
            say('held');
            while ($lock->isHeld());
            for ($start = $now(); $now() - $start < 0.5;);
            say([$lock->isHeld(), $lock->loss()]);
            PHP);
        $worker->hear();
        self::$server->command('DEL', 'lock:order:1');
        self::assertSame([false, 'deleted'], $worker->hear());
        $worker->finish();
    }

    /** Ends of a lease after which its loss is nobody's business any more; Redis loses the key at that moment. */
    public function testNothingIsThrownAfterTheRelease(): void
    {
        $worker = self::renewing(<<<'PHP'
            mt_srand(1);
            for ($i = 0; $i < 60; $i++) {
                $lock = $new("order:$i", 0.03, true);
                try {
                    $lock->acquire();
                } catch (LeaseLostException) {
                    continue; // A busy machine took longer than the lease lasts.
                }
                try {
                    $stream = stream_socket_client($args['socket']);
                    fwrite($stream, "DEL lock:order:$i\r\n");
                    fgets($stream);
                    usleep(mt_rand(0, 12_000));
                    match ($i % 3) {
                        0 => $lock->release(),
                        1 => $lock->detach(),
                        2 => $lock = null,
                    };
                } catch (LeaseLostException) {
                    // It came before the release, as it should.
                    $before = ($before ?? 0) + 1;
                    $lock = null;
                }
                for ($start = $now(); $now() - $start < 0.03;);
            }
            say($before ?? 0);
            PHP, ['socket' => 'unix://' . self::$server->socket()]);
        self::assertGreaterThan(0, $worker->hear(30.0), 'both sides were met');
        $worker->finish();
    }

    public function testItWaitsForAnExceptionThatIsUnderWayAndIsNotThrownOverIt(): void
    {
        self::needsPcntl();
        $worker = self::renewing(<<<'PHP'
            pcntl_async_signals(true);
            pcntl_signal(SIGUSR1, static fn () => throw new DomainException('the handler'));
            $lock = $new('order:1', 0.3, true);
            $lock->acquire();
            say('held');
            $caught = [];
            $start = $now();
            while (count($caught) < 2 && $now() - $start < 5.0) {
                try {
                    // Blocked in C while both come: they are found together.
                    usleep(1_000_000);
                    usleep(1);
                    for ($i = 0; $i < 1_000_000; $i++);
                } catch (DomainException | LeaseLostException $thrown) {
                    $caught[] = [$thrown::class, $thrown->getPrevious() === null ? null : $thrown->getPrevious()::class];
                }
            }
            say($caught);
            PHP);
        $worker->hear();
        self::$server->command('DEL', 'lock:order:1');
        usleep(300_000);
        $worker->signal(SIGUSR1);
        self::assertSame([['DomainException', null], ['RedisLease\LeaseLostException', null]], $worker->hear());
        $worker->finish();
    }

    public function testAWaitForAnotherLockEndsAtOnceAndLeavesNothingBehind(): void
    {
        $other = $this->heldLock('order:2', 60.0);
        $worker = self::renewing(<<<'PHP'
            $lock = $new('order:1', 0.3, true);
            $lock->acquire();
            $waiting = new DistributedLock('order:2', 30.0, connection: $connection);
            $delay(true);
            say('held');
            try {
                $waiting->acquire(20.0);
                say('it went on');
            } catch (LeaseLostException $lost) {
                say([$now(), $delay(), $lost->loss, $lost->resource, $waiting->isHeld(), $waiting->token()]);
            }
            // And the next wait is one again.
            hear();
            $used = getrusage();
            $start = $now();
            say([$waiting->acquire(0.5), $now() - $start > 0.49, getrusage()['ru_utime.tv_usec'] - $used['ru_utime.tv_usec'] < 200_000]);
            PHP);
        $worker->hear();
        eventually(static fn () => preg_match('/^blocked_clients:1/m', self::$server->command('INFO', 'clients')), 'it waits');
        self::$server->command('DEL', 'lock:order:1');
        $deleted = hrtime(true) / 1e9;
        [$at, $noise, $loss, $resource, $held] = $worker->hear();
        self::assertSame(['deleted', 'order:1', false], [$loss, $resource, $held]);
        self::assertSoon($deleted, $at, $noise, 'the wait ended', 0.1 + self::AT_ONCE);
        eventually(static fn () => preg_match('/^blocked_clients:0/m', self::$server->command('INFO', 'clients')), 'it has left the line');
        $worker->say();
        self::assertSame([false, true, true], $worker->hear());
        $worker->finish();
        self::assertTrue($other->release());
    }

    public function testLeasesLostAtOneMomentAreOneExceptionWithTheOthersAsItsCauses(): void
    {
        $worker = self::renewing(<<<'PHP'
            $locks = [];
            foreach (['a', 'b', 'c'] as $name) {
                $locks[] = $lock = $new($name, 0.5, true);
                $lock->acquire();
            }
            try {
                say('held');
                while (true);
            } catch (LeaseLostException $lost) {
                for ($names = []; $lost !== null; $lost = $lost->getPrevious()) {
                    $names[] = $lost->resource;
                }
                for ($start = $now(); $now() - $start < 0.5;);
                sort($names);
                say($names);
            }
            PHP);
        $worker->hear();
        $worker->pause();
        usleep(1_000_000);
        $worker->resume();
        self::assertSame(['a', 'b', 'c'], $worker->hear());
        $worker->finish();
    }

    public function testSynchronizedPassesItOnAndACallableThatCatchesItIsToldAgainBySynchronized(): void
    {
        $worker = self::renewing(<<<'PHP'
            foreach ([false, true] as $catches) {
                $lock = $new('order:1', 0.3, true);
                try {
                    $lock->synchronized(static function () use ($catches) {
                        say('held');
                        try {
                            while (true);
                        } catch (LeaseLostException $lost) {
                            return $catches ? 'a result' : throw $lost;
                        }
                    });
                } catch (LeaseLostException $lost) {
                    say([$lost->loss, $lost->result, $lock->isHeld()]);
                }
            }
            PHP);
        foreach ([null, 'a result'] as $result) {
            $worker->hear();
            self::$server->command('DEL', 'lock:order:1');
            self::assertSame(['deleted', $result, false], $worker->hear());
        }
        $worker->finish();
    }

    public function testAnUncaughtOneEndsTheProgramAsAnyOther(): void
    {
        $worker = self::renewing(<<<'PHP'
            $lock = $new('order:1', 0.3, true);
            $lock->acquire();
            $kept = new DistributedLock('order:2', 60.0, connection: $connection);
            $kept->acquire();
            say('held');
            register_shutdown_function(static fn () => say('shut down'));
            while (true);
            PHP);
        $worker->hear();
        self::$server->command('DEL', 'lock:order:1');
        self::assertSame('shut down', $worker->hear());
        self::assertSame(255, $worker->wait());
        self::assertStringContainsString('Uncaught RedisLease\LeaseLostException: Lock "order:1": the lease is lost: its key was deleted', $worker->errors());
        self::assertNull(self::stored('order:2'), 'what else it held is given back');
    }

    public function testALockTakenAgainAfterItsLossWasToldIsWatchedAnew(): void
    {
        $worker = self::renewing(<<<'PHP'
            $lock = $new('order:1', 0.3, true);
            for ($turn = 0; $turn < 3; $turn++) {
                $lock->acquire(5.0);
                say('held');
                try {
                    while (true);
                } catch (LeaseLostException $lost) {
                    say($lost->loss);
                }
            }
            PHP);
        for ($turn = 0; $turn < 3; $turn++) {
            self::assertSame('held', $worker->hear());
            self::$server->command('DEL', 'lock:order:1');
            self::assertSame('deleted', $worker->hear());
        }
        $worker->finish();
    }
}
