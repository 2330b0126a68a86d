<?php

declare(strict_types=1);

namespace RedisLease\Bench;

use RedisLease\Tests\Support\Monitor;
use RuntimeException;

/** Many workers want one lock: how fast it goes round, how long one of them waits, what Redis has to do. */
final class Contended
{
    private const WORKERS = 16;
    private const SECTIONS = 20;
    private const SECTION_NS = 1_000_000;
    private const CROWD = 100;
    private const CROWD_SECTIONS = 5;

    public function __construct(private readonly Contest $contest)
    {
    }

    public function run(): void
    {
        $crowds = $this->contest->crowds([Contest::OURS, Contest::SYMFONY, Contest::LARAVEL], self::WORKERS);
        $rounds = $this->contest->rounds(15, 1);
        $runs = array_fill_keys(array_keys($crowds), []);
        for ($round = 0; $round < $rounds; $round++) {
            foreach ($crowds as $title => $workers) {
                $runs[$title][] = $this->race($workers, self::SECTIONS);
            }
        }
        $counted = $this->contest->isQuick ? [Contest::OURS => $crowds[Contest::OURS]] : $crowds;
        $commands = array_map(fn (array $workers) => $this->commands($workers, self::SECTIONS), $counted);
        $crowds = [];
        $many = $this->contest->crowds([Contest::OURS], self::CROWD)[Contest::OURS];
        $commandsOfMany = $this->commands($many, self::CROWD_SECTIONS);
        $this->show($runs, $commands, $commandsOfMany, $rounds);
    }

    /**
     * @param list<Process> $workers
     * @return array{rate: float, wait: float, shares: float, behind: int} sections per second; the longest wait in
     *     ms, and in shares: what all workers' sections take once round; how many sections the last worker had
     *     done when the first was through
     */
    private function race(array $workers, int $count): array
    {
        $start = hrtime(true) + 20_000_000;
        foreach ($workers as $worker) {
            $worker->tell("sections $count $start " . self::SECTION_NS);
        }
        $sections = array_map(static fn (Process $worker) => $worker->answer(), $workers);
        $all = array_merge(...$sections);
        usort($all, static fn (array $one, array $other) => $one[1] <=> $other[1]);
        $this->checkExclusion($all);

        $seconds = (max(array_column($all, 2)) - $start) / 1e9;
        $wait = max(array_map(static fn (array $section) => $section[1] - $section[0], $all)) / 1e6;
        $firstThrough = min(array_map(static fn (array $own) => end($own)[2], $sections));

        return [
            'rate' => count($all) / $seconds,
            'wait' => $wait,
            'shares' => $wait / (count($workers) * 1e3 * $seconds / count($all)),
            'behind' => min(array_map(
                static fn (array $own) => count(array_filter($own, static fn ($section) => $section[2] <= $firstThrough)),
                $sections,
            )),
        ];
    }

    /** @param list<array{int, int, int}> $sections by their beginning */
    private function checkExclusion(array $sections): void
    {
        foreach ($sections as $number => $section) {
            if ($number > 0 && $section[1] < $sections[$number - 1][2]) {
                throw new RuntimeException('two workers were in the section at once');
            }
        }
    }

    /**
     * Commands that clients sent per section. Counted in a race of its own, for MONITOR slows the server down.
     *
     * @param list<Process> $workers
     */
    private function commands(array $workers, int $count): float
    {
        $this->race($workers, 1); // opens the connections that only a waiter needs
        $monitor = Monitor::start($this->contest->server);
        $this->race($workers, $count);
        $commands = count($monitor->commands());
        $monitor->close();

        return $commands / (count($workers) * $count);
    }

    /**
     * @param array<string, list<array<string, float|int>>> $runs
     * @param array<string, float> $commands
     */
    private function show(array $runs, array $commands, float $commandsOfMany, int $rounds): void
    {
        $this->contest->report->section(
            sprintf('%d workers × %d sections of 1 ms on one lock', self::WORKERS, self::SECTIONS),
            "$rounds interleaved rounds, medians. The longest wait is each round's, in ms and in fair shares: the time "
            . 'in which all workers had one section each. Beside it the worst of all rounds. Slowest did: the sections '
            . 'that the slowest worker had done when the fastest was through. Commands: what clients sent per section.',
        );
        $median = static fn (string $title, string $what) => Stats::median(array_column($runs[$title], $what));
        $rows = [['', 'sections/s', 'longest wait', 'shares', 'worst', 'worst shares', 'slowest did', 'commands']];
        foreach (array_keys($runs) as $title) {
            $rows[] = [
                $title,
                sprintf('%.0f', $median($title, 'rate')),
                sprintf('%.0f ms', $median($title, 'wait')),
                sprintf('%.1f', $median($title, 'shares')),
                sprintf('%.0f ms', max(array_column($runs[$title], 'wait'))),
                sprintf('%.1f', max(array_column($runs[$title], 'shares'))),
                sprintf('%.0f', $median($title, 'behind')),
                isset($commands[$title]) ? sprintf('%.2f', $commands[$title]) : '',
            ];
        }
        $this->contest->report->table($rows);
        $this->contest->report->line();
        $this->contest->report->line(sprintf(
            '%s with %d workers × %d sections: %.2f commands per section.',
            Contest::OURS,
            self::CROWD,
            self::CROWD_SECTIONS,
            $commandsOfMany,
        ));

        $faster = static fn (string $title) => isset($runs[$title]) ? Stats::median(array_map(
            static fn (array $ours, array $theirs) => $ours['rate'] / $theirs['rate'],
            $runs[Contest::OURS],
            $runs[$title],
        )) : null;
        $bars = $this->contest->bars;
        $bars->atLeast('contended sections/s, to Symfony Lock', 1.9, $faster(Contest::SYMFONY));
        $bars->atLeast('contended sections/s, to Laravel', 3.8, $faster(Contest::LARAVEL));
        $bars->atMost('client commands per contended section', 5.0, $commands[Contest::OURS]);
        $bars->atMost('longest wait, fair shares (median round)', 2.5, $median(Contest::OURS, 'shares'));
        // The first round of a race, and the last, differ a little by how many take part.
        $bars->atMost(
            sprintf('commands per section, %d workers to %d', self::CROWD, self::WORKERS),
            1.05,
            $commandsOfMany / $commands[Contest::OURS],
        );
        $rates = [];
        foreach (array_keys($runs) as $title) {
            $rates[$title] = $median($title, 'rate');
        }
        $this->contest->chart->panel('Sections per second, 16 workers, 1 ms each', $rates, '%.0f');
        $waits = [];
        foreach (array_keys($runs) as $title) {
            $waits[$title] = $median($title, 'wait');
        }
        $this->contest->chart->panel('Longest wait of these, ms', $waits, '%.0f');
    }
}
