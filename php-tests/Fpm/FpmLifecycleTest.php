<?php

declare(strict_types=1);

namespace RedisLease\Tests\Fpm;

use RedisLease\Tests\Support\Fpm;
use RedisLease\Tests\Support\PhpProcess;
use RedisLease\Tests\Support\ServerTestCase;

use function RedisLease\Tests\Support\eventually;

/** The life of an FPM worker: however a request or the worker ends, its locks do, and the next request finds a working connection. */
final class FpmLifecycleTest extends ServerTestCase
{
    private const PREPARE = <<<'PHP'
        $lock = new DistributedLock('order:1', 60.0);
        $until = static function (string $key): void {
            while ((new DistributedLock($key))->owner() === null) {
                usleep(1000);
            }
        };
        PHP;

    /** What a request does; before it ends it prints whether it got the lock, and where it can, its process. */
    private const WAYS = [
        'return' => '',
        'exit' => 'exit;',
        'exit in synchronized' => '$lock->synchronized(static function (): void { exit; });',
        'exception' => 'throw new Exception("boom");',
        'exception in synchronized' => '$lock->synchronized(static fn () => throw new Exception("boom"));',
        'fatal' => 'no_such_function();',
        'memory' => 'str_repeat("x", PHP_INT_MAX >> 8);',
        'memory in synchronized' => '$lock->synchronized(static fn () => str_repeat("x", PHP_INT_MAX >> 8));',
        'time' => 'set_time_limit(1); for (;;);',
        'time in synchronized' => '$lock->synchronized(static function (): void { set_time_limit(1); for (;;); });',
        'finished before' => 'fastcgi_finish_request();',
        'shutdown function' => 'register_shutdown_function(static fn () => str_repeat("x", PHP_INT_MAX >> 8));',
        'never dropped' => 'final class Keep { public static $it; } Keep::$it = [$lock]; Keep::$it[] = &Keep::$it;',
    ];

    private ?Fpm $fpm = null;

    protected function tearDown(): void
    {
        $this->fpm?->stop();
    }

    public function testHoweverARequestEndsItsLockIsFreeAndTheWorkerGoesOn(): void
    {
        $cases = '';
        foreach (self::WAYS as $way => $code) {
            $cases .= sprintf("case %s: %s break;\n", var_export(rawurlencode($way), true), $code);
        }
        $this->serve(self::PREPARE . <<<PHP
            echo json_encode([\$lock->acquire(), getmypid()]);
            flush();
            switch (\$query) {
                $cases
            }
            PHP);
        $seen = [];
        foreach ([...array_keys(self::WAYS), ...array_reverse(array_keys(self::WAYS))] as $way) {
            $body = $this->fpm->get(rawurlencode($way));
            self::assertMatchesRegularExpression('/^\[true,\d+\]/', $body, "$way: {$this->fpm->log()}");
            // "finished before": the answer is out while the request still ends.
            eventually(static fn () => self::stored('order:1') === null, "$way: the lock is free", $way === 'finished before' ? 2.0 : 0.1);
            $seen[] = [strtok($body, ']'), self::clients()];
        }
        self::assertCount(1, array_unique($seen, SORT_REGULAR), 'the same worker, and the same Redis client throughout');
        self::assertStringNotContainsString('panicked', $this->fpm->log());
        self::assertStringNotContainsString('exited on signal', $this->fpm->log());
    }

    public function testARequestWhoseClientIsGoneGivesItsLockBack(): void
    {
        $this->serve(self::PREPARE . <<<'PHP'
            $lock->acquire();
            for (;;) {
                echo str_repeat('x', 100_000);
                flush();
                usleep(1000);
            }
            PHP);
        $request = $this->fpm->begin();
        eventually(static fn () => self::stored('order:1') !== null, 'it is held');
        $request->signal(SIGKILL);

        eventually(static fn () => self::stored('order:1') === null, 'the aborted request gave it back', 5.0);
    }

    public function testARequestThatFpmTerminatesLeavesItsLockToTheTtl(): void
    {
        $this->serve(<<<'PHP'
            $lock = new DistributedLock('order:1', 3.0);
            $hold = static function () use ($query): void {
                usleep(30_000_000);
            };
            $query === 'synchronized' ? $lock->synchronized($hold) : ($lock->acquire() && $hold());
            PHP, ['request_terminate_timeout' => '1s']);
        foreach (['', 'synchronized'] as $how) {
            $before = $this->fpm->workers();
            $this->fpm->get($how);
            eventually(fn () => $this->fpm->workers() !== $before, 'the worker was ended');
            self::assertGreaterThan(0, self::$server->command('PTTL', 'lock:order:1'), "$how: nothing of PHP runs then");
            eventually(static fn () => self::stored('order:1') === null, "$how: the lock has freed itself", 3.5);
            eventually(fn () => count(self::clients()) === 0, 'its connection is gone');
        }
    }

    public function testAWorkerThatIsKilledLeavesItsLockToTheTtlAndItsSuccessorWorks(): void
    {
        $this->serve(<<<'PHP'
            $lock = new DistributedLock('order:1', 0.6);
            echo json_encode($lock->acquire(5.0));
            if ($query === 'wait') {
                usleep(30_000_000);
            }
            PHP);
        $request = $this->fpm->begin('wait');
        eventually(static fn () => self::stored('order:1') !== null, 'it is held');
        posix_kill($this->fpm->workers()[0], SIGKILL);
        Fpm::body($request);

        self::assertGreaterThan(0, self::$server->command('PTTL', 'lock:order:1'));
        self::assertSame('true', $this->fpm->get(), 'the successor waits until the lock has freed itself');
    }

