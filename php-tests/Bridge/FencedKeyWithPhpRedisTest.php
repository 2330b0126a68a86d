<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge;

use LogicException;
use Redis;
use RedisCluster;
use RedisException;
use RedisLease\Bridge\FencedKey;
use RedisLease\Tests\Bridge\Database\Needs;
use RedisLease\Tests\Support\RedisServer;

final class FencedKeyWithPhpRedisTest extends FencedKeyTestCase
{
    public static function setUpBeforeClass(): void
    {
        Needs::module('redis', 'php-redis');
        parent::setUpBeforeClass();
    }

    protected function client(string $prefix = ''): Redis
    {
        $client = new Redis();
        $client->connect(self::$server->socket());
        $client->setOption(Redis::OPT_PREFIX, $prefix);

        return $client;
    }

    protected function clusterClient(RedisServer $server, string $prefix = ''): RedisCluster
    {
        $client = new RedisCluster(null, ['127.0.0.1:' . $server->port()]);
        $client->setOption(Redis::OPT_PREFIX, $prefix);

        return $client;
    }

    protected static function refusal(): string
    {
        return RedisException::class;
    }

    public function testTheValueIsStoredAsTheClientItselfWouldAndTheFenceIsNot(): void
    {
        $plain = $this->client();
        foreach ($this->packings() as $what => $options) {
            self::$server->flush();
            $client = $this->client('app:');
            foreach ($options as $option => $value) {
                self::assertTrue($client->setOption($option, $value), $what);
            }
            $key = new FencedKey($client, 'price:42');
            foreach ([['amount' => 12.5, 'tags' => ['a', null]], str_repeat('long ', 200), 17, false, null, ''] as $number => $value) {
                $fence = self::FENCE + 2 * $number + 1;
                $key->set($value, $fence, ttl: 60.0);
                self::assertSame($value, $client->get('price:42'), "$what: the client reads it");

                $ours = $plain->get('app:price:42');
                $client->set('price:42', $value);
                self::assertSame($plain->get('app:price:42'), $ours, "$what: byte for byte what the client writes");

                self::assertSame((string) $fence, $plain->get('app:~{app:price:42}:fence'), $what);
                self::assertStale(fn () => $key->set('late', $fence - 1), $fence - 1, $fence);
                self::assertSame($value, $key->get(), $what);
            }
        }
    }

    /** @return array<string, array<int, mixed>> */
    private function packings(): array
    {
        $packings = [];
        foreach (['PHP', 'JSON', 'IGBINARY', 'MSGPACK'] as $serializer) {
            // phpredis 5.3 does not always read back JSON that it has compressed itself.
            foreach ($serializer === 'JSON' ? [null] : [null, 'LZF', 'ZSTD', 'LZ4'] as $compression) {
                $options = ["SERIALIZER_$serializer" => Redis::OPT_SERIALIZER];
                if ($compression !== null) {
                    $options["COMPRESSION_$compression"] = Redis::OPT_COMPRESSION;
                }
                $set = [];
                foreach ($options as $constant => $option) {
                    if (defined("Redis::$constant")) {
                        $set[$option] = constant("Redis::$constant");
                    }
                }
                if (count($set) === count($options)) {
                    $packings["$serializer $compression"] = $set;
                }
            }
        }
        self::assertGreaterThan(1, count($packings));

        return $packings;
    }

    public function testWithoutASerializerOnlyScalarsAreStored(): void
    {
        $price = $this->fencedKey();
        self::assertOnlyScalarsAreStored($price);
    }

    public function testWithinMultiOrAPipelineItSaysThatItCannotAnswer(): void
    {
        $client = $this->client();
        $price = new FencedKey($client, 'price:42');
        foreach ([Redis::MULTI, Redis::PIPELINE] as $mode) {
            $client->multi($mode);
            foreach ([fn () => $price->set('x', 5), fn () => $price->delete(5), fn () => $price->get()] as $use) {
                try {
                    $use();
                    self::fail('there is no answer yet');
                } catch (LogicException $refusal) {
                    self::assertStringContainsString('multi()', $refusal->getMessage());
                }
            }
            self::assertSame([], $client->exec(), 'nothing was queued');
        }
        $price->set('x', 5);
        self::assertSame('x', $price->get());
    }

    public function testAnErrorOfTheCallersOwnCommandIsNotTakenForOneOfTheGuards(): void
    {
        $client = $this->client();
        $price = new FencedKey($client, 'price:42');
        self::assertFalse($client->eval('return redis.error_reply("ERR of the caller")'));

        $price->set('value', 5);

        self::assertSame('value', $price->get());
    }
}
