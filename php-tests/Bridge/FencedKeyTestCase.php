<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge;

use Predis\ClientInterface;
use Redis;
use RedisCluster;
use RedisLease\Bridge\FencedKey;
use RedisLease\Tests\Support\KeySlot;
use RedisLease\Tests\Support\Monitor;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\ServerTestCase;
use Throwable;
use TypeError;
use ValueError;

use function RedisLease\Tests\Support\eventually;

/** What a caller may demand of a key behind the guard, whatever the client. */
abstract class FencedKeyTestCase extends ServerTestCase
{
    use StaleWrites;

    protected const FENCE = 1_800_000_000_000_000;

    /** The caller's client. */
    abstract protected function client(string $prefix = ''): Redis|ClientInterface;

    abstract protected function clusterClient(RedisServer $server, string $prefix = ''): RedisCluster|ClientInterface;

    /** @return class-string<Throwable> what the client throws when the server refuses */
    abstract protected static function refusal(): string;

    protected function fencedKey(string $key = 'price:42', float $fenceTtl = 86_400.0): FencedKey
    {
        return new FencedKey($this->client(), $key, $fenceTtl);
    }

    public function testTheValueIsAPlainKeyAndTheFenceLiesBesideIt(): void
    {
        $price = $this->fencedKey();
        self::assertNull($price->get());

        $price->set('12.50', self::FENCE);

        self::assertSame('12.50', $price->get());
        self::assertSame('12.50', self::$server->command('GET', 'price:42'));
        self::assertSame((string) self::FENCE, self::$server->command('GET', '~{price:42}:fence'));
        self::assertSame(2, self::$server->command('DBSIZE'));
        self::assertSame(-1, self::$server->command('PTTL', 'price:42'));
        self::assertSame(-1, self::$server->command('PTTL', '~{price:42}:fence'));
    }

    public function testALateWriteIsRefusedAndSaysWhatItMet(): void
    {
        $price = $this->fencedKey();
        $price->set('of its successor', self::FENCE + 1);

        $late = self::assertStale(fn () => $price->set('late', self::FENCE), self::FENCE, self::FENCE + 1);
        self::assertStale(fn () => $price->set('late', self::FENCE, ttl: 5.0), self::FENCE, self::FENCE + 1);
        self::assertStale(fn () => $price->delete(self::FENCE), self::FENCE, self::FENCE + 1);

        self::assertSame([null, 'price:42'], [$late->table, $late->key]);
        self::assertSame(
            'key price:42: fence 1800000000000000 is stale, fence 1800000000000001 has written since',
            $late->getMessage(),
        );
        self::assertSame('of its successor', self::$server->command('GET', 'price:42'));
        self::assertSame(-1, self::$server->command('PTTL', 'price:42'));
    }

    public function testOneLeaseWritesAsOftenAsItLikesAndALaterOneGoesOn(): void
    {
        $price = $this->fencedKey();
        foreach ([['a', 5], ['a', 5], ['b', 5], ['c', 6], ['d', 60]] as [$value, $fence]) {
            $price->set($value, $fence);
            self::assertSame($value, $price->get());
        }
        self::assertStale(fn () => $price->set('late', 9), 9, 60);
    }

    public function testFencesAreComparedToTheLastDigit(): void
    {
        $price = $this->fencedKey();
        $rising = [9, 10, 99, 100, 9_007_199_254_740_992, 9_007_199_254_740_993, PHP_INT_MAX - 1, PHP_INT_MAX];
        foreach ($rising as $index => $fence) {
            $price->set("of $fence", $fence);
            foreach (array_slice($rising, 0, $index) as $lower) {
                self::assertStale(fn () => $price->set('late', $lower), $lower, $fence);
            }
            self::assertSame("of $fence", $price->get());
        }
    }

    public function testTheFenceOutlivesAValueThatExpired(): void
    {
        $price = $this->fencedKey(fenceTtl: 60.0);
        $price->set('short', 7, ttl: 0.05);
        eventually(static fn () => self::$server->command('GET', 'price:42') === null, 'the value has expired');

        self::assertStale(fn () => $price->set('late', 6), 6, 7);
        self::assertNull($price->get());
        $left = self::$server->command('PTTL', '~{price:42}:fence');
        self::assertTrue($left > 30_000 && $left <= 60_050, "the fence's TTL is $left ms");
    }

