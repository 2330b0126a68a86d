<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use RedisLease\Tests\Support\ServerTestCase;

use function RedisLease\Tests\Support\timed;

/** A lock is given back with its last reference, and at the latest when the request ends, in whatever way. */
final class RequestEndTest extends ServerTestCase
{
    private const WAYS = [
        'return' => '',
        'exit' => 'exit;',
        'exit with a code' => 'exit(3);',
        'exit in a function' => '(static function (): void { exit; })();',
        'an uncaught exception' => "throw new RuntimeException('boom');",
        'an undefined function' => 'no_such_function();',
        'a user error' => "trigger_error('boom', E_USER_ERROR);",
        'a compile error' => "eval('class DistributedLock {}');",
        'the memory limit' => 'ini_set("memory_limit", "4M"); str_repeat("x", 100_000_000);',
        'the time limit' => 'set_time_limit(1); for (;;);',
        'exit in a shutdown function' => 'register_shutdown_function(static function (): void { exit; });',
        'a fatal error in a shutdown function' => 'register_shutdown_function(static fn () => str_repeat("x", 1 << 50));',
    ];

    private const HOLDERS = [
        'a global variable' => '$lock->acquire();',
        'a static property' => 'final class Holder { public static ?object $lock; }'
            . 'Holder::$lock = $lock; $lock->acquire(); unset($lock);',
        'a static variable' => 'function keep($it) { static $kept; $kept = $it; } keep($lock); $lock->acquire(); unset($lock);',
        'a cycle' => '$cycle = new stdClass(); $cycle->lock = $lock; $cycle->self = $cycle;'
            . '$lock->acquire(); unset($lock, $cycle);',
        'a closure' => '$closure = static fn () => $lock; $lock->acquire(); unset($lock);',
        'a generator' => '$generator = (static function () use ($lock) { yield 1; })(); $generator->current();'
            . '$lock->acquire(); unset($lock);',
    ];

    public function testHoweverARequestEndsItsLocksAreFreeAtOnce(): void
    {
        foreach (self::WAYS as $way => $end) {
            $this->assertFreedBy($way, self::HOLDERS['a global variable'], $end);
        }
    }

    public function testWhereverALockIsKeptItIsFreedAtTheEndOfTheRequest(): void
    {
        foreach (self::HOLDERS as $holder => $hold) {
            foreach (['return', 'exit', 'an uncaught exception', 'the memory limit'] as $way) {
                $this->assertFreedBy("$holder, $way", $hold, self::WAYS[$way]);
            }
        }
    }

    public function testALockHeldBySynchronizedIsFreedHoweverTheCallbackEnds(): void
    {
        foreach (self::WAYS as $way => $end) {
            $hold = <<<'PHP'
                $lock->synchronized(static function ($held): void {
                    say($held->token());
                    hear();
                    %s
                });
                PHP;
            $worker = self::worker($this->holding(sprintf($hold, $end)));
            $this->assertFreed($worker, "in synchronized(): $way");
        }
    }

    public function testManyLocksAreAllFreed(): void
    {
        $worker = self::worker(<<<'PHP'
            for ($i = 0; $i < 200; $i++) {
                $locks[] = $lock = new DistributedLock("order:$i", 60.0, connection: $connection);
                $lock->acquire();
            }
            say('held');
            hear();
            str_repeat('x', PHP_INT_MAX >> 8);
            PHP);
        $worker->hear();
        self::assertCount(200, array_filter(array_map(static fn ($i) => self::stored("order:$i"), range(0, 199))));
        $worker->say();
        $worker->wait();

        self::assertCount(0, array_filter(array_map(static fn ($i) => self::stored("order:$i"), range(0, 199))));
    }

