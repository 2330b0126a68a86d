<?php

/*
 * Makes the test classes loadable without Composer and refuses to start where nothing would be
 * tested: without the extension, or without a Redis server to run against.
 */

declare(strict_types=1);

spl_autoload_register(static function (string $class): void {
    $prefix = 'RedisLease\\Tests\\';
    if (str_starts_with($class, $prefix)) {
        $file = __DIR__ . '/' . str_replace('\\', '/', substr($class, strlen($prefix))) . '.php';
        if (is_file($file)) {
            require $file;
        }
    }
});

require_once __DIR__ . '/Support/wait.php';
require_once dirname(__DIR__) . '/bridge/autoload.php';

$refuse = static function (string $why): never {
    fwrite(STDERR, "The tests cannot run: $why\n");
    exit(1);
};

if (!extension_loaded('redis_lease')) {
    $refuse(
        "the extension redis_lease is not loaded.\n"
        . 'Build it, then: php -d extension=$REDIS_LEASE_SO $(command -v phpunit) -c php-tests/phpunit.xml',
    );
}
if (!is_file(RedisLease\Tests\Support\PhpProcess::extension())) {
    $refuse('REDIS_LEASE_SO names no file: ' . RedisLease\Tests\Support\PhpProcess::extension());
}
if (RedisLease\Tests\Support\RedisServer::binary() === null) {
    $refuse('there is no redis-server on the PATH, and REDIS_SERVER_BIN names none.');
}
// A lock without a connection never reaches a server that is not the tests' own.
ini_set('redis_lease.dsn', 'unix:///dev/null/no-redis');
if (!function_exists('posix_kill')) {
    $refuse('PHP needs its posix extension to stop and kill the servers and workers.');
}
