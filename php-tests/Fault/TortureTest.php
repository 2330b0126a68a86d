<?php

declare(strict_types=1);

namespace RedisLease\Tests\Fault;

use PHPUnit\Framework\TestCase;
use RedisLease\Tests\torture\Checker;
use RedisLease\Tests\torture\Run;

/**
 * Workers and a server that are killed, stopped and cut off from each other, for a few seconds here and for longer with
 * `make torture`. The environment may set SEED and TORTURE_SECONDS; the seed is printed.
 */
final class TortureTest extends TestCase
{
    private const SECONDS = 8;

    public function testUnderTortureEveryPromiseIsKept(): void
    {
        if (!function_exists('pcntl_fork')) {
            self::markTestSkipped('PHP was built without pcntl');
        }
        $seed = (int) (getenv('SEED') ?: random_int(1, 999_999));
        $seconds = (float) (getenv('TORTURE_SECONDS') ?: self::SECONDS);
        fwrite(STDERR, "\ntorture: SEED=$seed, $seconds s\n");
        $events = (new Run($seed, $seconds))->history();
        $file = getenv('HISTORY');
        if ($file !== false) {
            file_put_contents($file, implode("\n", array_map(json_encode(...), $events)) . "\n");
        }
        $checker = new Checker($events);
        foreach ($checker->counts() as $what => $count) {
            fwrite(STDERR, sprintf("%8d  %s\n", $count, $what));
        }

        self::assertSame([], $checker->violations(), "SEED=$seed");
        self::assertGreaterThan($seconds * 5, $checker->counts()['grants'], 'there was something to check');
        self::assertGreaterThan($seconds * 20, $checker->counts()['samples']);
    }
}
