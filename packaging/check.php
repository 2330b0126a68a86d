<?php

/*
 * Run by tools/check-install: takes a lock, looks for it with redis-cli, gives it back, looks again. Ends with 0 if
 * all of that was as it should be.
 *
 * Arguments: the socket of a Redis, the version that is wanted.
 */

declare(strict_types=1);

[, $socket, $version] = $argv;

$demand = static function (bool $isMet, string $what): void {
    if (!$isMet) {
        fwrite(STDERR, "not met: $what\n");
        exit(1);
    }
};
$inRedis = static fn (string $key): string => trim((string) shell_exec(
    'redis-cli -s ' . escapeshellarg($socket) . ' GET ' . escapeshellarg($key) . ' 2>&1',
));

$demand(extension_loaded('redis_lease'), 'PHP has redis_lease loaded');
$demand(phpversion('redis_lease') === $version, "its version is $version, it says " . phpversion('redis_lease'));

ini_set('redis_lease.dsn', "unix://$socket");
$lock = new DistributedLock('installed', ttl: 5.0);
$demand($lock->acquire(), 'the lock is taken');
$demand($lock->isHeld() && $lock->fence() > 0, 'it is held, under a fence');
$demand($inRedis('lock:installed') === $lock->token(), 'Redis has its token');
$demand($lock->release(), 'it is given back');
$demand($inRedis('lock:installed') === '', 'Redis has it no more');

printf("A lock was taken and given back: PHP %s, redis_lease %s.\n", PHP_VERSION, $version);
