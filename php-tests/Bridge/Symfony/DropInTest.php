<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Symfony;

use Redis;
use RedisLease\Bridge\Symfony\LockFactory as LeaseLockFactory;
use RedisLease\Tests\Bridge\Database\Needs;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\LockInterface;
use Symfony\Component\Lock\Store\RedisStore;
use Throwable;

use function RedisLease\Tests\Support\eventually;

/** Code that knows only Symfony gives the same results on Symfony's own Redis store and on ours. */
final class DropInTest extends SymfonyTestCase
{
    public function testTheSameCodeGivesTheSameResults(): void
    {
        Needs::module('redis', 'php-redis');
        $redis = new Redis();
        $redis->connect(self::$server->socket());
        $theirs = $this->results(new LockFactory(new RedisStore($redis)));
        $ours = $this->results(new LeaseLockFactory($this->store()));

        // What is different, and meant to be.
        self::assertSame([true, true, false], $theirs['two readers and a writer']);
        self::assertSame([true, false, false], $ours['two readers and a writer'], 'a reader excludes, as a writer does');
        unset($theirs['two readers and a writer'], $ours['two readers and a writer']);
        self::assertSame($theirs, $ours);
    }

    /** @return array<string, mixed> */
    private function results(LockFactory $factory): array
    {
        $results = [];
        foreach ($this->cases() as $what => $case) {
            self::$server->flush();
            $results[$what] = $case($factory);
        }

        return $results;
    }

    /** @return array<string, callable(LockFactory): mixed> */
    private function cases(): array
    {
        $pair = static fn (LockFactory $factory): array => [$factory->createLock('a'), $factory->createLock('a')];
        $gone = static function (LockFactory $factory): LockInterface {
            $lock = $factory->createLock('a', 0.05);
            $lock->acquire();
            eventually(static fn () => $lock->isExpired(), 'the lock is over');

            return $lock;
        };

        return [
            'one after the other' => static function (LockFactory $factory) use ($pair): array {
                [$first, $second] = $pair($factory);
                $seen = [$first->acquire(), $second->acquire(), $first->isAcquired(), $second->isAcquired()];
                $first->release();

                return [...$seen, $first->isAcquired(), $second->acquire(true), $first->acquire()];
            },
            'the same lock twice' => static function (LockFactory $factory) use ($pair): array {
                [$first, $second] = $pair($factory);

                return [$first->acquire(), $first->acquire(), $first->acquire(true), $second->acquire()];
            },
            'a release of what another has' => static function (LockFactory $factory) use ($pair): array {
                [$first, $second] = $pair($factory);
                $first->acquire();

                return [$second->release(), $first->isAcquired(), $second->isExpired(), $second->getRemainingLifetime()];
            },
            'an object that goes' => static function (LockFactory $factory) use ($pair): array {
                [$first, $second] = $pair($factory);
                $seen = [$first->acquire(), $second->acquire()];
                unset($first);

                return [...$seen, $second->acquire()];
            },
            'an object that goes without autoRelease' => static function (LockFactory $factory): array {
                $first = $factory->createLock('a', 30, false);
                $seen = [$first->acquire()];
                unset($first);

                return [...$seen, $factory->createLock('a')->acquire()];
            },
            'a key that is passed on' => static function (LockFactory $factory): array {
                $key = new Key('a');
                $first = $factory->createLockFromKey($key, 30, false);
                $first->acquire();
                $second = $factory->createLockFromKey(self::passedOn($key), 30, false);
                $second->refresh();
                $seen = [$second->isAcquired(), $second->acquire(), $factory->createLock('a')->acquire()];
                $second->release();

                return [...$seen, $first->isAcquired(), $factory->createLock('a')->acquire()];
            },
            'the lifetime' => static function (LockFactory $factory): array {
                $lock = $factory->createLock('a', 50);
                $lock->acquire();
                $seen = [round($lock->getRemainingLifetime(), -1)];
                $lock->refresh(90);

                return [...$seen, round($lock->getRemainingLifetime(), -1), $lock->isExpired()];
            },
            'a lock that is over' => static function (LockFactory $factory) use ($gone): array {
                $late = $gone($factory);
                $seen = [$late->isExpired(), $late->isAcquired()];
                eventually(static fn () => $factory->createLock('a', 30, false)->acquire(), 'it is free');

                return [...$seen, self::outcome(fn () => $late->refresh()), self::outcome(fn () => $late->release()),
                    $late->acquire()];
            },
            'a refresh of nothing' => static function (LockFactory $factory): string {
                return self::outcome(static fn () => $factory->createLock('a')->refresh());
            },
            'two readers and a writer' => static function (LockFactory $factory): array {
                [$one, $two, $three] = [$factory->createLock('a'), $factory->createLock('a'), $factory->createLock('a')];

                return [$one->acquireRead(), $two->acquireRead(), $three->acquire()];
            },
        ];
    }

    private static function outcome(callable $action): string
    {
        try {
            return get_debug_type($action());
        } catch (Throwable $thrown) {
            return $thrown::class;
        }
    }
}
