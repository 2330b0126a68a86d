<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Inspect;

use Exception;
use InvalidArgumentException;
use LogicException;
use Symfony\Component\Console\Terminal;

/**
 * The live view of lease:top: which locks are held, which of them are the hottest, and how acquisitions end.
 *
 * It looks from outside, now and then: a lock that is held for milliseconds is rarely met. What was met stays in the
 * view, so that the hottest come together.
 *
 * @internal
 */
final class Top
{
    /** Resources that are remembered; of more, the hottest. */
    private const REMEMBERED = 1_000;
    private const RESOURCE = 0;
    private const OWNER = 1;

    /** @var array<string, array{lease: Lease|null, owner: string|null, met: int, changes: int, waits: int}> */
    private array $seen = [];
    private readonly Outcomes $outcomes;

    /** @param string|null $metrics a URL or file with the text of RedisLease\Metrics::prometheus() */
    public function __construct(
        private readonly Inspector $inspector,
        private readonly string $beginning = '',
        ?string $metrics = null,
    ) {
        $this->outcomes = new Outcomes($metrics);
    }

    /**
     * Shows it again and again, and with $once a single time.
     *
     * @param callable(string): void $write
     * @param string $interval the option of that name: seconds between two looks, 0.1 to 3600
     * @param string $limit the option: how many resources are shown at most
     * @param bool $clears whether it is a terminal: it is cleared before each, and nothing runs over its edges
     *
     * @throws InvalidArgumentException when an option is out of range
     */
    public function show(callable $write, string $interval, string $limit, bool $once, bool $clears): void
    {
        $seconds = is_numeric($interval) ? (float) $interval : NAN;
        if (!($seconds >= 0.1 && $seconds <= 3600.0)) {
            throw new InvalidArgumentException("The option --interval must be between 0.1 and 3600 seconds, $interval given.");
        }
        if (!ctype_digit($limit) || (int) $limit < 1) {
            throw new InvalidArgumentException("The option --limit must be a number of resources, 1 or more, $limit given.");
        }
        if ($once) {
            $write($this->look((int) $limit));

            return;
        }
        $terminal = $clears ? new Terminal() : null;
        for ($isFirst = true, $isAway = false;; $isFirst = false) {
            // Each time anew: a terminal may change.
            [$columns, $rows] = [$terminal?->getWidth() ?? PHP_INT_MAX, $terminal?->getHeight() ?? PHP_INT_MAX];
            try {
                $isAway && $this->inspector->reconnect();
                [$isAway, $text] = [false, $this->look((int) $limit, $columns, $rows)];
            } catch (Exception $trouble) {
                // At first it is a mistake, of a setting perhaps; later it passes.
                if ($isFirst || $trouble instanceof LogicException) {
                    throw $trouble;
                }
                $message = self::clock() . '  Redis does not answer: ' . Lease::printable($trouble->getMessage());
                [$isAway, $text] = [true, self::cut($message, $columns) . "\n"];
            }
            $write(($clears ? "\e[H\e[J" : '') . $text);
            usleep((int) ($seconds * 1e6));
        }
    }

    /** What is to be seen now, as text that fits into so many columns and rows. */
    public function look(int $limit, int $columns = PHP_INT_MAX, int $rows = PHP_INT_MAX): string
    {
        $held = $waitedFor = 0;
        foreach ($this->seen as &$entry) {
            $entry['lease'] = null;
        }
        unset($entry);
        foreach ($this->inspector->list($this->beginning, withWaiters: true) as $lease) {
            $held++;
            $waitedFor += (int) $lease->isWaitedFor;
            $this->note($lease);
        }
        uasort($this->seen, self::byHeat(...));
        $this->seen = array_slice($this->seen, 0, self::REMEMBERED, true);

        $waiting = $this->inspector->waiting();
        $lines = [sprintf(
            '%s  %s held, %d of them waited for%s.',
            self::clock(),
            $held === 1 ? '1 lock' : "$held locks",
            $waitedFor,
            $waiting === null ? '' : ($waiting === 1 ? '; 1 client waits' : "; $waiting clients wait"),
        )];
        array_push($lines, ...$this->rates(), ...['']);
        // Below them the titles, how many more there are, and the cursor.
        $space = max(1, $rows - count($lines) - 3);
        array_push($lines, ...$this->table(min($limit, $space), $columns));


        return implode("\n", array_map(static fn (string $line): string => self::cut($line, $columns), $lines)) . "\n";
    }

