<?php

declare(strict_types=1);

namespace RedisLease\Tests\Fault\Cuts;

/** One cut of one step: where, how, and what becomes of the connections that follow. */
final class Cell
{
    /**
     * @param string $direction request or reply
     * @param int $after how many bytes still pass
     * @param string $how fin, reset or hold
     * @param string $later pass: the line alone was broken; refuse, hang: the server is away from then on
     */
    public function __construct(
        public readonly Step $step,
        public readonly string $direction,
        public readonly int $after,
        public readonly string $how,
        public readonly string $later,
    ) {
    }

    /** Whether the caller's time suffices to find out what happened, by asking again. */
    public function canBeResolved(): bool
    {
        return $this->later === 'pass' && !$this->step->fresh && $this->step->call !== 'forceRelease';
    }

    /** @return array{float, float} connect and command time-out: short where they are certain to be used up */
    public function timeouts(): array
    {
        return match (true) {
            $this->later !== 'pass' => [0.03, 0.03],
            $this->how === 'hold' => [0.5, 0.06],
            default => [2.0, 2.0],
        };
    }

    public function __toString(): string
    {
        return "{$this->step->name}, {$this->direction} cut after {$this->after} bytes by {$this->how}, then {$this->later}";
    }
}
