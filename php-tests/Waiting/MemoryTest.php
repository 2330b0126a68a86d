<?php

declare(strict_types=1);

namespace RedisLease\Tests\Waiting;

/** A worker that waits thousands of times stays as small as it was. */
final class MemoryTest extends WaitingTestCase
{
    /** Two processes hand one lock to each other: nearly every acquire() is a wait, and a release ends it. */
    private const PING_PONG = <<<'PHP'
        require $args['herd'];
        $found = herd(2, static function (int $number) use ($args): array {
            $connection = new Connection($args['dsn'], 5.0, 5.0);
            $lock = new DistributedLock('order:1', 30.0, connection: $connection);
            $rounds = static function (int $count) use ($lock): void {
                for ($round = 0; $round < $count; $round++) {
                    $lock->acquire(30.0) || exit(1);
                    $lock->release();
                }
            };
            $rounds($args['warmUp']);
            $before = [memory_get_usage(), anonymous(), descriptors()];
            $rounds($args['rounds']);
            return [$before, [memory_get_usage(), anonymous(), descriptors()]];
        });
        say($found);
        PHP;

    /** Waits of a moment for a lock that is never released: each opens a second connection and gives it up. */
    private const IN_VAIN = <<<'PHP'
        $lock = new DistributedLock('order:1', 30.0, connection: $connection);
        $rounds = static function (int $count) use ($lock): void {
            for ($round = 0; $round < $count; $round++) {
                $lock->acquire(0.0002) && exit(1);
            }
        };
        $rounds($args['warmUp']);
        $before = [memory_get_usage(), anonymous(), descriptors()];
        $rounds($args['rounds']);
        say([[$before, [memory_get_usage(), anonymous(), descriptors()]]]);
        PHP;

    /** Waits that a handler ends with its exception. */
    private const INTERRUPTED = <<<'PHP'
        pcntl_async_signals(true);
        $waiting = false;
        pcntl_signal(SIGUSR1, static function () use (&$waiting): void {
            if ($waiting) {
                throw new DomainException('stop');
            }
        });
        $parent = getmypid();
        $tormentor = pcntl_fork();
        $tormentor === -1 && exit(2);
        if ($tormentor === 0) {
            while (posix_getppid() === $parent) {
                posix_kill($parent, SIGUSR1);
                usleep(500);
            }
            exit;
        }
        $lock = new DistributedLock('order:1', 30.0, connection: $connection);
        $rounds = static function (int $count) use ($lock, &$waiting): void {
            for ($round = 0; $round < $count; $round++) {
                try {
                    $waiting = true;
                    $lock->acquire(30.0);
                } catch (DomainException) {
                    $waiting = false;
                }
            }
        };
        $rounds($args['warmUp']);
        $before = [memory_get_usage(), anonymous(), descriptors()];
        $rounds($args['rounds']);
        posix_kill($tormentor, SIGKILL);
        pcntl_waitpid($tormentor, $status);
        say([[$before, [memory_get_usage(), anonymous(), descriptors()]]]);
        PHP;

    private const MEASURES = <<<'PHP'
        function anonymous(): int
        {
            gc_collect_cycles();
            gc_mem_caches();
            preg_match('/^RssAnon:\s+(\d+)/m', file_get_contents('/proc/self/status'), $found);
            return (int) $found[1];
        }
        function descriptors(): int
        {
            return count(scandir('/proc/self/fd'));
        }

        PHP;

    public function testTwentyThousandWaitsDoNotMakeAWorkerGrow(): void
    {
        $this->assertStaysSmall(self::PING_PONG, 1_000, 9_000);
        $owner = $this->heldLock('order:1', 600.0);
        $this->assertStaysSmall(self::IN_VAIN, 300, 1_500);
        $this->assertStaysSmall(self::INTERRUPTED, 200, 500);
        self::assertTrue($owner->release());
        self::assertNothingHeldOrQueued();
    }

    private function assertStaysSmall(string $snippet, int $warmUp, int $rounds): void
    {
        $herd = dirname(__DIR__) . '/Support/herd.php';
        $worker = self::worker(self::MEASURES . $snippet, compact('herd', 'warmUp', 'rounds'), self::withPosix());
        foreach ($worker->hear(60.0) as [[$used, $anonymous, $descriptors], [$usedAfter, $anonymousAfter, $descriptorsAfter]]) {
            self::figure('%d waits: %+d bytes of PHP, %+d kB anonymous', $rounds, $usedAfter - $used, $anonymousAfter - $anonymous);
            self::assertLessThan(2_000, $usedAfter - $used);
            self::assertLessThan(300, $anonymousAfter - $anonymous);
            // One more or less, whether the second connection happens to be open.
            self::assertLessThanOrEqual($descriptors + 1, $descriptorsAfter);
        }
        $worker->finish();
    }
}
