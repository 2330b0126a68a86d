<?php

declare(strict_types=1);

namespace RedisLease\Tests\Quorum;

use RedisLease\Tests\torture\Run;
use RedisLease\Tests\torture\TortureTestCase;

/**
 * The torture run on several nodes, of which one at a time is killed, stopped, cut off or slow. Neither that nor the loss
 * of one node's data excuses two owners. The environment may set QUORUM, the number of nodes.
 */
final class TortureTest extends TortureTestCase
{
    public function testAQuorumUnderTortureKeepsEveryPromise(): void
    {
        $nodes = (int) (getenv('QUORUM') ?: 3);
        $run = static fn (int $seed, float $seconds) => new Run($seed, $seconds, count: $nodes);
        [$seconds, $counts] = self::torture(5, $run, "QUORUM=$nodes");

        self::assertGreaterThan($seconds * 5, $counts['grants'], 'there was something to check');
        self::assertGreaterThan($seconds * 20 * $nodes, $counts['samples']);
    }
}