    public function testTheFenceOutlivesAValueThatWasDeleted(): void
    {
        $price = $this->fencedKey(fenceTtl: 60.0);
        $price->set('value', 7);

        self::assertTrue($price->delete(8));
        self::assertFalse($price->delete(8));

        self::assertNull($price->get());
        self::assertStale(fn () => $price->set('late', 7), 7, 8);
        self::assertStale(fn () => $price->delete(7), 7, 8);
        $left = self::$server->command('PTTL', '~{price:42}:fence');
        self::assertTrue($left > 30_000 && $left <= 60_000, "the fence's TTL is $left ms");
    }

    public function testEachWriteSetsTheTtlOfValueAndFenceAnew(): void
    {
        $price = $this->fencedKey(fenceTtl: 1000.0);
        $ttls = static fn (): array => [
            self::$server->command('PTTL', 'price:42'),
            self::$server->command('PTTL', '~{price:42}:fence'),
        ];
        foreach ([60.0, 600.0, 60.0] as $ttl) {
            $price->set('value', 7, $ttl);
            [$value, $fence] = $ttls();
            self::assertTrue($value > $ttl * 1000 - 30_000 && $value <= $ttl * 1000, "$value ms");
            self::assertTrue($fence > $value + 970_000 && $fence <= $value + 1_000_500, "$fence ms");
        }
        $price->set('value', 7);
        self::assertSame([-1, -1], $ttls());
    }

    public function testAWriteIsOneCommandAndAScriptThatWasForgottenIsSentAgain(): void
    {
        $price = $this->fencedKey();
        $price->set('warm', 5);
        $monitor = Monitor::start(self::$server);
        $price->set('value', 6);
        self::assertStale(fn () => $price->set('late', 5), 5, 6);
        $price->delete(6);
        self::assertSame(['EVALSHA', 'EVALSHA', 'EVALSHA'], $this->names($monitor));

        self::$server->command('SCRIPT', 'FLUSH');
        $this->names($monitor);
        $price->set('value', 6);
        self::assertSame(['EVALSHA', 'EVAL'], $this->names($monitor));
        self::assertSame('value', $price->get());
    }

    /** @return list<string> what clients have sent since the last look */
    private function names(Monitor $monitor): array
    {
        return array_values(array_map(static fn ($line): string => $line->name(), $monitor->commands()));
    }

    public function testAValueOfAnotherTypeIsReplacedAndAFenceOfAnotherKindIsNot(): void
    {
        self::$server->command('RPUSH', 'price:42', 'item');
        $price = $this->fencedKey();
        $price->set('value', 5);
        self::assertSame('value', $price->get());

        foreach ([['SET', 'zzz'], ['SET', ''], ['SET', '-5'], ['RPUSH', 'item']] as [$command, $spoilt]) {
            self::$server->command('DEL', '~{price:42}:fence');
            self::$server->command($command, '~{price:42}:fence', $spoilt);
            foreach ([fn () => $price->set('new', 9), fn () => $price->delete(9)] as $write) {
                $this->assertRefusedByTheServer($write, 'fence|WRONGTYPE');
            }
        }
        self::assertSame('value', $price->get());
    }

    public function testWhatTheServerRefusesIsThrown(): void
    {
        $price = $this->fencedKey();
        $price->set('value', 5);
        self::$server->command('CONFIG', 'SET', 'maxmemory', '1');
        try {
            $this->assertRefusedByTheServer(fn () => $price->set('new', 6), 'OOM');
        } finally {
            self::$server->command('CONFIG', 'SET', 'maxmemory', '0');
        }
        self::assertSame('value', $price->get());
        self::$server->command('DEL', 'price:42');
        self::$server->command('RPUSH', 'price:42', 'item');
        $this->assertRefusedByTheServer(fn () => $price->get(), 'WRONGTYPE');
    }

    protected function assertRefusedByTheServer(callable $use, string $pattern): void
    {
        try {
            $use();
        } catch (Throwable $refusal) {
            self::assertInstanceOf(static::refusal(), $refusal);
            self::assertMatchesRegularExpression("/$pattern/", $refusal->getMessage());

            return;
        }
        self::fail('the server refused, and nothing was said');
    }

    public function testAPrefixOfTheClientIsInFrontOfBothKeys(): void
    {
        $price = new FencedKey($this->client('app:'), 'price:42');
        $price->set('value', 7);

        self::assertSame('value', $price->get());
        self::assertSame('value', self::$server->command('GET', 'app:price:42'));
        self::assertSame('7', self::$server->command('GET', 'app:~{app:price:42}:fence'));
        self::assertStale(fn () => $price->set('late', 6), 6, 7);
        // Another prefix, another key.
        $this->fencedKey()->set('other', 6);
        self::assertSame('other', $this->fencedKey()->get());
    }

