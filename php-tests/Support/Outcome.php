<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

/** How a Waiter's acquire() ended. */
final class Outcome
{
    /**
     * @param bool|string $answer what it returned, or the class and message of what it threw
     * @param float $seconds how long it took
     * @param float $at when it ended, on the clock of now()
     * @param float $delay seconds of these in which the process was ready to run and had no CPU
     */
    public function __construct(
        public readonly bool|string $answer,
        public readonly float $seconds,
        public readonly float $at,
        public readonly float $delay,
        public readonly ?int $fence,
        public readonly bool $isHeld,
    ) {
    }

    /** The monotonic clock, the same for all processes of this machine. */
    public static function now(): float
    {
        return hrtime(true) / 1e9;
    }
}