    private static function cut(string $text, int $columns, string $end = ''): string
    {
        return mb_strwidth($text) <= $columns ? $text : mb_strimwidth($text, 0, $columns, $end);
    }

    private static function clock(): string
    {
        return gmdate('H:i:s');
    }

    private function note(Lease $lease): void
    {
        // A number as a name would come back as an integer.
        $entry = $this->seen["x{$lease->resource}"] ?? ['owner' => null, 'met' => 0, 'changes' => 0, 'waits' => 0];
        $isAnother = $entry['met'] > 0 && $lease->owner !== null && $entry['owner'] !== $lease->owner;
        $this->seen["x{$lease->resource}"] = [
            'lease' => $lease,
            'owner' => $lease->owner ?? $entry['owner'],
            'met' => $entry['met'] + 1,
            'changes' => $entry['changes'] + (int) $isAnother,
            'waits' => $entry['waits'] + (int) $lease->isWaitedFor,
        ];
    }

    /**
     * @param array{waits: int, changes: int, met: int, ...} $one
     * @param array{waits: int, changes: int, met: int, ...} $other
     */
    private static function byHeat(array $one, array $other): int
    {
        $heat = static fn (array $entry): array => [$entry['waits'], $entry['changes'], $entry['met']];

        return $heat($other) <=> $heat($one);
    }

    /** @return list<string> */
    private function rates(): array
    {
        $rates = $this->outcomes->rates();
        $lines = [];
        foreach (['acquires' => 'acquisitions/s', 'prefix_contention' => 'contended/s, by prefix'] as $counter => $title) {
            $parts = [];
            foreach (array_slice($rates[$counter] ?? [], 0, 8, true) as $label => $rate) {
                $parts[] = Lease::printable((string) $label) . ' ' . sprintf($rate < 10 ? '%.1f' : '%.0f', $rate);
            }
            if ($parts !== []) {
                $lines[] = "$title: " . implode(', ', $parts);
            }
        }
        $trouble = $this->outcomes->trouble();

        return $trouble === null ? $lines : [...$lines, $trouble];
    }

    /** @return list<string> */
    private function table(int $limit, int $columns): array
    {
        $rows = [['RESOURCE', 'OWNER', 'FENCE', 'REMAINING', 'WAITERS', 'CHANGES']];
        foreach (array_slice($this->seen, 0, $limit, true) as $name => $entry) {
            $lease = $entry['lease'];
            $rows[] = [
                ...($lease?->row() ?? [Lease::name(substr($name, 1)), '(free)', '-', '-']),
                $lease?->isWaitedFor ? 'yes' : '-',
                (string) $entry['changes'],
            ];
        }
        $widths = array_map(
            static fn (int $column): int => max(array_map(mb_strwidth(...), array_column($rows, $column))),
            array_keys($rows[0]),
        );
        // Where it is too narrow, first the tokens and then the names lose their ends.
        foreach ([self::OWNER => 9, self::RESOURCE => 12] as $column => $least) {
            $over = array_sum($widths) + 2 * (count($widths) - 1) - $columns;
            $widths[$column] -= max(0, min($over, $widths[$column] - $least));
            foreach ($rows as &$row) {
                $row[$column] = self::cut($row[$column], $widths[$column], '…');
            }
            unset($row);
        }
        $lines = array_map(static fn (array $row): string => rtrim(implode('  ', array_map(
            static fn (string $cell, int $width): string => $cell . str_repeat(' ', $width - mb_strwidth($cell)),
            $row,
            $widths,
        ))), $rows);
        $more = count($this->seen) - $limit;

        return $more > 0 ? [...$lines, "and $more more"] : $lines;
    }
}
