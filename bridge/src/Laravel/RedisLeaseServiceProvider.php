<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Laravel;

use Illuminate\Cache\CacheManager;
use Illuminate\Support\ServiceProvider;
use RedisLease\Bridge\Laravel\Command\ListCommand;
use RedisLease\Bridge\Laravel\Command\ReleaseCommand;
use RedisLease\Bridge\Laravel\Command\ShowCommand;
use RedisLease\Bridge\LeaseFactory;

/** Adds the cache driver redis_lease, LeaseFactory for native leases, and the artisan commands. */
final class RedisLeaseServiceProvider extends ServiceProvider
{
    public function register(): void
    {
        $this->app->bind(Leases::class, static fn ($app): Leases => new Leases($app));
        $this->app->bind(
            LeaseFactory::class,
            static fn ($app): LeaseFactory => $app->make(Leases::class)->factory($app->make(Leases::class)->configuration()),
        );
        $this->callAfterResolving('cache', static function (CacheManager $cache): void {
            // Not static: the manager binds it to itself.
            $cache->extend('redis_lease', function ($app, array $config) use ($cache) {
                return $cache->repository($app->make(Leases::class)->store($config));
            });
        });
    }

    public function boot(): void
    {
        if ($this->app->runningInConsole()) {
            $this->commands([ListCommand::class, ShowCommand::class, ReleaseCommand::class]);
        }
    }
}
