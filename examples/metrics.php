<?php

/*
 * What Prometheus scrapes. Serve it from a small pool of its own under the application's FPM master: all workers of one
 * master count together, and a pool whose workers all wait cannot answer. Keep it from the public, in the web server or
 * by the environment variable METRICS_TOKEN, which then has to come as "Authorization: Bearer …".
 *
 *     php examples/metrics.php    shows what it looks like
 */

declare(strict_types=1);

use RedisLease\Metrics;

$token = getenv('METRICS_TOKEN');
if (is_string($token) && PHP_SAPI !== 'cli' && !hash_equals("Bearer $token", $_SERVER['HTTP_AUTHORIZATION'] ?? '')) {
    http_response_code(403);
    exit("METRICS_TOKEN is set, and this request does not bring it.\n");
}

header('Content-Type: text/plain; version=0.0.4; charset=utf-8');
echo Metrics::prometheus();
