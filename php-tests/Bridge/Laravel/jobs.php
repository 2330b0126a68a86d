<?php

/*
 * The jobs that QueueTest puts on a queue. In a Worker they talk with the test by say() and hear().
 */

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Laravel;

use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldBeUnique;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Foundation\Bus\Dispatchable;
use Illuminate\Queue\InteractsWithQueue;
use Illuminate\Support\Facades\Artisan;
use Illuminate\Support\Facades\Cache;
use Illuminate\Support\Facades\DB;
use RedisLease\Bridge\FencedTable;
use RedisLease\Bridge\LeaseFactory;
use RedisLease\Bridge\StaleFenceException;
use RuntimeException;

final class UniqueJob implements ShouldQueue, ShouldBeUnique
{
    use Dispatchable;
    use InteractsWithQueue;
    use Queueable;

    public static int $ran = 0;
    public int $uniqueFor = 60;

    public function __construct(public readonly string $uniqueId, private readonly bool $dispatchesItself = false)
    {
    }

    public function handle(): void
    {
        self::$ran++;
        if ($this->dispatchesItself) {
            self::dispatch($this->uniqueId);
        }
    }
}

/** Writes a report under a lock that may end before the job does. */
final class FencedJob implements ShouldQueue
{
    use Dispatchable;
    use InteractsWithQueue;
    use Queueable;

    public int $tries = 5;

    public function handle(): void
    {
        $lock = Cache::lock('report', 1);
        $lock->block(30);
        say(['works', $lock->owner(), $lock->fence()]);
        hear();
        try {
            (new FencedTable(DB::connection()->getPdo(), 'report'))->update(1, ['attempt' => $this->attempts()], $lock->fence());
            say(['has written', $lock->release()]);
        } catch (StaleFenceException $late) {
            say(['is refused', $lock->release()]);
        }
    }
}

/** Leaves a lease behind in a static property. */
final class LeavingJob implements ShouldQueue
{
    use Dispatchable;
    use InteractsWithQueue;
    use Queueable;

    /** @var list<\DistributedLock> */
    public static array $kept = [];

    public function __construct(private readonly string $name, private readonly bool $fails = false)
    {
    }

    public function handle(LeaseFactory $leases): void
    {
        self::$kept[] = $lease = $leases->create($this->name, 60.0);
        if (!$lease->acquire() || $this->fails) {
            throw new RuntimeException('boom');
        }
    }
}

/** Works through the queue in the middle of its own work, under a lease. */
final class WorkingJob implements ShouldQueue
{
    use Dispatchable;
    use InteractsWithQueue;
    use Queueable;

    public function handle(LeaseFactory $leases): void
    {
        $lease = $leases->create('of the outer job', 60.0);
        $lease->acquire();
        LeavingJob::dispatch('of the inner job')->onConnection('database');
        while (LeavingJob::$kept === []) {
            Artisan::call('queue:work', ['connection' => 'database', '--once' => true, '--sleep' => 0]);
        }
        say([count(LeavingJob::$kept), LeavingJob::$kept[0]->isHeld(), $lease->renew()]);
        LeavingJob::$kept[] = $lease;
    }
}
