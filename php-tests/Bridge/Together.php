<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge;

use PHPUnit\Framework\Assert;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\Worker;

/** Workers that add to one count, which is right only if no two of them are at it at once. */
final class Together
{
    private const WORKERS = 6;
    private const EACH = 20;

    /**
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
}