    public function testBothKeysLieInOneClusterSlotWhateverTheName(): void
    {
        $cluster = RedisServer::start(tcp: true, settings: [
            'cluster-enabled' => 'yes', 'databases' => '1', 'cluster-announce-ip' => '127.0.0.1',
        ]);
        $cluster->command('CLUSTER', 'ADDSLOTSRANGE', 0, 16383);
        eventually(static fn () => str_contains($cluster->command('CLUSTER', 'INFO'), 'cluster_state:ok'), 'the cluster is up');
        $names = ['price:42', 'price:{42}', '{price}:42', 'a{b}c{d}', '{{x}}', 'x', '{x}', ' ', "\0\xff", 'a{b'];
        foreach (['', 'app:', '{app}:', 'a{', 'app{}:'] as $prefix) {
            $client = $this->clusterClient($cluster, $prefix);
            foreach ($names as $number => $name) {
                $what = bin2hex($prefix) . ' ' . bin2hex($name);
                $cluster->command('FLUSHALL');
                try {
                    $key = new FencedKey($client, $name);
                } catch (ValueError $refusal) {
                    self::assertStringContainsString('braces', $refusal->getMessage());
                    self::assertTrue(strpbrk($prefix . $name, '{}') !== false, $what);
                    continue;
                }
                $key->set("value $number", 7);
                self::assertStale(fn () => $key->set('late', 6), 6, 7);
                self::assertSame("value $number", $key->get(), $what);
                $slots = array_map(KeySlot::of(...), $cluster->command('KEYS', '*'));
                self::assertCount(2, $slots, $what);
                self::assertCount(1, array_unique($slots), $what);
            }
        }
        $cluster->stop();
    }

    public function testNoTwoKeysShareAFence(): void
    {
        $names = ['x', '{x}', '~{x}', 'a{x}', '{a{x}', '{{x}}'];
        foreach ($names as $number => $name) {
            $this->fencedKey($name)->set("value $number", 100 - $number);
        }
        foreach ($names as $number => $name) {
            $key = $this->fencedKey($name);
            self::assertStale(fn () => $key->set('late', 99 - $number), 99 - $number, 100 - $number);
        }
    }

    public function testArgumentsThatCannotBeMeantAreRefused(): void
    {
        $price = $this->fencedKey();
        $uses = [
            '#2 ($key)' => [fn () => $this->fencedKey(''), fn () => $this->fencedKey('{}'), fn () => $this->fencedKey('}{'), fn () => $this->fencedKey('a}b')],
            '$fence' => [fn () => $price->set('x', 0), fn () => $price->delete(-1)],
            '$ttl' => array_map(
                static fn (float $ttl) => fn () => $price->set('x', 5, $ttl),
                [0.0, 0.009, -1.0, 31_536_001.0, NAN, INF, -INF],
            ),
            '$fenceTtl' => array_map(
                fn (float $ttl) => fn () => $this->fencedKey(fenceTtl: $ttl),
                [0.0, -1.0, 31_536_001.0, NAN, INF],
            ),
        ];
        foreach ($uses as $argument => $attempts) {
            foreach ($attempts as $number => $use) {
                try {
                    $use();
                    self::fail("$argument, case $number was not refused");
                } catch (ValueError $refusal) {
                    self::assertStringContainsString($argument, $refusal->getMessage());
                }
            }
        }
        self::assertSame(0, self::$server->command('DBSIZE'));
    }

    public function testTheFenceOfALeaseGuardsAKeyAgainstALateWorker(): void
    {
        $price = $this->fencedKey();
        $paused = $this->heldLock('price:42');
        $price->set('first', $paused->fence());
        self::$server->command('DEL', 'lock:price:42');
        $successor = $this->heldLock('price:42');
        $price->set('second', $successor->fence());

        self::assertStale(fn () => $price->set('late', $paused->fence()), $paused->fence(), $successor->fence());
        self::assertSame('second', $price->get());
        $successor->release();
    }

    protected static function assertOnlyScalarsAreStored(FencedKey $price): void
    {
        foreach ([12.5, 17, 'text', true] as $value) {
            $price->set($value, 5);
            self::assertSame((string) $value, $price->get());
        }
        foreach ([[], null, new \stdClass()] as $value) {
            try {
                $price->set($value, 6);
                self::fail(get_debug_type($value) . ' is no string');
            } catch (TypeError $refusal) {
                self::assertStringContainsString(get_debug_type($value), $refusal->getMessage());
            }
        }
        self::assertSame('1', $price->get());
    }
}
