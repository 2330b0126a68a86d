<?php

declare(strict_types=1);

/**
 * Prints what happened in the sale, in 80 columns.
 */
final class Report
{
    private const COLUMNS = 3;

    public function __construct(private readonly Terminal $terminal)
    {
    }

    public function opening(int $buyers, float $payment): void
    {
        $this->terminal->line("One item in stock, $buyers buyers at the same instant, each a process of its own.");
        $this->terminal->line(sprintf('Taking the payment lasts %d ms.', $payment * 1000));
    }

    public function heading(string $title, string $steps): void
    {
        $this->terminal->heading($title, $steps);
    }

    /**
     * Each buyer's outcome and time, the fastest first, read down the columns.
     *
     * @param array<int, array{outcome: string, seconds: float}> $answers
     */
    public function answers(array $answers): void
    {
        uasort($answers, static fn (array $a, array $b): int => $a['seconds'] <=> $b['seconds']);
        $cells = [];
        foreach ($answers as $buyer => ['outcome' => $outcome, 'seconds' => $seconds]) {
            // An exception's text is too long for a cell; the counts below show it.
            $word = strlen($outcome) > 9 ? 'error' : $outcome;
            $cell = sprintf('%2d %-9s %6.1f ms', $buyer, $word, $seconds * 1000);
            $cells[] = $outcome === 'bought' ? $this->terminal->paint(Terminal::GREEN, $cell) : $cell;
        }

        $rows = (int) ceil(count($cells) / self::COLUMNS);
        $this->terminal->line('');
        for ($row = 0; $row < $rows; $row++) {
            $columns = array_filter(array_map(
                static fn (int $column): ?string => $cells[$column * $rows + $row] ?? null,
                range(0, self::COLUMNS - 1),
            ));
            $this->terminal->line('  ' . implode('   ', $columns));
        }
        $this->terminal->line('');
    }

    /** @param array<int, array{outcome: string, seconds: float}> $answers */
    public function result(array $answers, int $stock): void
    {
        $outcomes = array_count_values(array_column($answers, 'outcome')) + ['bought' => 0];
        ksort($outcomes);
        $counts = array_map(
            static fn (string $outcome, int $count): string => "$count $outcome",
            array_keys($outcomes),
            $outcomes,
        );
        $verdict = match (true) {
            $stock < 0 => $this->terminal->paint(Terminal::RED, sprintf('Oversold: %d paid for an item that is not there.', -$stock)),
            $outcomes['bought'] === 1 => $this->terminal->paint(Terminal::GREEN, 'Exactly one sale.'),
            default => $this->terminal->paint(Terminal::RED, 'No sale.'),
        };
        $this->terminal->line('  ' . implode(', ', $counts) . ". Stock is now $stock. $verdict");
    }
}
