<?php

declare(strict_types=1);

namespace RedisLease\Bench;

use RedisLease\Tests\Support\RedisServer;

/**
 * Cycles of several processes in interleaved rounds: in each round every process has its turn, in an order
 * that changes, so that whatever else the machine does meets all alike. Where other programs disturb many
 * rounds, half as many again are run, and the least disturbed are kept; BENCH_PATIENCE gives the seconds for
 * which each comparison may wait for quiet moments and try again.
 */
final class Rounds
{
    /** Of all processors' time, what others may take in a round that counts as undisturbed. */
    private const QUIET = 0.05;

    /** @var array<string, list<array{wall: float, client: float, server: float}>> µs per cycle, a round each */
    private array $samples = [];
    private int $run = 0;
    /** The others' share of the machine in the most disturbed round that was kept. */
    private float $others = 0.0;

    /**
     * @param array<string, Process> $processes
     * @param int $warmUp rounds that are run first and thrown away
     * @param bool $watchesOthers false takes every round as it comes
     */
    public function __construct(
        RedisServer $server,
        array $processes,
        public readonly int $rounds,
        public readonly int $cycles,
        public readonly int $warmUp = 3,
        bool $watchesOthers = true,
    ) {
        $names = array_keys($processes);
        $most = $watchesOthers ? intdiv($rounds * 3, 2) : $rounds;
        $patience = hrtime(true) + ($watchesOthers ? 1e9 * (int) getenv('BENCH_PATIENCE') : 0);
        $results = $quiet = [];
        for ($round = -$warmUp; count($quiet) < $rounds && ($round < $most || hrtime(true) < $patience); $round++) {
            self::awaitQuiet($patience);
            shuffle($names);
            $result = self::round($server, $processes, $names, $cycles);
            if ($round >= 0) {
                $results[] = $result;
                $quiet = array_filter($results, static fn (array $result) => $result[1] <= self::QUIET);
            }
        }
        $this->run = count($results);
        usort($results, static fn (array $one, array $other) => $one[1] <=> $other[1]);
        $kept = array_slice($results, 0, $rounds);
        $this->others = max(0.0, end($kept)[1]);
        foreach (array_keys($processes) as $name) {
            $this->samples[$name] = array_column(array_column($kept, 0), $name);
        }
    }

    /**
     * @param array<string, Process> $processes
     * @param list<string> $order
     * @return array{array<string, array<string, float>>, float} the samples, and the others' share of the machine
     */
    private static function round(RedisServer $server, array $processes, array $order, int $cycles): array
    {
        $start = hrtime(true);
        $busy = self::busy();
        $samples = [];
        $own = 0.0;
        foreach ($order as $name) {
            $before = self::serverCpu($server);
            $processes[$name]->tell("cycles $cycles");
            [$wall, $client] = explode(' ', $processes[$name]->line());
            $serverCpu = self::serverCpu($server) - $before;
            $own += $client / 1e3 + $serverCpu;
            $samples[$name] = [
                'wall' => $wall / 1e3 / $cycles,
                'client' => $client / 1e3 / $cycles,
                'server' => $serverCpu / $cycles,
            ];
        }
        $others = self::busy() - $busy - $own;

        return [$samples, $others / (Machine::cores() * (hrtime(true) - $start) / 1e3)];
    }

    /** Waits for a tenth of a second in which the machine has next to nothing to do, until then. */
    private static function awaitQuiet(float $until): void
    {
        while (hrtime(true) < $until) {
            $busy = self::busy();
            usleep(100_000);
            if (self::busy() - $busy <= 10_000) {
                return;
            }
        }
    }

    /** The time that all processors have been busy, in µs; Linux counts it in ticks of 10 ms. */
    private static function busy(): float
    {
        // user, nice, system, idle, iowait, irq, softirq, steal
        $ticks = array_map('intval', preg_split('/\s+/', file('/proc/stat')[0]));

        return 10_000.0 * ($ticks[1] + $ticks[2] + $ticks[3] + $ticks[6] + $ticks[7] + $ticks[8]);
    }

    public function has(string $name): bool
    {
        return isset($this->samples[$name]);
    }

    /** What other programs did to the rounds. */
    public function disturbance(): string
    {
        return sprintf(
            '%s Other programs took %.0f %% of the machine at most.',
            $this->run > $this->rounds ? " Of $this->run rounds the least disturbed were kept." : '',
            100 * $this->others,
        );
    }

    /** The median over the rounds, µs per cycle. */
    public function median(string $name, string $what): float
    {
        return Stats::median(array_column($this->samples[$name], $what));
    }

    /** @return list<float> one process's figure over another's, round by round */
    public function ratios(string $name, string $to, string $what): array
    {
        return array_map(
            static fn (array $one, array $other) => $one[$what] / $other[$what],
            $this->samples[$name],
            $this->samples[$to],
        );
    }

    public function ratio(string $name, string $to, string $what): ?float
    {
        return $this->has($name) && $this->has($to) ? Stats::median($this->ratios($name, $to, $what)) : null;
    }

    /** @return list<list<string>> a row for each process: the ratio to one of them, and the raw figures */
    public function table(string $to): array
    {
        $rows = [['', 'ratio', 'quartiles', 'µs/cycle', 'fastest', 'CPU, client', 'CPU, server', 'ratio of CPU']];
        foreach (array_keys($this->samples) as $name) {
            $ratios = $this->ratios($name, $to, 'wall');
            $rows[$name] = [
                $name,
                sprintf('%.2f', Stats::median($ratios)),
                sprintf('%.2f–%.2f', Stats::quantile($ratios, 0.25), Stats::quantile($ratios, 0.75)),
                sprintf('%.1f', $this->median($name, 'wall')),
                sprintf('%.1f', min(array_column($this->samples[$name], 'wall'))),
                sprintf('%.1f', $this->median($name, 'client')),
                sprintf('%.1f', $this->median($name, 'server')),
                sprintf('%.2f', $this->ratio($name, $to, 'client')),
            ];
        }

        return array_values($rows);
    }

    /** CPU time that the server's main thread has used, in µs. */
    private static function serverCpu(RedisServer $server): float
    {
        $info = $server->command('INFO', 'cpu');
        preg_match_all('/^used_cpu_(?:sys|user)_main_thread:([\d.]+)/m', $info, $found)
            || preg_match_all('/^used_cpu_(?:sys|user):([\d.]+)/m', $info, $found);

        return array_sum($found[1]) * 1e6;
    }
}
