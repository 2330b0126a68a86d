<?php

declare(strict_types=1);

namespace RedisLease\Bench;

/** What the run found, as text: shown as it comes, and kept for the file. */
final class Report
{
    private string $text = '';

    public function line(string $line = ''): void
    {
        $this->text .= "$line\n";
        echo "$line\n";
    }

    public function section(string $title, string ...$remarks): void
    {
        $this->line();
        $this->line($title);
        $this->line(str_repeat('=', mb_strlen($title)));
        foreach ($remarks as $remark) {
            $this->line(wordwrap($remark, 110));
        }
        $this->line();
    }

    /**
     * The first column to the left, all others to the right.
     *
     * @param list<list<string>> $rows the first is the head
     */
    public function table(array $rows): void
    {
        $widths = array_map(
            static fn (int $column) => max(array_map('mb_strlen', array_column($rows, $column))),
            array_keys($rows[0]),
        );
        foreach ($rows as $number => $row) {
            $line = '';
            foreach ($row as $column => $cell) {
                $space = str_repeat(' ', $widths[$column] - mb_strlen($cell));
                $line .= $column === 0 ? $cell . $space : "  $space$cell";
            }
            $this->line(rtrim($line));
            if ($number === 0) {
                $this->line(str_repeat('-', array_sum($widths) + 2 * (count($widths) - 1)));
            }
        }
    }

    public function text(): string
    {
        return $this->text;
    }
}
