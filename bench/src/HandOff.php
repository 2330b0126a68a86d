<?php

declare(strict_types=1);

namespace RedisLease\Bench;

/** One worker holds, another waits: how long from the call of release() until acquire() has returned. */
final class HandOff
{
    private const POLLING = [Contest::SYMFONY, Contest::LARAVEL];

    public function __construct(private readonly Contest $contest)
    {
    }

    public function run(): void
    {
        // More of the fast ones: they vary by rare events, the polling ones by the moment of the release.
        $perRound = [Contest::OURS => 10, Contest::SLEEPING => 4, Contest::SYMFONY => 2, Contest::LARAVEL => 2];
        $rounds = $this->contest->rounds(50, 3);
        $this->show($this->measure($perRound, $rounds), $rounds);
    }

    /**
     * @param array<string, int> $perRound how many hand-offs each title has in a round
     * @return array<string, list<float>> ms, for each title that is there
     */
    public function measure(array $perRound, int $rounds): array
    {
        $pairs = $this->contest->crowds(array_keys($perRound), 2);
        $milliseconds = [];
        for ($round = 0; $round < $rounds; $round++) {
            foreach ($pairs as $title => $pair) {
                for ($i = 0; $i < $perRound[$title]; $i++) {
                    $milliseconds[$title][] = $this->pass($pair, in_array($title, self::POLLING, true));
                    $pair = array_reverse($pair);
                }
            }
        }

        return $milliseconds;
    }

    /** @param list<Process> $pair */
    private function pass(array $pair, bool $isPolling): float
    {
        [$holder, $waiter] = $pair;
        $holder->ask('acquire');
        $waiter->tell('acquire');
        // Until it waits, and then a random while: a poll may be due at any moment.
        $releaseAt = hrtime(true) + 5_000_000 + random_int(0, $isPolling ? 250_000_000 : 4_000_000);
        $released = $holder->ask("release $releaseAt");
        $held = $waiter->answer();
        $waiter->ask('release 0');

        return ($held - $released) / 1e6;
    }

    /** @param array<string, list<float>> $milliseconds */
    private function show(array $milliseconds, int $rounds): void
    {
        $this->contest->report->section(
            'Hand-off: from the call of release() to the waiter\'s acquire() having returned, ms',
            "Two processes, $rounds interleaved rounds; the release comes at a random moment of the wait.",
        );
        $this->contest->report->table(self::table($milliseconds));
        $ours = $milliseconds[Contest::OURS];
        $this->contest->bars->atMost('hand-off p50, ms', 0.5, Stats::median($ours));
        $this->contest->bars->atMost('hand-off p99, ms', 3.0, Stats::quantile($ours, 0.99));
        $medians = array_map(Stats::median(...), $milliseconds);
        $this->contest->chart->panel('Hand-off to a waiter, p50, ms', $medians, '%.2f');
    }

    /**
     * @param array<string, list<float>> $milliseconds
     * @return list<list<string>>
     */
    public static function table(array $milliseconds): array
    {
        $rows = [['', 'p50', 'p90', 'p99', 'longest', 'hand-offs']];
        foreach ($milliseconds as $title => $values) {
            $rows[] = [
                $title,
                ...array_map(
                    static fn (float $share) => sprintf('%.2f', Stats::quantile($values, $share)),
                    [0.5, 0.9, 0.99, 1.0],
                ),
                (string) count($values),
            ];
        }

        return $rows;
    }
}
