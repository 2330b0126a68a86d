<?php

declare(strict_types=1);

namespace RedisLease\Tests\Fault\Cuts;

use RuntimeException;

/** The outcomes of all cells, one line a step and aftermath, one letter a cut. */
final class Table
{
    private const LEGEND = <<<'TEXT'
        Told to the caller: T true, F false, A the owner, C ConnectionException, U OutcomeUnknownException, ! something else;
        X: a wrong answer. Cut places from left to right, those of the request before the bar, of the reply behind it.
        Afterwards the server is there (pass), or nobody listens (refuse), or it accepts and says nothing (hang).
        TEXT;

    /** @var list<array<string, mixed>> */
    private array $cells = [];

    public function add(array $cell): void
    {
        if (isset($cell['failure'])) {
            throw new RuntimeException("a process of the test failed: {$cell['failure']}");
        }
        $this->cells[] = $cell;
    }

    public function cells(): int
    {
        return count($this->cells);
    }

    /** @return list<string> in the order in which they were cut */
    public function steps(): array
    {
        return array_values(array_unique(array_column($this->sorted(), 'step')));
    }

    /** @return list<string> */
    public function wrong(): array
    {
        $wrong = [];
        foreach ($this->sorted() as $cell) {
            foreach ($cell['wrong'] as $why) {
                $wrong[] = "{$cell['cell']}, {$cell['recovery']}: $why";
            }
        }

        return $wrong;
    }

    public function text(): string
    {
        $rows = [];
        $count = ['T' => 0, 'F' => 0, 'A' => 0, 'C' => 0, 'U' => 0, '!' => 0, 'X' => 0];
        foreach ($this->sorted() as $cell) {
            $letter = $cell['wrong'] === [] ? $cell['letter'] : 'X';
            $rows[$cell['step']][$cell['later']][$cell['how']][$cell['direction']] ??= '';
            $rows[$cell['step']][$cell['later']][$cell['how']][$cell['direction']] .= $letter;
            $count[$letter]++;
        }
        $lines = [sprintf('%-34s%-8s%-24s%-24s%s', 'step', 'then', 'FIN', 'RST', 'held')];
        foreach ($rows as $step => $laters) {
            foreach ($laters as $later => $hows) {
                $texts = array_map(static fn (array $letters) => implode('|', array_map(self::brief(...), $letters)), $hows);
                $lines[] = rtrim(sprintf('%-34s%-8s%-24s%-24s%s', $step, $later, $texts['fin'], $texts['reset'], $texts['hold']));
            }
        }
        $lines[] = implode(', ', array_map(static fn ($letter, $n) => "$letter $n", array_keys($count), $count));

        return self::LEGEND . "\n\n" . implode("\n", $lines) . "\n";
    }

    /** Long runs of one letter, as when every byte is cut, are counted. */
    private static function brief(string $letters): string
    {
        return preg_replace_callback('/(.)\1{9,}/', static fn ($run) => $run[1] . '×' . strlen($run[0]), $letters);
    }

    private function sorted(): array
    {
        $cells = $this->cells;
        usort($cells, static fn (array $one, array $other) => $one['number'] <=> $other['number']);

        return $cells;
    }
}
