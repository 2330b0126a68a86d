<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Laravel;

use Illuminate\Support\Facades\Cache;
use PDO;
use RedisLease\Tests\Bridge\Database\Needs;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\Worker;

use function RedisLease\Tests\Support\eventually;

/** Jobs on queues, with workers in processes of their own where the queue is the database. */
final class QueueTest extends LaravelTestCase
{
    private const WORK = <<<'PHP'
        require $args['jobs'];
        use Illuminate\Contracts\Console\Kernel;
        use Illuminate\Queue\Events\JobProcessing;
        $hasBegun = false;
        $app->make('events')->listen(JobProcessing::class, static function () use (&$hasBegun): void {
            $hasBegun = true;
        });
        hear();
        // Once more where it found none: a clock that was set back makes a job one of the future.
        do {
            $code = $app->make(Kernel::class)->call('queue:work', ['connection' => 'database', '--once' => true, '--sleep' => 0]);
        } while (!$hasBegun);
        say(['ended', $code]);

        PHP;

    private array $database;
    private PDO $pdo;

    public static function setUpBeforeClass(): void
    {
        Needs::module('pdo_sqlite', 'php-sqlite3');
        parent::setUpBeforeClass();
        require_once __DIR__ . '/jobs.php';
    }

    protected function setUp(): void
    {
        parent::setUp();
        $file = Janitor::path('.sqlite');
        $this->pdo = new PDO("sqlite:$file");
        $this->pdo->exec(
            'CREATE TABLE jobs (id INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT, payload TEXT, attempts INTEGER, '
            . 'reserved_at INTEGER, available_at INTEGER, created_at INTEGER)',
        );
        $this->pdo->exec('CREATE TABLE report (id INTEGER PRIMARY KEY, attempt INTEGER, fence BIGINT)');
        $this->pdo->exec('INSERT INTO report (id) VALUES (1)');
        $connection = ['driver' => 'sqlite', 'database' => $file, 'prefix' => ''];
        $this->database = ['default' => 'file', 'connections' => ['file' => $connection]];
        $this->app(database: $this->database);
        UniqueJob::$ran = 0;
    }

    private function queueWorker(): Worker
    {
        return self::laravelWorker(self::WORK, ['jobs' => __DIR__ . '/jobs.php', 'database' => $this->database]);
    }

    private function queued(): int
    {
        return (int) $this->pdo->query('SELECT COUNT(*) FROM jobs')->fetchColumn();
    }

    /** @return list<string> */
    private static function locks(): array
    {
        return array_values(preg_grep('/^lock:/', self::$server->command('KEYS', '*')));
    }

    public function testAUniqueJobIsNotDispatchedAgainWhileItRunsAndThenIs(): void
    {
        UniqueJob::dispatch('7', dispatchesItself: true);
        self::assertSame(1, UniqueJob::$ran, 'what it dispatched was left out');
        self::assertSame([], self::locks());

        UniqueJob::dispatch('7');
        self::assertSame(2, UniqueJob::$ran);
    }

    public function testAUniqueJobIsQueuedOnceUntilAWorkerHasDoneIt(): void
    {
        foreach ([1, 2, 3] as $time) {
            UniqueJob::dispatch('7')->onConnection('database');
        }
        UniqueJob::dispatch('8')->onConnection('database');
        self::assertSame(2, $this->queued());
        self::assertCount(2, self::locks());

        $worker = $this->queueWorker();
        $worker->say();
        self::assertSame(['ended', 0], $worker->hear());
        $worker->finish();
        self::assertSame(1, $this->queued());
        self::assertCount(1, self::locks(), 'the worker has given back what the request has taken');

        UniqueJob::dispatch('7')->onConnection('database');
        UniqueJob::dispatch('8')->onConnection('database');
        self::assertSame(2, $this->queued());
    }