    public function testAGracefulReloadLetsTheRequestFinishWithItsLock(): void
    {
        $this->serve(self::PREPARE . <<<'PHP'
            $lock->acquire();
            if ($query === 'wait') {
                $until('go');
            }
            echo json_encode([$lock->isHeld(), $lock->release(), getmypid()]);
            PHP);
        $before = $this->fpm->workers();
        $request = $this->fpm->begin('wait');
        eventually(static fn () => self::stored('order:1') !== null, 'it is held');
        $client = self::clients();
        $this->fpm->signal(SIGUSR2);
        eventually(fn () => str_contains($this->fpm->log(), 'Reloading'), 'FPM reloads');
        self::assertIsString(self::stored('order:1'), 'the request goes on');
        self::$server->command('SET', 'lock:go', 'now', 'PX', 60_000);

        self::assertSame(json_encode([true, true, $before[0]]), Fpm::body($request));
        [$held, $released, $pid] = json_decode(eventually(fn () => $this->fpm->get(), 'the reloaded FPM answers'));
        self::assertTrue($held && $released);
        self::assertNotSame($before[0], $pid);
        eventually(static fn () => array_intersect($client, self::clients()) === [], "the old worker's connection has ended with it");
    }

    public function testAWorkerRespawnedAfterItsRequestsLeavesNothingBehind(): void
    {
        $this->serve(self::PREPARE . 'echo json_encode([$lock->acquire(), getmypid()]);', ['pm.max_requests' => 3]);
        $processes = [];
        for ($request = 0; $request < 10; $request++) {
            [$acquired, $processes[]] = json_decode(eventually(fn () => $this->fpm->get(), 'an answer'));
            self::assertTrue($acquired, "request $request");
            self::assertNull(self::stored('order:1'));
        }
        self::assertGreaterThanOrEqual(4, count(array_unique($processes)));
        eventually(static fn () => count(self::clients()) <= 1, 'one worker, one connection');
        self::assertStringNotContainsString('exited on signal', $this->fpm->log());
    }

    public function testAPreloadedScriptThatLocksDisturbsNoWorker(): void
    {
        $preload = PhpProcess::script(<<<'PHP'
            <?php
            $GLOBALS['kept'] = new DistributedLock('order:1', 60.0);
            error_log('preloaded: ' . json_encode($GLOBALS['kept']->acquire()));
            PHP);
        $this->serve(
            self::PREPARE . '$own = new DistributedLock("own:" . getmypid(), 60.0); $own->acquire(); $other = $lock->acquire(5.0); usleep(20_000);
            echo json_encode([$other, getmypid()]);',
            ['pm.max_children' => 2],
            ['zend_extension' => 'opcache', 'opcache.preload' => $preload, 'opcache.preload_user' => posix_getpwuid(posix_geteuid())['name']],
        );
        if (str_contains($this->fpm->log(), 'Failed loading')) {
            self::markTestSkipped('this PHP has no opcache: ' . $this->fpm->log());
        }
        self::assertStringContainsString('preloaded: true', $this->fpm->log());
        self::assertFalse(self::isTaken(), 'the preloaded script gave it back');
        $processes = [];
        for ($round = 0; $round < 10 && count(array_unique($processes)) < 2; $round++) {
            foreach ([$this->fpm->begin(), $this->fpm->begin()] as $request) {
                [$acquired, $processes[]] = json_decode(Fpm::body($request));
                self::assertTrue($acquired);
            }
        }
        self::assertCount(2, array_unique($processes), 'both workers served');
        self::assertGreaterThanOrEqual(2, count(self::clients()), 'each has a connection of its own');
        self::assertFalse(self::isTaken());
    }

    public function testWhenFpmEndsEveryConnectionDoes(): void
    {
        foreach ([SIGQUIT, SIGTERM] as $signal) {
            $this->serve(self::PREPARE . '$lock->acquire(1.0); echo "done";', ['pm.max_children' => 3]);
            foreach (range(1, 6) as $request) {
                self::assertSame('done', $this->fpm->get());
            }
            self::assertNotSame([], self::clients());
            self::assertSame(0, $this->fpm->stop($signal));
            eventually(static fn () => self::clients() === [], 'no connection is left', 2.0);
            self::assertStringNotContainsString('SIGSEGV', $this->fpm->log());
            $this->fpm = null;
        }
    }

    public function testASettingOfThePoolReachesItsRequests(): void
    {
        $this->serve(
            '$lock = new DistributedLock("order:1"); $lock->acquire(); $lock->detach(); echo ini_get("redis_lease.prefix");',
            ['php_admin_value[redis_lease.prefix]' => '"pool:"', 'php_value[redis_lease.ttl]' => '77'],
        );
        self::assertSame('pool:', $this->fpm->get());
        self::assertGreaterThan(70_000, self::$server->command('PTTL', 'pool:order:1'));
    }

    private function serve(string $code, array $pool = [], array $ini = []): void
    {
        $this->fpm = Fpm::start($code, $pool, $ini + ['redis_lease.dsn' => self::$server->dsn(), 'redis_lease.command_timeout' => '5']);
    }

    /** A lock that is kept for a waiter, who may have gone, is free. */
    private static function isTaken(): bool
    {
        return !str_starts_with(self::stored('order:1') ?? 'reserved:', 'reserved:');
    }

    /** @return list<string> the ids of the server's clients, without the test's own */
    private static function clients(): array
    {
        $own = self::$server->command('CLIENT', 'ID');
        preg_match_all('/^id=(\d+)/m', self::$server->command('CLIENT', 'LIST', 'TYPE', 'normal'), $found);

        return array_values(array_diff($found[1], [(string) $own]));
    }
}
