<?php

declare(strict_types=1);

namespace RedisLease\Tests\Renewal;

use RedisLease\Tests\Support\PhpProcess;

use function RedisLease\Tests\Support\eventually;

/** The thread: there when it is needed and only then, cheap, deaf to signals, and no burden for those who do without it. */
final class ThreadTest extends RenewalTestCase
{
    public function testThereIsNoThreadBeforeItIsAskedForAndOneFromThenOn(): void
    {
        $worker = self::renewing(<<<'PHP'
            $info = static function (): string {
                ob_start();
                phpinfo(INFO_MODULES);
                return preg_match('/^Automatic renewal => (.*)$/m', ob_get_clean(), $found) ? $found[1] : '?';
            };
            $plain = new DistributedLock('plain', 30.0, connection: $connection);
            $plain->acquire();
            $plain->renew();
            $plain->release();
            $lock = $new('order:1', 10.0);
            say([$threads(), $info()]);
            $lock->acquire();
            // It has its name once it runs.
            while ($threads() === []);
            say([$threads(), $info()]);
            $second = $new('order:2', 10.0, true);
            $second->acquire();
            say([$threads(), $info()]);
            $lock->release();
            $second->release();
            say([$threads(), $info()]);
            PHP);
        self::assertSame([[], 'thread not started'], $worker->hear());
        self::assertSame([['lease-renewal'], 'thread runs, renews 1 lease'], $worker->hear());
        self::assertSame([['lease-renewal'], 'thread runs, renews 2 leases'], $worker->hear());
        self::assertSame([['lease-renewal'], 'thread runs, renews 0 leases'], $worker->hear());
        $worker->finish();
    }

    public function testSignalsReachPhpAndNeverTheThread(): void
    {
        self::needsPcntl();
        $worker = self::renewing(<<<'PHP'
            pcntl_async_signals(true);
            $count = 0;
            pcntl_signal(SIGUSR1, static function () use (&$count): void { $count++; });
            $lock = $new('order:1', 0.1);
            $lock->acquire();
            while ($threads() !== ['lease-renewal']);
            foreach (glob('/proc/self/task/*') as $task) {
                if (trim(file_get_contents("$task/comm")) === 'lease-renewal') {
                    preg_match('/^SigBlk:\s*([0-9a-f]+)/m', file_get_contents("$task/status"), $blocked);
                }
            }
            say($blocked[1]);
            while ($count < $args['signals']) {
                // Blocked in C or not.
                $count % 2 ? usleep(100) : md5('x');
            }
            say($count);
            PHP, ['signals' => 200]);
        $blocked = hexdec(substr($worker->hear(), -8));
        foreach ([SIGUSR1, SIGALRM, SIGTERM, SIGINT, SIGCHLD, SIGPROF, SIGHUP, SIGQUIT] as $signal) {
            self::assertSame(1, ($blocked >> ($signal - 1)) & 1, "signal $signal is blocked");
        }
        foreach ([SIGSEGV, SIGBUS, SIGFPE] as $signal) {
            self::assertSame(0, ($blocked >> ($signal - 1)) & 1, "signal $signal is not");
        }
        for ($sent = 0; $sent < 5_000 && !$worker->hasSaid(); $sent++) {
            $worker->signal(SIGUSR1);
            usleep(200);
        }
        self::assertSame(200, $worker->hear());
        $worker->finish();
    }

    public function testTenLeasesOfTenSecondsCostNextToNothing(): void
    {
        $seconds = self::thorough(30, 3);
        // The kernel maps pages of the program and its libraries by the 64 KiB, as it has memory: now and then some more
        // of those, which cost nothing, are counted in.
        for ($try = 1, $memory = 300; $memory >= 300 && $try <= 3; $try++) {
            [$memory, $cpu] = $this->costOfTenLeases($seconds);
        }
        self::assertLessThan(300, $memory, 'KiB');
        self::assertLessThan(0.001 * $seconds, $cpu, 'CPU');
    }

    public function testAProcessEndsAtOnceWhateverTheThreadIsDoing(): void
    {
        foreach (['' => true, 'hear();' => false] as $pause => $answers) {
            $worker = self::renewing(<<<PHP
                \$lock = \$new('order:1', 0.3, false, new Connection(\$dsn, 0.5, 0.5));
                \$lock->acquire(5.0);
                say('held');
                $pause
                PHP);
            $worker->hear();
            $start = microtime(true);
            if (!$answers) {
                self::$server->pause();
                usleep(200_000);
                $start = microtime(true);
                $worker->say();
            }
            $worker->finish();
            self::assertLessThan($answers ? 0.5 : 1.5, microtime(true) - $start);
            if (!$answers) {
                self::$server->resume();
            }
        }
    }

