<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Laravel;

use BadMethodCallException;
use Illuminate\Cache\ArrayStore;
use Illuminate\Cache\FileStore;
use Illuminate\Cache\Repository;
use Illuminate\Filesystem\Filesystem;
use InvalidArgumentException;
use RedisLease\Tests\Support\Janitor;

/** The values go to the other store; only the locks are ours. */
final class LeaseCacheStoreTest extends LaravelTestCase
{
    public function testTheValuesAreTheOtherStores(): void
    {
        $values = new ArrayStore();
        $cache = new Repository($this->leaseStore($values));

        self::assertTrue($cache->put('a', 1, 60));
        self::assertTrue($cache->forever('b', 2));
        self::assertTrue($cache->putMany(['c' => 3, 'd' => 4], 60));
        self::assertSame([1, 2, 3, 4], array_map($values->get(...), ['a', 'b', 'c', 'd']));
        self::assertSame(['a' => 1, 'd' => 4], $cache->many(['a', 'd']));
        self::assertSame(3, $cache->increment('a', 2));
        self::assertSame(2, $cache->decrement('a'));
        self::assertTrue($cache->add('e', 5, 60));
        self::assertFalse($cache->add('e', 6, 60));
        self::assertSame(5, $values->get('e'));
        self::assertTrue($cache->forget('a'));
        self::assertFalse($cache->has('a'));
        $cache->tags('t')->put('f', 7, 60);
        self::assertSame(7, $cache->tags('t')->get('f'));
        self::assertTrue($cache->flush());
        self::assertNull($values->get('b'));
        self::assertSame(0, self::$server->command('DBSIZE'));
    }

    public function testTheLocksAreLeases(): void
    {
        $cache = new Repository($this->leaseStore(new ArrayStore()));
        $lock = $cache->lock('order:1', 30);

        self::assertTrue($lock->get());
        self::assertSame($lock->owner(), self::stored('order:1'));
        $cache->flush();
        self::assertSame($lock->owner(), self::stored('order:1'), 'an emptied cache frees no lock');
        self::assertTrue($cache->restoreLock('order:1', $lock->owner())->release());
    }

    public function testAnAtomicAddOfTheOtherStoreStaysAtomic(): void
    {
        $values = new class extends ArrayStore {
            public array $added = [];

            public function add($key, $value, $seconds)
            {
                $this->added[] = [$key, $value, $seconds];

                return false;
            }
        };

        self::assertFalse((new Repository($this->leaseStore($values)))->add('a', 1, 60));
        self::assertSame([['a', 1, 60]], $values->added);
    }

    public function testAValueCanBeTouched(): void
    {
        $values = new ArrayStore();
        $store = $this->leaseStore($values);
        self::assertFalse($store->touch('a', 60));
        $store->put('a', 1, 60);
        self::assertTrue($store->touch('a', 120));
        self::assertSame(1, $values->get('a'));
    }

    public function testWhatTheOtherStoreCannotIsRefusedAndWhatItCanBesidesIsAsked(): void
    {
        $directory = Janitor::directory('.cache');
        $store = $this->leaseStore(new FileStore(new Filesystem(), $directory));
        self::assertSame($directory, $store->getDirectory());
        self::assertSame('', $store->getPrefix());

        $cache = new Repository($store);
        self::assertFalse($cache->supportsTags());
        self::assertTrue((new Repository($this->leaseStore(new ArrayStore())))->supportsTags());
        $this->expectException(BadMethodCallException::class);
        $cache->tags('t');
    }

    public function testTheLocksAreNotFlushedWhateverTheOtherStoreCan(): void
    {
        $values = new class extends ArrayStore {
            public function flushLocks(): bool
            {
                return true;
            }
        };
        foreach ([new ArrayStore(), $values] as $store) {
            foreach ([new Repository($this->leaseStore($store)), $this->leaseStore($store)] as $cache) {
                try {
                    $cache->flushLocks();
                    self::fail('leases are not flushed');
                } catch (BadMethodCallException $refusal) {
                    self::assertStringContainsString('flush', $refusal->getMessage());
                }
            }
        }
    }

    public function testALockThatWasNeverAcquiredHasNoOwnerToRestoreItBy(): void
    {
        $store = $this->leaseStore(new ArrayStore());

        $this->expectException(InvalidArgumentException::class);
        $store->restoreLock('order:1', $store->lock('order:1', 30)->owner());
    }
}
