<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge;

use RedisLease\Bridge\StaleFenceException;

/** What a late write is told, whatever it would have written to. */
trait StaleWrites
{
    protected static function assertStale(callable $write, int $fence, int $storedFence): StaleFenceException
    {
        try {
            $write();
        } catch (StaleFenceException $stale) {
            self::assertSame($fence, $stale->fence);
            self::assertSame($storedFence, $stale->storedFence);

            return $stale;
        }
        self::fail("fence $fence may not write over $storedFence");
    }
}
