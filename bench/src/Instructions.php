<?php

declare(strict_types=1);

namespace RedisLease\Bench;

use RedisLease\Tests\Support\Janitor;
use RuntimeException;

/** Instructions of the client per cycle: two runs under callgrind, and the difference divided. */
final class Instructions
{
    private const FEW = 100;
    private const MANY = 600;

    public function __construct(private readonly Contest $contest)
    {
    }

    public function run(): void
    {
        $this->contest->report->section(
            'Instructions of the client per cycle',
            'Counted by callgrind, without the kernel\'s: a run of ' . self::MANY . ' cycles less one of ' . self::FEW
            . '. Without spinning, which goes on for as long as the answer takes.',
        );
        if (exec('command -v valgrind') === '') {
            $this->contest->report->line('Not measured: valgrind is not installed.');

            return;
        }
        $titles = $this->contest->isQuick ? [Contest::RAW, Contest::SLEEPING] : [
            Contest::RAW, Contest::SLEEPING, Contest::ANEW,
            Contest::SYMFONY, Contest::SYMFONY_ON_LEASES,
            Contest::LARAVEL, Contest::LARAVEL_ON_LEASES,
        ];
        $rows = [['', 'ratio', 'instructions']];
        foreach ($titles as $title) {
            $peer = Contest::PEERS[$title];
            if ($peer::isThere()) {
                $count = ($this->count($peer, self::MANY) - $this->count($peer, self::FEW)) / (self::MANY - self::FEW);
                $base ??= $count;
                $rows[] = [$title, sprintf('%.2f', $count / $base), number_format($count)];
            }
        }
        $this->contest->report->table($rows);
    }

    /** @param class-string<Peer> $peer */
    private function count(string $peer, int $cycles): int
    {
        $file = Janitor::path('.callgrind');
        $worker = Process::start([
            'valgrind', '--quiet', '--log-file=/dev/null', '--tool=callgrind', "--callgrind-out-file=$file",
            ...Process::workerCommand($peer, $this->contest->tcp, $this->contest->name(), ['redis_lease.spin' => '0']),
        ]);
        $worker->tell("cycles $cycles");
        $worker->line();
        $worker->end();
        if (!preg_match('/^(?:summary|totals): (\d+)/m', (string) @file_get_contents($file), $found)) {
            throw new RuntimeException('callgrind wrote no summary');
        }

        return (int) $found[1];
    }
}
