<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Laravel;

use Illuminate\Cache\ArrayStore;
use Illuminate\Cache\RateLimiter;
use Illuminate\Cache\RedisStore;
use Illuminate\Cache\Repository;
use Illuminate\Contracts\Console\Kernel;
use Illuminate\Contracts\Redis\Factory;
use Illuminate\Support\Carbon;
use Illuminate\Support\Facades\Cache;
use Redis;
use RedisLease\Bridge\Laravel\LeaseLock;
use RedisLease\Tests\Bridge\Database\Needs;

/** What Laravel does with its own store in Redis, and with no other kind, it does with ours over that one. */
final class StoreOverRedisTest extends LaravelTestCase
{
    protected function setUp(): void
    {
        parent::setUp();
        Needs::module('redis', 'php-redis');
    }

    protected function tearDown(): void
    {
        Carbon::setTestNow();
        parent::tearDown();
    }

    /** @param array<string, mixed> $options of phpredis */
    private function appWithValuesInRedis(array $options = []): void
    {
        $this->app(['store' => 'redis'], ['redis' => [
            'client' => 'phpredis',
            'options' => $options,
            'default' => ['host' => self::$server->socket(), 'port' => 0],
            'cache' => ['host' => self::$server->socket(), 'port' => 0, 'database' => 1],
        ]], ['redis' => ['driver' => 'redis', 'connection' => 'cache', 'lock_connection' => 'default']]);
        config(['cache.prefix' => 'shop']);
    }

    public function testItIsTheStoreThatKeepsTheValuesButForItsLocks(): void
    {
        $this->appWithValuesInRedis();
        [$theirs, $ours] = [Cache::store('redis')->getStore(), Cache::store('leases')->getStore()];

        self::assertInstanceOf(RedisStore::class, $ours);
        // Nothing that a version of Laravel keeps in it is left out, the prefix is not prefixed again.
        $state = (array) $ours;
        self::assertSame((array) $theirs, array_intersect_key($state, (array) $theirs));
        self::assertCount(count((array) $theirs) + 1, $state);

        Cache::put('order:1', 'value', 60);
        self::assertSame('value', Cache::store('redis')->get('order:1'));
        self::assertInstanceOf(LeaseLock::class, Cache::lock('order:1', 30));
        self::assertInstanceOf(LeaseLock::class, Cache::restoreLock('order:1', 'owner'));
        self::$server->command('FLUSHALL');
    }

    public function testASubclassIsNotTakenOver(): void
    {
        $this->appWithValuesInRedis();
        $values = $this->storeOfAnApplication();

        $seen = [];
        foreach ([$values, $this->leaseStore($values)] as $store) {
            self::$server->command('FLUSHALL');
            $cache = new Repository($store);
            $seen[] = [$cache->put('a', 'value', 60), $cache->get('a'), $cache->tags(['t'])->put('b', 1, 60),
                $cache->tags(['t'])->get('b'), $cache->tags(['t'])->flush(), $cache->tags(['t'])->get('b')];
        }
        self::$server->command('FLUSHALL');

        self::assertSame($seen[0], $seen[1]);
        self::assertSame('of the subclass', $seen[1][1]);
    }

    /** Laravel clones a repository for sessions, and then sets another connection or prefix in the copy's store. */
    public function testWhatIsSetInACopyIsNotSetInTheOriginal(): void
    {
        $this->appWithValuesInRedis();
        foreach ([Cache::store('redis')->getStore(), $this->storeOfAnApplication()] as $values) {
            $cache = new Repository($this->leaseStore($values));
            $prefix = $cache->getPrefix();
            $copy = clone $cache;
            $copy->getStore()->setPrefix('session');

            self::assertSame([$prefix, $prefix], [$cache->getPrefix(), $values->getPrefix()]);
            self::assertStringStartsWith('session', $copy->getPrefix());
            self::assertTrue($copy->lock('order:1', 30)->get());
            self::assertTrue($cache->lock('order:1')->isLocked(), 'the prefix of locks stays');
            self::$server->flush();
        }
    }

    public function testTheRateLimiterCountsWhateverTheClientMakesOfTheValues(): void
    {
        $this->appWithValuesInRedis(['serializer' => Redis::SERIALIZER_PHP]);
        $ran = [];
        foreach (['redis', 'leases'] as $store) {
            $limiter = new RateLimiter(Cache::store($store));
            $ran[$store] = 0;
            for ($try = 0; $try < 10; $try++) {
                $limiter->attempt('login', 3, function () use (&$ran, $store): void {
                    $ran[$store]++;
                });
            }
            $ran["$store says"] = $limiter->attempts('login');
            self::$server->command('FLUSHALL');
        }

        self::assertSame([$ran['redis'], $ran['redis says']], [$ran['leases'], $ran['leases says']]);
    }

    public function testStaleTagsArePruned(): void
    {
        $this->appWithValuesInRedis();
        $kernel = app(Kernel::class);
        if (!isset($kernel->all()['cache:prune-stale-tags'])) {
            self::markTestSkipped('Laravel 10 and newer have tags that get stale.');
        }
        $seen = [];
        foreach (['redis', 'leases'] as $store) {
            self::$server->command('FLUSHALL');
            Carbon::setTestNow();
            Cache::store($store)->tags(['t'])->put('a', 1, 60);
            Carbon::setTestNow(Carbon::now()->addMinutes(5));
            $before = $this->tagSets();
            $seen[$store] = [$kernel->call('cache:prune-stale-tags', ['store' => $store]), $kernel->output()];
            array_push($seen[$store], $before, $this->tagSets());
        }
        self::$server->command('FLUSHALL');

        // Not simply that none are left: Laravel 10 finds none on a newer phpredis.
        self::assertSame($seen['redis'], $seen['leases']);
        self::assertCount(1, $seen['leases'][2]);
    }

    public function testATaggedLockIsTheLockOfThatNameWhereverTheValuesAre(): void
    {
        $this->appWithValuesInRedis();
        $stores = [
            'redis' => Cache::store('redis')->getStore(),
            'a subclass' => $this->storeOfAnApplication(),
            'memory' => new ArrayStore(),
        ];
        foreach ($stores as $kind => $values) {
            $cache = new Repository($this->leaseStore($values));
            [$tagged, $plain] = [$cache->tags(['t'])->lock('order:1', 30), $cache->lock('order:1', 30)];

            self::assertInstanceOf(LeaseLock::class, $tagged, $kind);
            self::assertTrue($tagged->get(), $kind);
            self::assertFalse($plain->get(), $kind);
            self::assertTrue($cache->tags('t')->restoreLock('order:1', $tagged->owner())->release(), $kind);
        }
    }

    /** @return list<string> */
    private function tagSets(): array
    {
        $redis = new Redis();
        $redis->connect(self::$server->socket());
        $redis->select(1);

        return $redis->keys('*tag:*');
    }

    private function storeOfAnApplication(): RedisStore
    {
        return new class (app('redis'), 'shop', 'cache') extends RedisStore {
            public function __construct(Factory $redis, string $prefix, string $connection)
            {
                parent::__construct($redis, $prefix, $connection);
            }

            public function get($key)
            {
                return parent::get($key) === null ? 'nothing' : 'of the subclass';
            }
        };
    }
}
