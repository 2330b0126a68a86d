<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge;

use DistributedLock;
use PHPUnit\Framework\Assert;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\Worker;

use function RedisLease\Tests\Support\eventually;

/** Workers that wait for one lock, of whatever framework. */
final class Together
{
    private const WORKERS = 6;
    private const EACH = 20;

    /**
     * They add to one count, which is right only if no two of them are at it at once.
     *
     * @param callable(string, array<string, mixed>): Worker $start a worker of that snippet and arguments
     * @param string $take code that waits for the lock and leaves it in $lock
     */
    public static function count(callable $start, string $take): void
    {
        $file = Janitor::path('.count');
        file_put_contents($file, '0');
        $snippet = <<<PHP
            for (\$time = 1; \$time <= \$args['each']; \$time++) {
                $take
                \$count = (int) file_get_contents(\$args['file']);
                usleep(random_int(0, 500));
                file_put_contents(\$args['file'], (string) (\$count + 1));
                \$lock->release();
            }
            PHP;
        $workers = [];
        for ($number = 1; $number <= self::WORKERS; $number++) {
            $workers[] = $start($snippet, ['file' => $file, 'each' => self::EACH]);
        }
        foreach ($workers as $worker) {
            $worker->finish(60.0);
        }
        Assert::assertSame((string) (self::WORKERS * self::EACH), file_get_contents($file));
    }

    /**
     * Two wait, the first for more than three seconds when the lock is released: it is served first.
     *
     * @param callable(string): Worker $start a worker of that snippet
     * @param string $take code that waits for the lock and leaves it in $lock
     */
    public static function inOrder(callable $start, string $take, DistributedLock $held, RedisServer $server): void
    {
        $snippet = "$take say('has it'); hear(); \$lock->release();";
        $wait = static function (int $count) use ($start, $snippet, $server): Worker {
            $worker = $start($snippet);
            $blocked = static fn () => str_contains($server->command('INFO', 'clients'), "blocked_clients:$count\r");
            eventually($blocked, "$count wait");

            return $worker;
        };
        $first = $wait(1);
        $since = microtime(true);
        usleep(1_500_000);
        $second = $wait(2);
        // Who began to wait anew every three seconds would now be behind the second.
        usleep((int) max(0.0, ($since + 3.7 - microtime(true)) * 1e6));

        $held->release();

        $first->hear();
        Assert::assertFalse($second->hasSaid());
        $first->say();
        $second->hear();
        $second->say();
        $first->finish();
        $second->finish();
    }
}
