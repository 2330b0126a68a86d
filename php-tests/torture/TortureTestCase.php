<?php

declare(strict_types=1);

namespace RedisLease\Tests\torture;

use PHPUnit\Framework\TestCase;

/**
 * A torture run, for a few seconds here and for longer with `make torture`. The environment may set SEED and
 * TORTURE_SECONDS, and with HISTORY the file that the events go to; the seed is printed.
 */
abstract class TortureTestCase extends TestCase
{
    /**
     * Runs it, prints what happened how often, and asserts that every promise was kept.
     *
     * @param float $ordinary how many seconds it lasts by default
     * @param callable(int, float): Run $run makes the run of this seed and these seconds
     * @param string $how what the environment says beside the seed to repeat it
     * @return array{float, array<string, int>} the seconds it lasted, and what happened how often
     */
    protected static function torture(float $ordinary, callable $run, string $how = ''): array
    {
        if (!function_exists('pcntl_fork')) {
            self::markTestSkipped('PHP was built without pcntl');
        }
        $seed = (int) (getenv('SEED') ?: random_int(1, 999_999));
        $seconds = (float) (getenv('TORTURE_SECONDS') ?: $ordinary);
        fwrite(STDERR, "\ntorture: " . implode(', ', array_filter(["SEED=$seed", $how, "$seconds s"])) . "\n");
        $events = $run($seed, $seconds)->history();
        $file = getenv('HISTORY');
        if ($file !== false) {
            file_put_contents($file, implode("\n", array_map(json_encode(...), $events)) . "\n");
        }
        $checker = new Checker($events);
        $losses = count(array_filter($events, static fn (array $event) => $event['e'] === 'lost data'));
        $counts = ['losses of data' => $losses] + $checker->counts();
        foreach ($counts as $what => $count) {
            fwrite(STDERR, sprintf("%8d  %s\n", $count, $what));
        }
        self::assertSame([], $checker->violations(), trim("SEED=$seed $how"));

        return [$seconds, $counts];
    }
}
