<?php

/*
 * What loading the extension adds to a PHP process: time from start to end, and memory. The two
 * kinds of runs alternate, so that a busy moment of the machine hits both; medians are compared.
 *
 * Usage: php php-tests/load-cost.php [path of the extension]
 */

declare(strict_types=1);

const ROUNDS = 101;
const MOST_MILLISECONDS = 2.0;
const MOST_MEGABYTES = 2.0;

$extension = $argv[1] ?? (getenv('REDIS_LEASE_SO') ?: dirname(__DIR__) . '/target/release/libredis_lease.so');
if (!is_file($extension)) {
    fwrite(STDERR, "There is no extension at $extension\n");
    exit(1);
}

/** @return array{time: float, memory: float} milliseconds and megabytes of one process */
function measure(?string $extension): array
{
    // Everything resident, though the pages of the file itself are shared by all workers of a host.
    $code = 'preg_match("/^VmRSS:\s*(\d+)/m", file_get_contents("/proc/self/status"), $m); echo $m[1];';
    $start = hrtime(true);
    $process = proc_open(
        [PHP_BINARY, '-n', ...($extension === null ? [] : ['-d', "extension=$extension"]), '-r', $code],
        [0 => ['file', '/dev/null', 'r'], 1 => ['pipe', 'w']],
        $pipes,
    );
    $kilobytes = (int) stream_get_contents($pipes[1]);
    $code = proc_close($process);
    if ($code !== 0 || $kilobytes === 0) {
        fwrite(STDERR, "php ended with $code\n");
        exit(1);
    }

    return ['time' => (hrtime(true) - $start) / 1e6, 'memory' => $kilobytes / 1024];
}

function median(array $values): float
{
    sort($values);

    return $values[intdiv(count($values), 2)];
}

$runs = ['without' => [], 'with' => []];
measure($extension);
measure(null);
for ($round = 0; $round < ROUNDS; $round++) {
    $runs['without'][] = measure(null);
    $runs['with'][] = measure($extension);
}

$failed = false;
foreach (['time' => ['ms', MOST_MILLISECONDS], 'memory' => ['MB', MOST_MEGABYTES]] as $what => [$unit, $most]) {
    $without = median(array_column($runs['without'], $what));
    $with = median(array_column($runs['with'], $what));
    $added = $with - $without;
    $good = $added < $most;
    $failed = $failed || !$good;
    printf(
        "%-6s  without %6.2f %s, with %6.2f %s: %+.2f %s, ratio %.3f (allowed: below %.1f %s)%s\n",
        $what,
        $without,
        $unit,
        $with,
        $unit,
        $added,
        $unit,
        $with / $without,
        $most,
        $unit,
        $good ? '' : '  TOO MUCH',
    );
}
exit($failed ? 1 : 0);
