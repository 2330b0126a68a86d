<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

use PHPUnit\Framework\Assert;
use PHPUnit\Framework\AssertionFailedError;

/**
 * Waits until the condition gives something truthy and returns that. The condition may throw
 * nothing; a test that waits in vain fails with `$what`.
 *
 * @template T
 * @param callable(): T $condition
 * @return T
 */
function eventually(callable $condition, string $what, float $seconds = 10.0): mixed
{
    $deadline = microtime(true) + $seconds;
    for (;;) {
        $value = $condition();
        if ($value) {
            Assert::assertNotEmpty($value, $what);

            return $value;
        }
        if (microtime(true) >= $deadline) {
            throw new AssertionFailedError(sprintf('Not within %.1f s: %s', $seconds, $what));
        }
        usleep(1_000);
    }
}

/** Runs the action and returns its result and the seconds it took, on the monotonic clock. */
function timed(callable $action): array
{
    $start = hrtime(true);
    $result = $action();

    return [$result, (hrtime(true) - $start) / 1e9];
}
