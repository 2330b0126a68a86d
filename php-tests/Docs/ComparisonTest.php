<?php

declare(strict_types=1);

namespace RedisLease\Tests\Docs;

use PHPUnit\Framework\TestCase;
use RedisLease\Tests\Support\Markdown;

/** Each figure of the comparison is the one that the kept run of the benchmark has in its place. */
final class ComparisonTest extends TestCase
{
    /** Where each row comes from: the section of bench.txt, and its column. */
    private const SOURCES = [
        'acquire and release, uncontended, as a ratio to phpredis by hand (a core each for client and server)'
            => ['Uncontended acquire + release, TCP', 'ratio'],
        'the same, where the scheduler puts them' => ['The same, where the scheduler puts them', 'ratio'],
        "from the release to the waiter's lock, median" => ['Hand-off: ', 'p50'],
        'the same, 99th percentile' => ['Hand-off: ', 'p99'],
        '16 workers on one lock, sections per second' => ['16 workers × 20 sections', 'sections/s'],
        'the longest wait among them' => ['16 workers × 20 sections', 'longest wait'],
    ];
    private const PROGRAMS = ['redis_lease', 'Symfony Lock', 'Laravel cache lock'];

    public function testTheTableIsThatOfTheBenchmark(): void
    {
        $rows = Markdown::page('docs/comparison.md')->section('Figures')->rows();
        self::assertSame(array_keys(self::SOURCES), array_column($rows, 0));
        foreach ($rows as $row) {
            [$section, $column] = self::SOURCES[$row[0]];
            foreach (self::PROGRAMS as $number => $program) {
                // The unit stands in the one or the other.
                $said = str_replace(' ms', '', $row[1 + $number]);
                self::assertSame(str_replace(' ms', '', self::figure($section, $program, $column)), $said, "$row[0]: $program");
            }
        }
    }

    public function testWhatIsNotBetterIsThatOfTheBenchmark(): void
    {
        $said = str_replace("\n", ' ', Markdown::page('docs/comparison.md')->section('Figures')->text);
        $uncontended = self::SOURCES[array_key_first(self::SOURCES)][0];
        $cycle = self::figure($uncontended, 'redis_lease, spin=0', 'ratio');
        $time = self::figure($uncontended, 'redis_lease', 'ratio of CPU');

        self::assertStringContainsString("with `redis_lease.spin = 0` a cycle takes $cycle times what phpredis by hand takes", $said);
        self::assertStringContainsString("as it is by default, the client's processor time is $time times as much", $said);
    }

    private static function figure(string $section, string $program, string $column): string
    {
        $report = (string) file_get_contents(Markdown::root() . '/bench/results/bench.txt');
        $found = preg_match('/^' . preg_quote($section, '/') . '.*\n=+\n(?:.*\n)*?\n( .*)\n-+\n((?:.+\n)+)/m', $report, $table);
        self::assertSame(1, $found, "bench.txt has no table under $section");
        $columns = preg_split('/ {2,}/', trim($table[1]));
        foreach (explode("\n", trim($table[2])) as $line) {
            $cells = preg_split('/ {2,}/', $line);
            if (array_shift($cells) === $program) {
                self::assertSame(count($columns), count($cells), $line);

                return $cells[array_search($column, $columns, true)];
            }
        }
        self::fail("bench.txt has no $program under $section");
    }
}
