<?php

/*
 * The smallest application of Laravel's with the package, found by auto-discovery as Composer would have it. It is
 * required with $directory and $stores (of config/cache.php) set, and $database besides, and gives the booted
 * application. A configuration that is there already stays.
 */

declare(strict_types=1);

use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Foundation\Application;
use Illuminate\Foundation\Bootstrap\BootProviders;
use Illuminate\Foundation\Bootstrap\LoadConfiguration;
use Illuminate\Foundation\Bootstrap\RegisterFacades;
use Illuminate\Foundation\Bootstrap\RegisterProviders;
use Illuminate\Foundation\Console\Kernel;
use Illuminate\Foundation\Exceptions\Handler;

require_once 'Illuminate/autoload.php';
$bridge = dirname(__DIR__, 3) . '/bridge';
require_once "$bridge/autoload.php";

foreach (['bootstrap/cache', 'config', 'storage/framework', 'vendor/composer'] as $needed) {
    is_dir("$directory/$needed") || mkdir("$directory/$needed", 0700, true);
}
$package = json_decode(file_get_contents("$bridge/composer.json"), true, flags: JSON_THROW_ON_ERROR);
file_put_contents("$directory/composer.json", '{}');
file_put_contents("$directory/vendor/composer/installed.json", json_encode(['packages' => [$package]]));
$config = [
    'app' => [
        'name' => 'test', 'env' => 'testing', 'key' => str_repeat('k', 32), 'cipher' => 'AES-256-CBC', 'timezone' => 'UTC',
        'locale' => 'en',
        'providers' => [
            Illuminate\Bus\BusServiceProvider::class,
            Illuminate\Cache\CacheServiceProvider::class,
            Illuminate\Database\DatabaseServiceProvider::class,
            Illuminate\Filesystem\FilesystemServiceProvider::class,
            Illuminate\Foundation\Providers\ConsoleSupportServiceProvider::class,
            Illuminate\Foundation\Providers\FoundationServiceProvider::class,
            Illuminate\Queue\QueueServiceProvider::class,
            Illuminate\Redis\RedisServiceProvider::class,
        ],
    ],
    'cache' => ['default' => 'leases', 'prefix' => '', 'stores' => $stores],
    'queue' => [
        'default' => 'sync',
        'connections' => [
            'sync' => ['driver' => 'sync'],
            'database' => ['driver' => 'database', 'table' => 'jobs', 'queue' => 'default', 'retry_after' => 1],
        ],
        'failed' => ['driver' => 'null'],
    ],
    'database' => $database ?? [],
];
foreach ($config as $name => $values) {
    is_file("$directory/config/$name.php")
        || file_put_contents("$directory/config/$name.php", '<?php return ' . var_export($values, true) . ';');
}

$app = new Application($directory);
// Debian's package has not the files that newer ones would merge in.
method_exists($app, 'dontMergeFrameworkConfiguration') && $app->dontMergeFrameworkConfiguration();
$app->singleton(Illuminate\Contracts\Console\Kernel::class, Kernel::class);
$app->singleton(ExceptionHandler::class, Handler::class);
$app->bootstrapWith([LoadConfiguration::class, RegisterFacades::class, RegisterProviders::class, BootProviders::class]);

return $app;
