<?php

/* Finds the classes of the benchmarks, of the bridge, and the tests' servers and their MONITOR transcripts. */

declare(strict_types=1);

spl_autoload_register(static function (string $class): void {
    $places = [
        'RedisLease\\Bench\\' => '/src/',
        'RedisLease\\Bridge\\' => '/../bridge/src/',
        'RedisLease\\Tests\\' => '/../php-tests/',
    ];
    foreach ($places as $prefix => $directory) {
        $file = __DIR__ . $directory . str_replace('\\', '/', substr($class, strlen($prefix))) . '.php';
        if (str_starts_with($class, $prefix) && is_file($file)) {
            require $file;
        }
    }
});