    public function testTheThreadHasConnectionsOfItsOwnAndSurvivesTheirEnd(): void
    {
        $worker = self::renewing(<<<'PHP'
            $lock = $new('order:1', 0.6);
            $lock->acquire();
            say('held');
            while (hear() !== null) {
                $connection->close();
                say($lock->isHeld());
            }
            PHP);
        $worker->hear();
        $clients = static fn (): int => substr_count(self::$server->command('CLIENT', 'LIST', 'TYPE', 'normal'), 'id=') - 1;
        eventually(static fn () => $clients() === 2, "PHP's and the thread's");
        for ($turn = 0; $turn < 3; $turn++) {
            $worker->say('close');
            self::assertTrue($worker->hear());
            eventually(static fn () => $clients() === 1, "the thread's is left");
            self::$server->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
            eventually(static fn () => $clients() === 1, 'and is made again', 1.0);
        }
        $worker->say(null);
        $worker->finish();
    }

    public function testWhereNoThreadCanBeStartedTheLockIsNotTaken(): void
    {
        // The limit does not bind root.
        $command = ['prlimit', '--nproc=1', ...PhpProcess::interpreter()];
        if (posix_geteuid() === 0) {
            array_unshift($command, 'setpriv', '--reuid=65534', '--clear-groups');
        }
        $which = PhpProcess::startProgram([...$command, '-r', 'echo PHP_VERSION, extension_loaded("redis_lease");']);
        $which->wait();
        if ($which->output() !== PHP_VERSION . '1') {
            self::markTestSkipped('no process can be limited here: ' . $which->everything());
        }
        // Nobody answers there, and nobody is asked.
        $process = PhpProcess::startProgram([...$command, '-r', <<<'PHP'
            $lock = new DistributedLock('order:1', 10.0, true, new RedisLease\Connection('unix:///dev/null/no-redis'));
            foreach (['acquire', 'renew'] as $call) {
                try {
                    echo json_encode($lock->$call()), ' ';
                } catch (RedisLease\LeaseException $thrown) {
                    echo $thrown::class, ' ', $thrown->getMessage(), ' ', json_encode($lock->isHeld()), ' ';
                }
            }
            PHP]);
        $process->wait();
        self::assertStringStartsWith(
            'RedisLease\LeaseException Lock "order:1": the thread for automatic renewal cannot be started: ',
            $process->output(),
            $process->errors(),
        );
        self::assertStringEndsWith(' false false ', $process->output());
    }

    /** @return array{int, float} KiB of resident memory, and the thread's seconds of CPU in so many seconds */
    private function costOfTenLeases(int $seconds): array
    {
        $worker = self::renewing(<<<'PHP'
            $memory = static function (): int {
                preg_match('/^VmRSS:\s+(\d+)/m', file_get_contents('/proc/self/status'), $found);
                return (int) $found[1];
            };
            $used = static function (): float {
                foreach (glob('/proc/self/task/*') as $task) {
                    if (trim(file_get_contents("$task/comm")) === 'lease-renewal') {
                        return (int) explode(' ', file_get_contents("$task/schedstat") ?: '0')[0] / 1e9;
                    }
                }
            };
            // What any lease needs is there before.
            $plain = new DistributedLock('plain', 10.0, connection: $connection);
            for ($i = 0; $i < 20; $i++) {
                $plain->acquire();
                $plain->renew();
                $plain->release();
            }
            $memory();
            $before = $memory();
            $locks = [];
            for ($i = 0; $i < 10; $i++) {
                $locks[] = $lock = $new("order:$i", 10.0);
                $lock->acquire();
            }
            usleep(4_000_000);
            $start = $used();
            usleep($args['seconds'] * 1_000_000);
            $cpu = $used() - $start;
            say([$memory() - $before, $cpu]);
            PHP, ['seconds' => $seconds]);
        [$memory, $cpu] = $worker->hear($seconds + 20.0);
        $worker->finish();
        if (getenv('REDIS_LEASE_FIGURES')) {
            fprintf(STDERR, "  the thread and ten leases: %d KiB, %.4f %% CPU\n", $memory, 100 * $cpu / $seconds);
        }

        return [$memory, $cpu];
    }
}
