<?php

declare(strict_types=1);

namespace RedisLease\Tests\Quorum;

use PHPUnit\Framework\TestCase;
use RedisLease\Tests\torture\Checker;
use RedisLease\Tests\torture\Run;

/**
 * The torture run on several nodes, of which one at a time is killed, stopped, cut off or slow. Neither that nor the loss
 * of one node's data excuses two owners. The environment may set QUORUM, SEED and TORTURE_SECONDS.
 */
final class TortureTest extends TestCase
{
    private const SECONDS = 5;

    public function testAQuorumUnderTortureKeepsEveryPromise(): void
    {
        if (!function_exists('pcntl_fork')) {
            self::markTestSkipped('PHP was built without pcntl');
        }
        $seed = (int) (getenv('SEED') ?: random_int(1, 999_999));
        $seconds = (float) (getenv('TORTURE_SECONDS') ?: self::SECONDS);
        $nodes = (int) (getenv('QUORUM') ?: 3);
        fwrite(STDERR, "\ntorture: SEED=$seed, QUORUM=$nodes, $seconds s\n");
        $events = (new Run($seed, $seconds, count: $nodes))->history();
        $file = getenv('HISTORY');
        if ($file !== false) {
            file_put_contents($file, implode("\n", array_map(json_encode(...), $events)) . "\n");
        }
        $checker = new Checker($events);
        foreach ($checker->counts() as $what => $count) {
            fwrite(STDERR, sprintf("%8d  %s\n", $count, $what));
        }

        self::assertSame([], $checker->violations(), "SEED=$seed QUORUM=$nodes");
        self::assertGreaterThan($seconds * 5, $checker->counts()['grants'], 'there was something to check');
        self::assertGreaterThan($seconds * 20 * $nodes, $checker->counts()['samples']);
    }
}