    public function testWhatAJobLeftBehindInTheWorkerIsGivenBackAtItsEnd(): void
    {
        LeavingJob::dispatch('done')->onConnection('database');
        LeavingJob::dispatch('failed', true)->onConnection('database');
        $worker = self::laravelWorker(<<<'PHP'
            require $args['jobs'];
            use Illuminate\Contracts\Console\Kernel;
            use RedisLease\Bridge\LeaseFactory;
            $own = $app->make(LeaseFactory::class)->create('of the worker', 60.0);
            $own->acquire();
            while (count(RedisLease\Tests\Bridge\Laravel\LeavingJob::$kept) < 2) {
                $app->make(Kernel::class)->call('queue:work', ['connection' => 'database', '--once' => true, '--sleep' => 0]);
            }
            $kept = RedisLease\Tests\Bridge\Laravel\LeavingJob::$kept;
            say([count($kept), array_map(fn ($lease) => $lease->isHeld(), [$own, ...$kept])]);
            hear();
            PHP, ['jobs' => __DIR__ . '/jobs.php', 'database' => $this->database]);

        self::assertSame([2, [true, false, false]], $worker->hear());
        self::assertSame(['lock:of the worker'], self::locks());
        $worker->say();
        $worker->finish();
    }

    public function testAWorkerInsideOfAJobLeavesTheJobWhatIsItsOwn(): void
    {
        WorkingJob::dispatch()->onConnection('database');
        $worker = $this->queueWorker();
        $worker->say();

        self::assertSame([1, false, true], $worker->hear());
        self::assertSame(['ended', 0], $worker->hear());
        self::assertSame([], self::locks());
        $worker->finish();
    }

    public function testAJobOfTheSyncQueueIsAPartOfWhatSentIt(): void
    {
        LeavingJob::dispatch('order:1');

        self::assertTrue(end(LeavingJob::$kept)->isHeld());
        LeavingJob::$kept = [];
    }

    /** laravel#59567: the lock of a unique job ends before the job does, and a newer job has the next one. */
    public function testAUniqueJobThatEndsLateReleasesByItsOwnerWhereLaravelKnowsIt(): void
    {
        UniqueJob::dispatch('7')->onConnection('database');
        self::$server->command('DEL', ...self::locks());
        UniqueJob::dispatch('7')->onConnection('database');
        [$newer] = self::locks();
        $token = self::$server->command('GET', $newer);

        $late = $this->queueWorker();
        $late->say();
        self::assertSame(['ended', 0], $late->hear());
        $late->finish();

        self::assertSame(1, $this->queued(), 'the newer one');
        // Older Laravels take the lock away from whoever has it.
        $knowsOwners = property_exists(UniqueJob::class, 'uniqueLockOwner');
        self::assertSame($knowsOwners ? $token : null, self::$server->command('GET', $newer));
    }

    /** laravel#59567, laravel#60042: the queue gives the job to a second worker, and the first one goes on. */
    public function testARetryTakesOverAndTheFirstAttemptIsRefused(): void
    {
        FencedJob::dispatch()->onConnection('database');
        [$first, $second] = [$this->queueWorker(), $this->queueWorker()];
        $first->say();
        [$works, $owner, $fence] = $first->hear();
        self::assertSame('works', $works);

        // Both the lock and the queue's reservation of the job end while the first worker hangs.
        eventually(fn () => !Cache::lock('report')->isLocked(), 'the lock is over');
        eventually(
            fn () => (int) $this->pdo->query('SELECT MIN(reserved_at) FROM jobs')->fetchColumn() < time() - 1,
            'the queue gives up the first attempt',
        );
        $second->say();
        [$works, $next, $higher] = $second->hear();
        self::assertSame('works', $works);
        self::assertNotSame($owner, $next);
        self::assertGreaterThan($fence, $higher);
        self::assertTrue(Cache::restoreLock('report', $next)->refresh(60));
        $second->say();
        [$written, $released] = $second->hear();
        self::assertSame(['has written', true], [$written, $released]);

        $third = Cache::lock('report', 60);
        self::assertTrue($third->get());
        $first->say();
        self::assertSame(['is refused', false], $first->hear());
        self::assertSame('2', (string) $this->pdo->query('SELECT attempt FROM report')->fetchColumn());
        self::assertTrue($third->refresh(), 'the late one has freed nothing');
        foreach ([$first, $second] as $worker) {
            self::assertSame(['ended', 0], $worker->hear());
            $worker->finish();
        }
    }
}
