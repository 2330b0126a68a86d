<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use RedisLease\Tests\Support\ServerTestCase;

/** A forked child is another owner: it neither holds nor releases what its parent holds. */
final class ForkTest extends ServerTestCase
{
    private const HOLD = <<<'PHP'
        $lock = new DistributedLock('order:1', 60.0, connection: $connection);
        $lock->acquire();
        say($lock->token());

        PHP;

    public static function setUpBeforeClass(): void
    {
        if (!function_exists('pcntl_fork')) {
            self::markTestSkipped('PHP was built without pcntl');
        }
        parent::setUpBeforeClass();
    }

    public function testAForkedChildDoesNotReleaseItsParentsLock(): void
    {
        $ends = [
            'return' => 'return;',
            'exit' => 'exit;',
            'dropping the handle' => 'unset($lock); exit;',
            'dropping everything' => 'unset($lock, $connection); gc_collect_cycles(); exit;',
            'an uncaught exception' => 'throw new Exception("boom");',
            'the memory limit' => 'str_repeat("x", PHP_INT_MAX >> 8);',
            'releasing' => '$lock->release(); exit;',
            'closing the connection' => '$connection->close(); exit;',
            'a grandchild' => 'if (pcntl_fork() === 0) { exit; } pcntl_wait($status); exit;',
        ];
        foreach ($ends as $how => $end) {
            self::$server->flush();
            $worker = self::worker(self::HOLD . <<<PHP
                if ((\$child = pcntl_fork()) === 0) {
                    $end
                }
                pcntl_waitpid(\$child, \$status);
                say(pcntl_wifexited(\$status));
                hear();
                say([\$lock->isHeld(), \$lock->renew(), \$lock->release()]);
                PHP);
            $token = $worker->hear();
            self::assertTrue($worker->hear(), "$how: the child crashed");

            self::assertSame($token, self::stored('order:1'), "$how: the child released its parent's lock");
            $worker->say();
            self::assertSame([true, true, true], $worker->hear(), $how);
            $worker->wait();
        }
    }

    public function testAnInheritedHandleIsOneThatDoesNotHold(): void
    {
        $worker = self::worker(self::HOLD . <<<'PHP'
            if (pcntl_fork() === 0) {
                say([
                    'isHeld' => $lock->isHeld(),
                    'remaining' => $lock->remaining(),
                    'fence' => $lock->fence(),
                    'token' => $lock->token(),
                    'resource' => $lock->resource(),
                    'renew' => $lock->renew(),
                    'release' => $lock->release(),
                    'detach' => $lock->detach(),
                    'acquire' => $lock->acquire(),
                ]);
                exit;
            }
            pcntl_wait($status);
            say($lock->isHeld());
            hear();
            PHP);
        $token = $worker->hear();

        self::assertSame([
            'isHeld' => false, 'remaining' => 0.0, 'fence' => null, 'token' => null, 'resource' => 'order:1',
            'renew' => false, 'release' => false, 'detach' => null, 'acquire' => false,
        ], $worker->hear());
        self::assertTrue($worker->hear());
        self::assertSame($token, self::stored('order:1'));
    }

    public function testAnInheritedHandleCanGetTheLockForTheChild(): void
    {
        $worker = self::worker(self::HOLD . <<<'PHP'
            $parentsFence = $lock->fence();
            $lock->release();
            if (pcntl_fork() === 0) {
                say([$lock->acquire(), $lock->token(), $lock->fence() > $parentsFence, $lock->isHeld()]);
                hear();
                exit;
            }
            pcntl_wait($status);
            say([$lock->isHeld(), $lock->acquire()]);
            PHP);
        $parents = $worker->hear();
        [$acquired, $childs, $higher, $held] = $worker->hear();

        self::assertTrue($acquired && $higher && $held);
        self::assertNotSame($parents, $childs);
        self::assertSame($childs, self::stored('order:1'));
        $worker->say();
        self::assertSame([false, true], $worker->hear(), "the child's own lock ended with the child");
        $worker->finish();
    }

    public function testParentAndChildrenDoNotReadEachOthersReplies(): void
    {
        // Five processes use the inherited connection at once, each on names of its own.
        $worker = self::worker(<<<'PHP'
            $warm = new DistributedLock('warm', 60.0, connection: $connection);
            $warm->acquire();
            $work = static function (string $who) use ($connection): int {
                $wrong = 0;
                for ($i = 0; $i < 300; $i++) {
                    $lock = new DistributedLock("$who:$i", 60.0, connection: $connection);
                    $wrong += !$lock->acquire() || $lock->owner() !== $lock->token() || !$lock->renew() || !$lock->release();
                }
                return $wrong;
            };
            for ($child = 0; $child < 4; $child++) {
                if (pcntl_fork() === 0) {
                    say($work("child $child"));
                    exit;
                }
            }
            say($work('parent'));
            while (pcntl_wait($status) > 0);
            say($warm->isHeld() && $warm->release());
            PHP);
        for ($process = 0; $process < 5; $process++) {
            self::assertSame(0, $worker->hear(30.0));
        }
        self::assertTrue($worker->hear());
        $worker->finish();
    }

    public function testAForkBeforeTheFirstUseGivesEachProcessASocketOfItsOwn(): void
    {
        $worker = self::worker(<<<'PHP'
            $lock = new DistributedLock('order:1', 60.0, connection: $connection);
            for ($child = 0; $child < 3; $child++) {
                if (pcntl_fork() === 0) {
                    hear();
                    exit;
                }
                if (pcntl_fork() === 0) {
                    $own = new DistributedLock("child:$child", 60.0, connection: $connection);
                    say($own->acquire());
                    hear();
                    exit;
                }
            }
            say($lock->acquire());
            hear();
            PHP);
        for ($process = 0; $process < 4; $process++) {
            self::assertTrue($worker->hear());
        }
        // The worker's four that used Redis, and the test's own.
        self::assertSame(5, substr_count(self::$server->command('CLIENT', 'LIST', 'TYPE', 'normal'), 'id='));
        for ($process = 0; $process < 7; $process++) {
            $worker->say();
        }
    }

    public function testAChildInsideSynchronizedLeavesTheLockToItsParent(): void
    {
        $worker = self::worker(<<<'PHP'
            $lock = new DistributedLock('order:1', 60.0, connection: $connection);
            $who = 'parent';
            try {
                $lock->synchronized(static function ($held) use (&$who): void {
                    if (($child = pcntl_fork()) === 0) {
                        $who = 'child';
                        return;
                    }
                    pcntl_waitpid($child, $status);
                    say($held->isHeld());
                    hear();
                });
            } catch (LeaseLostException $lost) {
                exit;
            }
            if ($who === 'child') {
                exit;
            }
            say('parent done');
            PHP);
        self::assertTrue($worker->hear());
        self::assertIsString(self::stored('order:1'), "the child's return from the callback released the lock");
        $worker->say();
        self::assertSame('parent done', $worker->hear());
        $worker->finish();
        self::assertNull(self::stored('order:1'));
    }
}