    public function testAReleaseInADestructorOrShutdownFunctionStillWorks(): void
    {
        $worker = self::worker(<<<'PHP'
            final class Job
            {
                public function __construct(private DistributedLock $lock)
                {
                    $lock->acquire();
                }
                public function __destruct()
                {
                    say($this->lock->release());
                }
            }
            $job = new Job(new DistributedLock('order:1', 60.0, connection: $connection));
            $lock = new DistributedLock('order:2', 60.0, connection: $connection);
            $lock->acquire();
            register_shutdown_function(static function () use ($lock): void {
                say($lock->release());
            });
            PHP);

        self::assertTrue($worker->hear(), 'in the shutdown function');
        self::assertTrue($worker->hear(), 'in the destructor');
        $worker->finish();
    }

    public function testADetachedLockOutlivesTheRequest(): void
    {
        $worker = self::worker($this->holding('$lock->acquire(); $lock->detach();'));
        $worker->finish();

        self::assertIsString(self::stored('order:1'));
    }

    public function testWithReleaseOnShutdownOffALockOutlivesTheRequest(): void
    {
        foreach (['a static property', 'a static variable', 'a cycle'] as $holder) {
            self::$server->flush();
            $worker = self::worker($this->holding(self::HOLDERS[$holder]), [], ['redis_lease.release_on_shutdown' => '0']);
            $worker->finish();

            self::assertIsString(self::stored('order:1'), $holder);
        }
    }

    public function testAKilledWorkersLockWaitsForItsTtl(): void
    {
        foreach ([SIGKILL, SIGTERM] as $signal) {
            self::$server->flush();
            $worker = self::worker($this->holding('$lock->acquire(); say($lock->token()); hear();'));
            $token = $worker->hear();
            $worker->signal($signal);
            self::assertSame(128 + $signal, $worker->wait());

            self::assertSame($token, self::stored('order:1'), 'nothing of PHP runs on a signal that kills');
            self::assertGreaterThan(0, self::$server->command('PTTL', 'lock:order:1'));
        }
    }

    public function testAnotherOwnersLockIsNotFreedAtTheEndOfTheRequest(): void
    {
        $worker = self::worker($this->holding('$lock->acquire(); say($lock->token()); hear();'));
        $worker->hear();
        self::$server->command('SET', 'lock:order:1', 'another owner', 'PX', 60_000);
        $worker->say();
        $worker->finish();

        self::assertSame('another owner', self::stored('order:1'));
    }

    public function testARequestWithADeadServerEndsQuietlyAndInTime(): void
    {
        $worker = self::worker(<<<'PHP'
            $slow = new Connection($dsn, 0.2, 0.2);
            for ($i = 0; $i < 20; $i++) {
                $locks[] = $lock = new DistributedLock("order:$i", 60.0, connection: $slow);
                $lock->acquire();
            }
            say('held');
            hear();
            PHP);
        $worker->hear();
        self::$server->pause();
        try {
            $worker->say();
            [, $seconds] = timed(static fn () => $worker->finish());
        } finally {
            self::$server->resume();
        }
        self::assertLessThan(1.0, $seconds, 'twenty locks together may take one command time-out');
    }

    private function assertFreedBy(string $way, string $hold, string $end): void
    {
        $worker = self::worker($this->holding("$hold\nsay('held');\nhear();\n$end"));
        $this->assertFreed($worker, $way);
    }

    private function assertFreed(\RedisLease\Tests\Support\Worker $worker, string $way): void
    {
        $worker->hear();
        self::assertIsString(self::stored('order:1'), "$way: it was never held");
        $worker->say();
        $code = $worker->wait();

        self::assertNull(self::stored('order:1'), "$way: the lock outlived the request");
        self::assertNotContains($code, range(129, 192), "$way: the process crashed: " . $worker->errors());
        self::assertStringNotContainsString('redis_lease', $worker->errors(), $way);
        self::assertStringNotContainsString('panicked', $worker->errors(), $way);
    }

    private function holding(string $code): string
    {
        return "\$lock = new DistributedLock('order:1', 60.0, connection: \$connection);\n$code\n";
    }
}
