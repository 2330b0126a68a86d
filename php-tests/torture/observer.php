<?php

/*
 * Looks into Redis all the time, on a connection of its own, and writes down who has each lock, for the Checker.
 *
 * Arguments: a JSON object with socket, directory, resources, node. It ends when the file "seen" is there.
 */

declare(strict_types=1);

namespace RedisLease\Tests\torture;

use RedisLease\Tests\Support\Resp;
use RuntimeException;

require dirname(__DIR__) . '/Support/Resp.php';
require dirname(__DIR__) . '/Support/RespError.php';

const LOOK = <<<'LUA'
    local seen = {}
    for i, key in ipairs(KEYS) do seen[i] = {redis.call('GET', key), redis.call('PTTL', key)} end
    return seen
    LUA;

$args = json_decode(base64_decode($argv[1]), true, 8, JSON_THROW_ON_ERROR);
$keys = array_map(static fn (string $resource) => "lock:$resource", $args['resources']);
$log = fopen($args['directory'] . '/events-observer-' . $args['node'], 'a');
$redis = null;
while (!file_exists($args['directory'] . '/seen')) {
    try {
        $redis ??= new Resp('unix://' . $args['socket'], 10.0);
        $t0 = hrtime(true);
        $seen = $redis->command('EVAL', LOOK, count($keys), ...$keys);
        $sample = ['e' => 'sample', 'node' => $args['node'], 't' => $t0, 't1' => hrtime(true), 'seen' => array_combine($args['resources'], $seen)];
        fwrite($log, json_encode($sample) . "\n");
        usleep(8_000);
    } catch (RuntimeException) {
        $redis = null;
        usleep(2_000);
    }
}
