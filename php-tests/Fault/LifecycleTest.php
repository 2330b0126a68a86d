<?php

declare(strict_types=1);

namespace RedisLease\Tests\Fault;

use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\PhpProcess;
use RedisLease\Tests\Support\ServerTestCase;
use RedisLease\Tests\Support\Worker;

use function RedisLease\Tests\Support\eventually;

/**
 * Each way a process can end on the command line: the lock is free at once where PHP gets to run anything
 * of ours, and frees itself by its TTL where nothing can run. FpmLifecycleTest is the same for FPM.
 */
final class LifecycleTest extends ServerTestCase
{
    private const SHORT = 0.6;
    private const HANDLER = 'pcntl_async_signals(true); pcntl_signal(SIGTERM, static function (): void { %s });';
    private const LOOP = 'say("ready"); for (;;) { usleep(1000); }';

    /** @return array<string, array{string, 1?: int, 2?: int}> code, the signal that the test sends, the exit code */
    private static function freeAtOnce(): array
    {
        $in = static fn (string $code) => "\$lock->synchronized(static function (\$lock): void { $code });";
        $exits = sprintf(self::HANDLER, 'exit(4);');
        $throws = sprintf(self::HANDLER, 'throw new Exception("stop");');
        $waits = '$other = new DistributedLock("taken", 60.0, connection: $connection); say("ready"); $other->acquire(60.0);';
        $interrupted = 'pcntl_async_signals(true); pcntl_signal(SIGINT, static function (): void { exit(4); });';

        return [
            'return' => [''],
            'exit' => ['exit(3);', 0, 3],
            'exit in synchronized()' => [$in('exit(3);'), 0, 3],
            'an uncaught exception' => ['throw new Exception("boom");', 0, 255],
            'an uncaught exception in synchronized()' => [$in('throw new Exception("boom");'), 0, 255],
            'an exception of a destructor' => ['new class { function __destruct() { throw new Exception("boom"); } };', 0, 255],
            'a fatal error' => ['no_such_function();', 0, 255],
            'a fatal error in synchronized()' => [$in('eval("class DistributedLock {}");'), 0, 255],
            'the memory limit' => ['str_repeat("x", PHP_INT_MAX >> 8);', 0, 255],
            'the memory limit in synchronized()' => [$in('str_repeat("x", PHP_INT_MAX >> 8);'), 0, 255],
            'the memory limit three deep' => [
                $in('$inner = new DistributedLock("order:2", 60.0, connection: $GLOBALS["connection"]);
                $inner->synchronized(static fn () => array_map(static fn () => str_repeat("x", PHP_INT_MAX >> 8), [1]));'),
                0, 255,
            ],
            'the time limit' => ['set_time_limit(1); for (;;);', 0, 255],
            'the time limit in synchronized()' => [$in('set_time_limit(1); for (;;);'), 0, 255],
            'a stack that overflows into the memory limit' => [$in('$f = static function ($f) { $f($f); }; $f($f);'), 0, 255],
            'SIGTERM with a handler that exits' => [$exits . self::LOOP, SIGTERM, 4],
            'SIGTERM with a handler that exits, in synchronized()' => [$in($exits . self::LOOP), SIGTERM, 4],
            'SIGTERM with a handler that throws' => [$throws . self::LOOP, SIGTERM, 255],
            'SIGTERM with a handler that throws, in synchronized()' => [$in($throws . self::LOOP), SIGTERM, 255],
            'SIGTERM with a handler that exits while it waits' => [$exits . $waits, SIGTERM, 4],
            'SIGTERM with a handler that throws while it waits' => [$throws . $waits, SIGTERM, 255],
            'SIGTERM dispatched by hand' => [
                'pcntl_signal(SIGTERM, static function (): void { exit(4); });
                say("ready"); for (;;) { usleep(1000); pcntl_signal_dispatch(); }', SIGTERM, 4,
            ],
            'SIGINT with a handler' => [$interrupted . self::LOOP, SIGINT, 4],
            'an open connection, closed before' => ['$connection->close();'],
            'two open connections' => ['(new DistributedLock("x", 1.0, connection: new Connection("$dsn?db=1", 5.0, 5.0)))->acquire();'],
        ];
    }

    /** @return array<string, array{string, int}> code, and the signal that ends it; the TTL serves */
    private static function freeByTtl(): array
    {
        $section = '$lock->synchronized(static function ($lock): void {' . self::LOOP . '});';

        return [
            'SIGTERM without a handler' => [self::LOOP, SIGTERM],
            'SIGTERM without a handler, in synchronized()' => [$section, SIGTERM],
            'SIGKILL' => [self::LOOP, SIGKILL],
            'SIGKILL in synchronized()' => [$section, SIGKILL],
            'SIGHUP' => [self::LOOP, SIGHUP],
            'SIGABRT' => [self::LOOP, SIGABRT],
            'another program in its place' => ['pcntl_exec("/bin/sh", ["-c", "kill -KILL \$\$"]);', 0],
        ];
    }

    protected function setUp(): void
    {
        parent::setUp();
        if (!function_exists('pcntl_fork')) {
            self::markTestSkipped('PHP was built without pcntl');
        }
        self::$server->command('SET', 'lock:taken', 'somebody', 'PX', 600_000);
    }

    public function testWhereverPhpCanStillRunTheLockIsFreeAtOnce(): void
    {
        foreach (self::freeAtOnce() as $way => $row) {
            [$code, $signal, $exitCode] = $row + [1 => 0, 2 => 0];
            $worker = $this->holder($code, 60.0);
            self::assertIsString(self::stored('order:1'), "$way: it was never held");
            $worker->say();
            if ($signal !== 0) {
                self::assertSame('ready', $worker->hear(), $way);
                $worker->signal($signal);
            }
            self::assertSame($exitCode, $worker->wait(), "$way: " . $worker->errors());

            self::assertNull(self::stored('order:1'), "$way: the lock outlived its process");
            self::assertNull(self::stored('order:2'), "$way: the inner lock outlived its process");
            self::assertSame('somebody', self::stored('taken'), $way);
            self::assertStringNotContainsString('panicked', $worker->errors(), $way);
            $this->assertNobodyIsConnected($way);
        }
    }

    public function testWhereNothingCanRunTheTtlServes(): void
    {
        foreach (self::freeByTtl() as $way => [$code, $signal]) {
            $worker = $this->holder($code, self::SHORT);
            $worker->say();
            if ($signal !== 0) {
                self::assertSame('ready', $worker->hear(), $way);
                $worker->signal($signal);
            }
            self::assertSame(128 + ($signal ?: SIGKILL), $worker->wait(), $way);

            $left = self::$server->command('PTTL', 'lock:order:1');
            self::assertGreaterThan(0, $left, "$way: the documentation says that nothing runs");
            self::assertLessThanOrEqual(self::SHORT * 1000, $left, $way);
            eventually(static fn () => self::stored('order:1') === null, "$way: the lock has freed itself", self::SHORT + 0.5);
            $this->assertNobodyIsConnected($way);
        }
    }

    public function testAForkBeforeTheFirstUseLeavesEachProcessALockOfItsOwn(): void
    {
        $worker = self::worker(<<<'PHP'
            $lock = new DistributedLock('order:1', 60.0, connection: $connection);
            if (pcntl_fork() === 0) {
                say($lock->acquire());
                hear();
                exit;
            }
            pcntl_wait($status);
            say([$lock->isHeld(), $lock->acquire()]);
            PHP);
        self::assertTrue($worker->hear());
        self::assertIsString(self::stored('order:1'));
        $worker->say();
        self::assertSame([false, true], $worker->hear(), "the child's lock ended with the child");
        $worker->finish();
        self::assertNull(self::stored('order:1'));
    }

    public function testAForkWhileHoldingLeavesTheLockToTheParentHoweverTheChildEnds(): void
    {
        $ends = [
            'exit' => 'exit;', 'fatal' => 'no_such_function();', 'memory' => 'str_repeat("x", PHP_INT_MAX >> 8);',
            'killed' => 'exec("kill -KILL " . getmypid());', 'exec' => 'pcntl_exec("/bin/true");',
            'a grandchild' => 'if (pcntl_fork() === 0) { exit; } exit;',
        ];
        foreach ($ends as $how => $end) {
            $worker = $this->holder("if ((\$child = pcntl_fork()) === 0) { fclose(STDERR); $end }
                pcntl_waitpid(\$child, \$status); say(\$lock->isHeld()); hear(); say(\$lock->release());", 60.0);
            $token = self::stored('order:1');
            $worker->say();
            self::assertTrue($worker->hear(), $how);
            self::assertSame($token, self::stored('order:1'), "$how: the child gave it back");
            $worker->say();
            self::assertTrue($worker->hear(), $how);
            $worker->finish();
        }
    }

    public function testAForkInAWaitLeavesTheParentWaiting(): void
    {
        $worker = self::worker(<<<'PHP'
            pcntl_async_signals(true);
            pcntl_signal(SIGUSR1, static function () use ($connection): void {
                if (($child = pcntl_fork()) === 0) {
                    $own = new DistributedLock('of the child', 60.0, connection: $connection);
                    say(['child', $own->acquire()]);
                    exit;
                }
                pcntl_waitpid($child, $status);
                say(['parent', pcntl_wexitstatus($status)]);
            });
            $lock = new DistributedLock('taken', 60.0, connection: $connection);
            say('waiting');
            say($lock->acquire(30.0));
            PHP);
        self::assertSame('waiting', $worker->hear());
        for ($fork = 0; $fork < 3; $fork++) {
            $this->awaitWaiter();
            $worker->signal(SIGUSR1);
            self::assertSame(['child', true], $worker->hear());
            self::assertSame(['parent', 0], $worker->hear());
            self::assertNull(self::stored('of the child'));
        }
        $holder = \DistributedLock::restore('taken', 'somebody', 60.0, $this->connection());
        self::assertTrue($holder->release());
        self::assertTrue($worker->hear(5.0), 'the children took something from the wait');
        $worker->finish();
    }

    public function testAWaiterThatIsKilledIsInNobodysWay(): void
    {
        $worker = self::worker("say('waiting'); (new DistributedLock('taken', 60.0, connection: \$connection))->acquire(30.0);");
        self::assertSame('waiting', $worker->hear());
        $this->awaitWaiter();
        $worker->kill();
        $this->assertNobodyIsConnected('the killed waiter');
        self::assertTrue(\DistributedLock::restore('taken', 'somebody', 60.0, $this->connection())->release());

        self::assertTrue($this->lock('taken')->acquire(1.0), 'it was kept for the dead');
    }

    public function testADaemonThatForksTwiceKeepsItsOwnLockAndNoOther(): void
    {
        $worker = $this->holder(<<<'PHP'
            if (pcntl_fork() !== 0) {
                exit;
            }
            if (pcntl_fork() !== 0) {
                exit;
            }
            $own = new DistributedLock('of the daemon', 60.0, connection: $connection);
            say([$own->acquire(), $lock->isHeld(), $lock->release()]);
            while ((new DistributedLock('stop', 60.0, connection: $connection))->owner() === null) {
                usleep(1000);
            }
            PHP, 60.0);
        $worker->say();
        // The process that was started ends on purpose: that must not be taken for the end of all.
        eventually(static fn () => $worker->hasSaid(), 'the daemon has its own lock');
        self::assertSame([true, false, false], $worker->hear());
        $worker->wait();
        eventually(static fn () => self::stored('order:1') === null, 'the first process gave its lock back');
        self::assertIsString(self::stored('of the daemon'));
        self::$server->command('SET', 'lock:stop', 'now', 'PX', 60_000);
        eventually(static fn () => self::stored('of the daemon') === null, 'the daemon has ended, and so has its lock');
    }

    public function testAPreloadedScriptThatLocksGivesItsLockBackBeforeTheFirstRequest(): void
    {
        $preload = PhpProcess::script(sprintf(
            "<?php\n\$GLOBALS['kept'] = new DistributedLock('order:1', 60.0, connection: new RedisLease\\Connection(%s, 5.0, 5.0));
            file_put_contents('php://stderr', var_export(\$GLOBALS['kept']->acquire(), true));",
            var_export(self::$server->dsn(), true),
        ));
        $user = posix_getpwuid(posix_geteuid())['name'];
        $ini = ['zend_extension' => 'opcache', 'opcache.enable_cli' => '1', 'opcache.preload' => $preload];
        $ini['opcache.preload_user'] = $user;
        $process = PhpProcess::run("echo json_encode((new DistributedLock('order:1', 60.0, connection:
            new RedisLease\\Connection(" . var_export(self::$server->dsn(), true) . ', 5.0, 5.0)))->acquire());', $ini);
        if (str_contains($process->errors(), 'Failed loading')) {
            self::markTestSkipped('this PHP has no opcache: ' . $process->errors());
        }

        self::assertSame('true', $process->output(), $process->everything());
        self::assertSame('true', $process->errors(), 'the preloaded script had it');
        self::assertSame(0, $process->wait());
        self::assertNull(self::stored('order:1'));
    }

    public function testAnExtensionLoadedByDlGivesItsLocksBackToo(): void
    {
        $directory = Janitor::directory('.dl');
        symlink(PhpProcess::extension(), "$directory/redis_lease.so");
        $process = PhpProcess::run(sprintf(<<<'PHP'
            if (!@dl('redis_lease.so')) {
                exit('no dl()');
            }
            $lock = new DistributedLock('order:1', 60.0, connection: new RedisLease\Connection(%s, 5.0, 5.0));
            echo json_encode($lock->acquire());
            PHP, var_export(self::$server->dsn(), true)), ['enable_dl' => '1', 'extension_dir' => $directory], extension: false);
        if ($process->output() === 'no dl()') {
            self::markTestSkipped('this PHP does not load extensions at run time');
        }

        self::assertSame('true', $process->output(), $process->everything());
        self::assertSame('', $process->errors());
        self::assertSame(0, $process->wait());
        self::assertNull(self::stored('order:1'));
    }

    /** A worker that holds 'order:1' and runs the code when it is told to. */
    private function holder(string $code, float $ttl): Worker
    {
        self::$server->command('DEL', 'lock:order:1');
        $worker = self::worker(<<<PHP
            \$lock = new DistributedLock('order:1', \$args['ttl'], connection: \$connection);
            say(\$lock->acquire());
            hear();
            $code
            PHP, ['ttl' => $ttl]);
        self::assertTrue($worker->hear());

        return $worker;
    }

    private function awaitWaiter(): void
    {
        eventually(static fn () => str_contains(self::$server->command('INFO', 'clients'), 'blocked_clients:1'), 'it waits');
    }

    private function assertNobodyIsConnected(string $way): void
    {
        // The test's own client is one.
        $count = static fn () => substr_count(self::$server->command('CLIENT', 'LIST', 'TYPE', 'normal'), "\n");
        (new \RedisLease\Connection(self::$server->dsn()))->close();
        eventually(static fn () => $count() === 1, "$way: every connection has ended with its process", 2.0);
    }
}
