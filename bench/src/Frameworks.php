<?php

declare(strict_types=1);

namespace RedisLease\Bench;

/** The frameworks' own locks, through the frameworks' own calls: on leases, and on their Redis stores. */
final class Frameworks
{
    private const STORES = [
        Contest::SYMFONY_ON_LEASES => Contest::SYMFONY,
        Contest::LARAVEL_ON_LEASES => Contest::LARAVEL,
    ];

    public function __construct(private readonly Contest $contest)
    {
    }

    public function run(): void
    {
        $this->uncontended();
        $this->handOff();
    }

    private function uncontended(): void
    {
        $titles = [Contest::RAW, Contest::OURS, ...array_keys(self::STORES), ...array_values(self::STORES)];
        $cores = Machine::twoCores();
        $placed = $this->contest->cycles($this->contest->workers($titles, $this->contest->tcp), $cores);
        $free = $this->contest->cycles($this->contest->workers($titles, $this->contest->tcp), null);

        $where = $cores === null ? 'on the only core' : 'server and client on a core each';
        foreach ([$where => $placed, 'where the scheduler puts them' => $free] as $title => $rounds) {
            $this->contest->report->section(
                "Uncontended acquire + release of a framework's lock, TCP loopback, $title",
                "A new lock object for each cycle, as a request makes it. {$rounds->rounds} interleaved rounds of "
                . "{$rounds->cycles} cycles. Ratios are to Symfony's own store, round by round." . $rounds->disturbance(),
            );
            $this->contest->report->table($rounds->table($rounds->has(Contest::SYMFONY) ? Contest::SYMFONY : Contest::OURS));
        }
        $bars = $this->contest->bars;
        $speedUp = static fn (Rounds $rounds, string $ours): ?float => $rounds->ratio(self::STORES[$ours], $ours, 'wall');
        $symfony = Contest::SYMFONY_ON_LEASES;
        $bars->atLeast('Symfony, cycle: its store to leases', 2.0, $speedUp($placed, $symfony));
        $bars->told('Symfony, where the scheduler puts them', $speedUp($free, $symfony));
        $laravel = Contest::LARAVEL_ON_LEASES;
        $bars->told('Laravel, cycle: its store to leases', $speedUp($placed, $laravel));
        $bars->told('Laravel, where the scheduler puts them', $speedUp($free, $laravel));
    }

    private function handOff(): void
    {
        $perRound = [
            Contest::SYMFONY_ON_LEASES => 8,
            Contest::SYMFONY => 2,
            Contest::LARAVEL_ON_LEASES => 8,
            Contest::LARAVEL => 2,
        ];
        $rounds = $this->contest->rounds(40, 4);
        $milliseconds = (new HandOff($this->contest))->measure($perRound, $rounds);
        $this->contest->report->section(
            'Hand-off of a framework\'s lock: acquire(true) of Symfony\'s and block() of Laravel\'s, ms',
            "From the call of release() to the waiter's having returned. Two processes, $rounds interleaved rounds.",
        );
        $this->contest->report->table(HandOff::table($milliseconds));

        $medians = array_map(Stats::median(...), $milliseconds);
        foreach (self::STORES as $ours => $theirs) {
            $isThere = isset($medians[$ours], $medians[$theirs]);
            $this->contest->bars->atLeast(
                strtok($theirs, ' ') . ', hand-off p50: its store to leases',
                50.0,
                $isThere ? $medians[$theirs] / $medians[$ours] : null,
                '%.0f',
            );
        }
        $this->contest->chart->panel('Hand-off of a framework\'s lock, p50, ms', $medians, '%.2f');
    }
}
