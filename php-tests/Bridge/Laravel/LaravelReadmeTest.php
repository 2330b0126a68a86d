<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Laravel;

use App\ProcessPodcast;
use App\Reports;
use Illuminate\Queue\Jobs\SyncJob;
use Illuminate\Support\Facades\Cache;
use Illuminate\Support\Facades\DB;
use RedisLease\Bridge\Laravel\LeaseLock;
use RedisLease\Bridge\StaleFenceException;
use RedisLease\Tests\Bridge\Database\Needs;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\Markdown;

/** The examples of the README's section on Laravel do in an application what they say. */
final class LaravelReadmeTest extends LaravelTestCase
{
    public static function setUpBeforeClass(): void
    {
        Needs::module('redis', 'php-redis');
        Needs::module('pdo_sqlite', 'php-sqlite3');
        parent::setUpBeforeClass();
        $directory = Janitor::directory('.classes');
        foreach ([1, 2] as $number) {
            file_put_contents("$directory/$number.php", self::example($number));
            require "$directory/$number.php";
        }
    }

    /** With the README's own config/cache.php. */
    protected function setUp(): void
    {
        parent::setUp();
        putenv('REDIS_LEASE_DSN=' . self::$server->dsn());
        $directory = Janitor::directory('.app');
        mkdir("$directory/config");
        file_put_contents("$directory/config/cache.php", self::example(0));
        $this->app(directory: $directory, database: [
            'default' => 'memory',
            'connections' => ['memory' => ['driver' => 'sqlite', 'database' => ':memory:']],
            'redis' => ['client' => 'phpredis', 'default' => ['host' => self::$server->socket(), 'port' => 0]],
        ]);
    }

    protected function tearDown(): void
    {
        parent::tearDown();
        putenv('REDIS_LEASE_DSN');
    }

    private static function example(int $number): string
    {
        return Markdown::page('bridge/README.md')->section('Laravel')->examples()[$number];
    }

    public function testTheConfigurationPutsTheLocksOnLeasesAndLeavesTheValues(): void
    {
        $lock = Cache::lock('order:1', 30);
        self::assertInstanceOf(LeaseLock::class, $lock);
        self::assertTrue($lock->get());
        self::assertSame($lock->owner(), self::stored('shop_cache:order:1'));

        Cache::put('order:1', 'value', 60);
        self::assertSame('value', Cache::store('redis')->get('order:1'));
    }

    public function testAReportIsBuiltByOneAtATime(): void
    {
        $reports = new Reports();
        self::assertSame('Built.', $reports->build());
        self::assertSame('Built.', $reports->build(), 'and was given back');

        $other = Cache::lock('report', 60);
        $other->get();
        self::assertSame('Somebody else is building it.', $reports->build());
        self::assertTrue($other->refresh());
    }

    public function testTheJobGoesOnWithTheLockOfTheRequest(): void
    {
        DB::statement('CREATE TABLE podcasts (id INTEGER PRIMARY KEY, status TEXT, fence BIGINT)');
        DB::table('podcasts')->insert(['id' => 7, 'status' => 'new']);
        $job = unserialize(serialize(ProcessPodcast::request(7)));
        self::assertNull(ProcessPodcast::request(7), 'one is under way');

        $job->handle();
        self::assertSame('done', DB::table('podcasts')->value('status'));
        self::assertFalse(Cache::lock('podcast:7')->isLocked());

        DB::table('podcasts')->update(['fence' => 9_000_000_000_000_000]);
        $this->expectException(StaleFenceException::class);
        ProcessPodcast::request(7)->handle();
    }

    public function testALateJobIsDoneIfTheLockIsFreeAndGoesBackToTheQueueIfNot(): void
    {
        DB::statement('CREATE TABLE podcasts (id INTEGER PRIMARY KEY, status TEXT, fence BIGINT)');
        DB::table('podcasts')->insert(['id' => 7, 'status' => 'new']);
        $late = ProcessPodcast::request(7);
        $late->setJob($queued = new SyncJob(app(), '{}', 'sync', 'default'));
        self::$server->command('DEL', 'lock:shop_cache:podcast:7');
        $other = Cache::lock('podcast:7', 60);
        self::assertTrue($other->get());

        $late->handle();
        self::assertTrue($queued->isReleased());
        self::assertSame('new', DB::table('podcasts')->value('status'));
        self::assertTrue($other->isOwnedByCurrentProcess());

        $other->release();
        $late->handle();
        self::assertSame('done', DB::table('podcasts')->value('status'));
        self::assertGreaterThan($other->fence(), DB::table('podcasts')->value('fence'), 'it is a grant of its own');
        self::assertFalse(Cache::lock('podcast:7')->isLocked());
    }
}
