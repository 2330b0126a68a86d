<?php

declare(strict_types=1);

namespace RedisLease\Bench;

/** The uncontended cycle while every core is busy with something else: spinning must not make it slower. */
final class Loaded
{
    public function __construct(private readonly Contest $contest)
    {
    }

    public function run(): void
    {
        $busy = [];
        for ($core = 0; $core < Machine::cores(); $core++) {
            $busy[] = Process::start(['sh', '-c', 'while :; do :; done']);
        }
        $rounds = new Rounds(
            $this->contest->server,
            $this->contest->workers([Contest::RAW, Contest::OURS, Contest::SLEEPING], $this->contest->tcp),
            $this->contest->rounds(61, 15),
            $this->contest->rounds(200, 100),
            watchesOthers: false,
        );
        $this->contest->report->section(
            'The uncontended cycle under full load',
            sprintf('One endless loop for each of the %d cores. ', count($busy))
            . "{$rounds->rounds} interleaved rounds of {$rounds->cycles} cycles.",
        );
        $this->contest->report->table($rounds->table(Contest::SLEEPING));
        $this->contest->bars->atMost(
            'every core busy: cycle, to redis_lease.spin=0',
            1.05,
            $rounds->ratio(Contest::OURS, Contest::SLEEPING, 'wall'),
        );
    }
}
