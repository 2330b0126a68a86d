<?php

declare(strict_types=1);

namespace RedisLease\Tests\Fault;

use RedisLease\Tests\torture\Run;
use RedisLease\Tests\torture\TortureTestCase;

/** Workers and a server that are killed, stopped and cut off from each other. */
final class TortureTest extends TortureTestCase
{
    public function testUnderTortureEveryPromiseIsKept(): void
    {
        [$seconds, $counts] = self::torture(8, static fn (int $seed, float $seconds) => new Run($seed, $seconds));

        self::assertGreaterThan($seconds * 5, $counts['grants'], 'there was something to check');
        self::assertGreaterThan($seconds * 20, $counts['samples']);
    }
}
