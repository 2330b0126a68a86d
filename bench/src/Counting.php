<?php

declare(strict_types=1);

namespace RedisLease\Bench;

/** What it costs to count for RedisLease\Metrics: the same cycles with and without. */
final class Counting
{
    public function __construct(private readonly Contest $contest)
    {
    }

    public function run(): void
    {
        $workers = $this->contest->workers([Contest::OURS, Contest::UNCOUNTED], $this->contest->tcp);
        // It is a matter of less than a hundredth: more rounds than elsewhere.
        $rounds = $this->contest->cycles($workers, Machine::twoCores(), 8);
        $this->contest->report->section(
            'Uncontended acquire + release with and without counting',
            "{$rounds->rounds} interleaved rounds of {$rounds->cycles} cycles, TCP loopback. Ratios round by round; medians."
            . $rounds->disturbance(),
        );
        $this->contest->report->table($rounds->table(Contest::UNCOUNTED));
        $ratio = $rounds->ratio(Contest::OURS, Contest::UNCOUNTED, 'wall');
        $this->contest->bars->atMost('uncontended cycle, to one without metrics', 1.01, $ratio, '%.3f');
    }
}
