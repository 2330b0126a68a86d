<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Laravel;

use Illuminate\Contracts\Cache\Repository;
use Illuminate\Support\Str;
use RedisLease\Tests\Bridge\Database\Needs;
use RuntimeException;
use Throwable;

use function RedisLease\Tests\Support\eventually;

/** Code that knows only Laravel gives the same results on Laravel's own Redis store and on ours. */
final class DropInTest extends LaravelTestCase
{
    public function testTheSameCodeGivesTheSameResults(): void
    {
        Needs::module('redis', 'php-redis');
        $here = ['host' => self::$server->socket(), 'port' => 0];
        $database = ['client' => 'phpredis', 'default' => $here, 'cache' => $here + ['database' => 1]];
        $app = $this->app(['store' => 'values'], ['redis' => $database], [
            'redis' => ['driver' => 'redis', 'connection' => 'default'],
            'values' => ['driver' => 'redis', 'connection' => 'cache'],
        ]);
        $theirs = $this->results($app->make('cache')->store('redis'));
        $ours = $this->results($app->make('cache')->store('leases'));

        // What is different, and meant to be.
        self::assertSame([true, true], $theirs['an emptied cache']);
        self::assertSame([true, false], $ours['an emptied cache'], 'it frees no lock in another database');
        self::assertSame([true, true], $theirs['an owner of the callers own']);
        self::assertSame([true, false], $ours['an owner of the callers own'], 'the owner is the grant\'s');
        foreach (['an emptied cache', 'an owner of the callers own'] as $what) {
            unset($theirs[$what], $ours[$what]);
        }
        self::assertSame($theirs, $ours);
    }

    /** @return array<string, mixed> */
    private function results(Repository $cache): array
    {
        $results = [];
        foreach ($this->cases() as $what => $case) {
            self::$server->flush();
            $results[$what] = $case($cache);
        }

        return $results;
    }

    /** @return array<string, callable(Repository): mixed> */
    private function cases(): array
    {
        $outcome = static function (callable $action): mixed {
            try {
                return $action();
            } catch (Throwable $thrown) {
                return $thrown::class;
            }
        };

        return [
            'one after the other' => static function (Repository $cache): array {
                [$first, $second] = [$cache->lock('a', 30), $cache->lock('a', 30)];

                return [$first->get(), $first->get(), $second->get(), $second->release(), $first->release(),
                    $first->release(), $second->get(), $first->get(), $first->release()];
            },
            'an object that goes' => static function (Repository $cache): array {
                $lock = $cache->lock('a', 30);
                $seen = [$lock->get()];
                unset($lock);

                return [...$seen, $cache->lock('a', 30)->get()];
            },
            'a callback' => static function (Repository $cache) use ($outcome): array {
                $other = fn () => $cache->lock('a', 30)->get();

                return [$cache->lock('a', 30)->get($other), $cache->lock('a', 30)->get(fn () => 'answer'),
                    $cache->lock('a', 30)->block(1, fn () => 'answer'), $cache->lock('a', 30)->block(1, fn () => null),
                    $outcome(fn () => $cache->lock('a', 30)->get(fn () => throw new RuntimeException())), $other()];
            },
            'a block' => static function (Repository $cache) use ($outcome): array {
                return [$cache->lock('a', 30)->block(1), $outcome(fn () => $cache->lock('a', 30)->block(0)),
                    $outcome(fn () => $cache->lock('a', 30)->betweenBlockedAttemptsSleepFor(10)->block(0, fn () => 'no'))];
            },
            'names of all kinds' => static function (Repository $cache): array {
                $seen = [];
                foreach ([42, Str::of('order:1'), "\0\xff\n{a}{b\r\n"] as $name) {
                    [$lock, $text] = [$cache->lock($name, 30), $cache->lock((string) $name, 30)];
                    $seen[] = [$lock->get(), $text->get(), $lock->release(), $text->get(), $lock->forceRelease(), $lock->get(),
                        $cache->restoreLock($name, $lock->owner())->release()];
                }

                return $seen;
            },
            'a restored lock' => static function (Repository $cache): array {
                $lock = $cache->lock('a', 30);
                $lock->get();
                $owner = $lock->owner();
                $restored = $cache->restoreLock('a', $owner);

                $strangers = ['another', '12345', 'reserved:' . $owner, str_repeat('o', 300)];

                return [$restored->owner() === $owner,
                    array_map(fn (string $stranger): bool => $cache->restoreLock('a', $stranger)->release(), $strangers),
                    $restored->get(), $restored->release(), $cache->lock('a', 30)->get()];
            },
            'a forced release' => static function (Repository $cache): array {
                $lock = $cache->lock('a', 30);
                $lock->get();
                $nothing = $cache->lock('a', 30)->forceRelease();

                return [$nothing, $lock->release(), $cache->lock('a', 30)->get(), $cache->lock('b', 30)->forceRelease()];
            },
            'a lock that is over' => static function (Repository $cache): array {
                $late = $cache->lock('a', 1);
                $late->get();
                $next = $cache->lock('a', 30);
                eventually(fn () => $next->get(), 'it is free');

                return [$late->release(), $late->get(), $next->release()];
            },
            'a lock without an end' => static function (Repository $cache): array {
                [$first, $second] = [$cache->lock('a'), $cache->lock('a')];

                return [$first->get(), $second->get(), $first->release(), $second->get()];
            },
            // Newer Laravels bring more that is made of locks.
            'a method that does not overlap itself' => static function (Repository $cache) use ($outcome): mixed {
                $inside = static fn () => $outcome(fn () => $cache->withoutOverlapping('a', fn () => 'overlaps', 30, 0));

                return method_exists($cache, 'withoutOverlapping')
                    ? [$cache->withoutOverlapping('a', $inside), $cache->withoutOverlapping('a', fn () => 'again', 30, 0)]
                    : null;
            },
            'a funnel for two' => static function (Repository $cache): mixed {
                if (!method_exists($cache, 'funnel')) {
                    return null;
                }
                $pass = static fn (callable $then) => $cache->funnel('f')->limit(2)->releaseAfter(30)->block(0)
                    ->then($then, fn () => 'full');

                return [$pass(fn () => $pass(fn () => $pass(fn () => 'a third'))), $pass(fn () => 'again')];
            },
            'values beside locks' => static function (Repository $cache): array {
                $cache->put('v', ['x' => 1], 60);
                $cache->lock('w', 30)->get();

                return [$cache->get('v'), $cache->has('v'), $cache->add('v', 2, 60), $cache->increment('n'), $cache->pull('n')];
            },
            'an emptied cache' => static function (Repository $cache): array {
                $seen = [$cache->lock('a', 30)->get()];
                $cache->clear();

                return [...$seen, $cache->lock('a', 30)->get()];
            },
            'an owner of the callers own' => static function (Repository $cache): array {
                return [$cache->lock('a', 30, 'me')->get(), $cache->restoreLock('a', 'me')->release()];
            },
        ];
    }
}
