<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Laravel;

use Illuminate\Container\Container;
use Illuminate\Contracts\Cache\LockProvider;
use Illuminate\Contracts\Cache\Store;
use Illuminate\Foundation\Application;
use Illuminate\Support\Facades\Facade;
use RedisLease\Bridge\Laravel\LeaseCacheStore;
use RedisLease\Bridge\Laravel\LeaseLock;
use RedisLease\Bridge\Laravel\LeaseLocks;
use RedisLease\Bridge\LeaseFactory;
use RedisLease\Tests\Bridge\Database\Needs;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\ServerTestCase;
use RedisLease\Tests\Support\Worker;

/** A test class with Laravel beside the server. */
abstract class LaravelTestCase extends ServerTestCase
{
    private const PREPARE = <<<'PHP'
        error_reporting(E_ALL & ~E_DEPRECATED);
        ['directory' => $directory, 'stores' => $stores, 'database' => $database] = $args;
        $app = require $args['application'];
        use Illuminate\Support\Facades\Cache;

        PHP;

    private ?Application $app = null;

    public static function setUpBeforeClass(): void
    {
        Needs::module('mbstring', 'php-mbstring');
        Needs::library('php-laravel-framework', 'Illuminate/autoload.php');
        parent::setUpBeforeClass();
    }

    protected function tearDown(): void
    {
        $this->app?->flush();
        Container::setInstance(null);
        Facade::clearResolvedInstances();
        Facade::setFacadeApplication(null);
    }

    /** config/cache.php: the leases, with values in memory. */
    protected static function stores(array $leases = []): array
    {
        return [
            'memory' => ['driver' => 'array'],
            'leases' => $leases + ['driver' => 'redis_lease', 'store' => 'memory', 'dsn' => self::$server->dsn()],
        ];
    }

    protected function app(
        array $leases = [],
        array $database = [],
        array $stores = [],
        ?string $directory = null,
    ): Application {
        $directory ??= Janitor::directory('.app');
        $stores += self::stores($leases);
        $app = require __DIR__ . '/application.php';

        return $this->app = $app;
    }

    /** A lock without an application. */
    protected function lease(string $name, int|float $seconds = 30, ?string $owner = null): LeaseLock
    {
        return new LeaseLock(new LeaseFactory($this->connection()), $name, $seconds, $owner, 86_400.0);
    }

    protected function leaseStore(object $values): LockProvider&Store
    {
        return LeaseCacheStore::over($values, new LeaseLocks(new LeaseFactory($this->connection()), 86_400.0));
    }

    /** A process of an application of its own; its snippet finds $app and $args. */
    protected static function laravelWorker(string $snippet, array $args = []): Worker
    {
        $args += [
            'application' => __DIR__ . '/application.php',
            'directory' => Janitor::directory('.app'),
            'stores' => self::stores(),
            'database' => [],
        ];

        return Worker::start(self::PREPARE . $snippet, $args, phpIni: true);
    }
}
