<?php

declare(strict_types=1);

namespace RedisLease\Bench;

/** The figures that were promised, and whether each was met. */
final class Bars
{
    /** @var list<array{string, string, string, ?bool}> what, demanded, found, met */
    private array $bars = [];

    public function atMost(string $what, float $limit, ?float $found, string $format = '%.2f'): void
    {
        $this->add($what, 'at most ' . sprintf($format, $limit), $found, $format, $found <= $limit);
    }

    public function atLeast(string $what, float $limit, ?float $found, string $format = '%.2f'): void
    {
        $this->add($what, 'at least ' . sprintf($format, $limit), $found, $format, $found >= $limit);
    }

    /** A figure that belongs beside a bar, and is none. */
    public function told(string $what, ?float $found, string $format = '%.2f'): void
    {
        $this->bars[] = [$what, '', $found === null ? '' : sprintf($format, $found), null];
    }

    public function notMeasured(string $what, string $demanded, string $where): void
    {
        $this->bars[] = [$what, $demanded, $where, null];
    }

    public function areAllMet(): bool
    {
        return !in_array(false, array_column($this->bars, 3), true);
    }

    /** @return list<list<string>> */
    public function table(): array
    {
        $rows = [['', 'demanded', 'found', '']];
        foreach ($this->bars as [$what, $demanded, $found, $isMet]) {
            $rows[] = [$what, $demanded, $found, match ($isMet) { true => 'met', false => 'NOT MET', null => '' }];
        }

        return $rows;
    }

    private function add(string $what, string $demanded, ?float $found, string $format, bool $isMet): void
    {
        $this->bars[] = $found === null
            ? [$what, $demanded, 'not measured: the peer is absent', null]
            : [$what, $demanded, sprintf($format, $found), $isMet];
    }
}
