<?php

/*
 * The benchmarks, all in one run. Writes bench/results/NAME.txt and NAME.svg; tools/bench prepares what this needs.
 *
 * Usage: php bench/run.php NAME FLOOR [PART…]
 * Environment: QUICK=1 for a look of a minute, BENCH_STRICT=1 to fail when a promised figure is missed,
 * BENCH_PATIENCE=300 to wait so many seconds, in each comparison, for moments in which the machine is quiet.
 */

declare(strict_types=1);

use RedisLease\Bench\{Contended, Contest, Counting, Far, Frameworks, HandOff, Instructions, Loaded, Machine, Mishaps, Quorum, Uncontended};

require __DIR__ . '/autoload.php';

[, $name, $floor] = $argv;
$parts = array_slice($argv, 3);

$contest = new Contest((bool) getenv('QUICK'), $floor);
$description = Machine::description($contest->server);
$report = $contest->report;
foreach ($description as $what => $value) {
    $report->line(str_pad("$what:", 16) . $value);
}

$start = hrtime(true);
$all = [
    'uncontended' => Uncontended::class,
    'instructions' => Instructions::class,
    'handoff' => HandOff::class,
    'contended' => Contended::class,
    'loaded' => Loaded::class,
    'far' => Far::class,
    'mishaps' => Mishaps::class,
    'quorum' => Quorum::class,
    'frameworks' => Frameworks::class,
    'counting' => Counting::class,
];
foreach ($parts === [] ? array_keys($all) : $parts as $part) {
    (new $all[$part]($contest))->run();
}

$report->section('What was promised');
$report->table($contest->bars->table());
$report->line();
$report->line(sprintf('Load at the end %s, run time %d s.', Machine::load(), (hrtime(true) - $start) / 1e9));

file_put_contents(__DIR__ . "/results/$name.txt", $report->text());
file_put_contents(__DIR__ . "/results/$name.svg", $contest->chart->svg($description));

exit(getenv('BENCH_STRICT') && !$contest->bars->areAllMet() ? 1 : 0);
