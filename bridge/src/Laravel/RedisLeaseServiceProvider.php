<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Laravel;

use Illuminate\Cache\CacheManager;
use Illuminate\Queue\Events\JobExceptionOccurred;
use Illuminate\Queue\Events\JobProcessed;
use Illuminate\Queue\Events\JobProcessing;
use Illuminate\Queue\Events\Looping;
use Illuminate\Queue\Jobs\SyncJob;
use Illuminate\Support\ServiceProvider;
use RedisLease\Bridge\Laravel\Command\ListCommand;
use RedisLease\Bridge\Laravel\Command\ReleaseCommand;
use RedisLease\Bridge\Laravel\Command\ShowCommand;
use RedisLease\Bridge\Laravel\Command\TopCommand;
use RedisLease\Bridge\HeldByRequest;
use RedisLease\Bridge\LeaseFactory;

/**
 * Adds the cache driver redis_lease, LeaseFactory for native leases, and the artisan commands; under Octane and in
 * workers of queues, the end of what a request or a job holds.
 */
final class RedisLeaseServiceProvider extends ServiceProvider
{
    /** Of Laravel\Octane\Events. A request that fails is not terminated, and the worker then tells of its error. */
    private const OCTANE = [
        'begin' => ['RequestReceived', 'TaskReceived', 'TickReceived'],
        'end' => ['RequestTerminated', 'TaskTerminated', 'TickTerminated', 'WorkerErrorOccurred'],
        'stop' => ['WorkerStopping'],
    ];
    /** When what is owed is given back: an idle worker of a queue goes round every few seconds. */
    private const LATER = [
        JobProcessed::class, JobExceptionOccurred::class, Looping::class, 'Laravel\Octane\Events\RequestTerminated',
        'Laravel\Octane\Events\TaskTerminated', 'Laravel\Octane\Events\TickTerminated',
    ];
    private const QUEUE = ['begin' => [JobProcessing::class], 'end' => [JobProcessed::class, JobExceptionOccurred::class]];

    public function register(): void
    {
        // One for all requests: Octane serves each with a clone of the application.
        $this->app->instance(HeldByRequest::class, new HeldByRequest());
        $this->app->instance(Owed::class, new Owed());
        $this->app->bind(Leases::class, static fn ($app): Leases => new Leases($app));
        $this->app->bind(
            LeaseFactory::class,
            static fn ($app): LeaseFactory => $app->make(Leases::class)->factory(
                $app->make(Leases::class)->configuration(),
                $app->make(HeldByRequest::class),
            ),
        );
        $this->callAfterResolving('cache', static function (CacheManager $cache): void {
            // Not static: the manager binds it to itself.
            $cache->extend('redis_lease', function ($app, array $config) use ($cache) {
                $leases = $app->make(Leases::class);

                return $cache->repository($leases->store($config), $leases->ofRepository($config));
            });
        });
    }

    public function boot(): void
    {
        [$held, $dispatcher] = [$this->app->make(HeldByRequest::class), $this->app->make('events')];
        foreach (self::OCTANE as $method => $events) {
            foreach ($events as $event) {
                // One object for all of them: Octane's requests are never inside of each other, but jobs are in them.
                $dispatcher->listen("Laravel\\Octane\\Events\\$event", static fn () => $held->$method($held));
            }
        }
        foreach (self::QUEUE as $method => $events) {
            // A job of the sync queue is a part of the request, or the job, that dispatched it.
            $dispatcher->listen($events, static function (object $event) use ($held, $method): void {
                $event->job instanceof SyncJob || $held->$method($event->job);
            });
        }
        if ($this->app->runningInConsole()) {
            $this->commands([ListCommand::class, ShowCommand::class, ReleaseCommand::class, TopCommand::class]);
        }
        $debts = $this->app->make(Owed::class);
        $dispatcher->listen(self::LATER, static function () use ($debts): void {
            $debts->settleAll();
        });
    }
}
