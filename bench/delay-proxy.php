<?php

/*
 * A network that takes its time: hands every byte on after so many microseconds, in either direction.
 * Prints the TCP port that it listens on.
 *
 * Usage: php bench/delay-proxy.php UNIX_SOCKET MICROSECONDS
 */

declare(strict_types=1);

[, $target, $delay] = $argv;
$delay = 1000 * (int) $delay;

$context = stream_context_create(['socket' => ['tcp_nodelay' => true]]);
$listener = stream_socket_server('tcp://127.0.0.1:0', $code, $why, context: $context) ?: exit($why);
fwrite(STDOUT, substr(strrchr(stream_socket_get_name($listener, false), ':'), 1) . "\n");

/** @var array<int, array{from: resource, to: resource, queue: list<array{int, string}>}> $ways by their source's id */
$ways = [];

for (;;) {
    $read = [STDIN, $listener, ...array_column($ways, 'from')];
    $due = array_filter(array_map(static fn (array $way) => $way['queue'][0][0] ?? null, $ways));
    $left = $due === [] ? 1_000_000 : max(0, intdiv(min($due) - hrtime(true), 1000));
    $write = $except = null;
    stream_select($read, $write, $except, 0, $left);
    $now = hrtime(true);

    foreach ($read as $stream) {
        if ($stream === STDIN) {
            exit; // Whoever started it is gone.
        }
        if ($stream === $listener) {
            $client = stream_socket_accept($listener);
            $server = stream_socket_client("unix://$target");
            foreach ([[$client, $server], [$server, $client]] as [$from, $to]) {
                stream_set_blocking($from, false);
                stream_set_read_buffer($from, 0);
                $ways[(int) $from] = ['from' => $from, 'to' => $to, 'queue' => []];
            }
            continue;
        }
        $bytes = (string) fread($stream, 65536);
        if ($bytes === '' && feof($stream)) {
            $other = $ways[(int) $stream]['to'];
            unset($ways[(int) $stream], $ways[(int) $other]);
            fclose($stream);
            fclose($other);
            break;
        }
        $ways[(int) $stream]['queue'][] = [$now + $delay, $bytes];
    }
    foreach ($ways as &$way) {
        while (($way['queue'][0][0] ?? PHP_INT_MAX) <= hrtime(true)) {
            fwrite($way['to'], array_shift($way['queue'])[1]);
        }
    }
    unset($way);
}
