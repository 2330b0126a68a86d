<?php

declare(strict_types=1);

namespace RedisLease\Bridge;

use Predis\ClientInterface;
use Redis;
use RedisCluster;
use RedisLease\Bridge\Key\Client;
use RedisLease\Bridge\Key\PhpRedis;
use RedisLease\Bridge\Key\Predis;
use ValueError;

/**
 * A key in Redis that is written only under a fence at least as high as the one that wrote it last: a worker that
 * paused past its lease cannot overwrite the work of its successor.
 *
 *     $price = new FencedKey($redis, 'price:42');
 *
 *     $lock = new DistributedLock('price:42');
 *     $lock->synchronized(fn () => $price->set(newPrice(42), $lock->fence(), ttl: 3600.0));
 *
 * It uses the caller's own client, phpredis or Predis, with its prefix, serializer and compression: the value is a
 * plain string key, as the client's set() would have made it, and every other program reads it as before. A write is
 * one script, so Redis decides. The client's exceptions pass through; after one, the same write with the same fence
 * can simply be repeated.
 *
 * The fence lies beside the value, in the same cluster slot: that of `price:42` is `~{price:42}:fence`, and where the
 * name has a hash tag, as `price:{42}` has, `price:{42}~fence`. It outlives the value by $fenceTtl, for a late writer
 * may come when the value has expired or was deleted.
 *
 * All writers of a key have to go through such a guard, with fences of the same lock. A plain SET is not refused.
 * Run Redis with maxmemory-policy noeviction, or the fence may be evicted.
 */
final class FencedKey
{
    private const YEAR = 31_536_000.0;

    private readonly Client $client;

    /**
     * Sends nothing yet.
     *
     * @param Redis|RedisCluster|ClientInterface $redis phpredis, connected, or Predis. Not within multi() or pipeline():
     *     every call needs its answer.
     * @param string $key the key's name, without the client's prefix: any bytes but braces that are no hash tag
     * @param float $fenceTtl seconds for which the fence is remembered after the value has expired or was deleted,
     *     0.01 to 31536000 (one year). Choose it longer than a worker may ever be paused.
     *
     * @throws ValueError when the name cannot be used or $fenceTtl is out of range
     */
    public function __construct(
        Redis|RedisCluster|ClientInterface $redis,
        private readonly string $key,
        private readonly float $fenceTtl = 86_400.0,
    ) {
        $this->client = $redis instanceof ClientInterface ? new Predis($redis) : new PhpRedis($redis);
        $this->fenceKey();
        self::milliseconds($fenceTtl, 'fenceTtl');
    }

    /**
     * Writes the value, unless a higher fence has written the key. The same fence may write as often as it likes.
     *
     * @param mixed $value what the client's own set() takes: with a serializer any value, else a scalar
     * @param int $fence the fence of the lease, DistributedLock::fence()
     * @param float|null $ttl seconds until the value expires, 0.01 to 31536000 (one year). Null: it does not, and the
     *     TTL of an older value ends.
     *
     * @throws StaleFenceException when a higher fence has written the key. Nothing was written.
     * @throws ValueError when the fence is below 1 or $ttl is out of range
     * @throws \TypeError when the client cannot store such a value
     * @throws \RedisException|\RedisClusterException|\Predis\PredisException when the client or the server failed;
     *     the value may have been written then
     */
    public function set(mixed $value, int $fence, ?float $ttl = null): void
    {
        $valueMs = $ttl === null ? 0 : self::milliseconds($ttl, 'ttl');
        $fenceMs = $ttl === null ? 0 : $valueMs + self::milliseconds($this->fenceTtl, 'fenceTtl');
        $this->write($fence, $fenceMs, $this->client->pack($value), (string) $valueMs);
    }

    /**
     * What is stored, as the client's own get() gives it; null when there is nothing.
     *
     * @throws \RedisException|\RedisClusterException|\Predis\PredisException when the client or the server failed
     */
    public function get(): mixed
    {
        return $this->client->get($this->key);
    }

    /**
     * Deletes the value, unless a higher fence has written the key. The fence is remembered.
     *
     * @param int $fence as in set()
     *
     * @return bool true: deleted. False: there was nothing to delete, and older owners are kept out all the same.
     *
     * @throws StaleFenceException when a higher fence has written the key. Nothing was deleted.
     * @throws ValueError when the fence is below 1
     * @throws \RedisException|\RedisClusterException|\Predis\PredisException when the client or the server failed;
     *     the value may have been deleted then
     */
    public function delete(int $fence): bool
    {
        return $this->write($fence, self::milliseconds($this->fenceTtl, 'fenceTtl'));
    }

    /** @return bool whether there was a value before */
    private function write(int $fence, int $fenceMs, string ...$value): bool
    {
        if ($fence < 1) {
            throw new ValueError("FencedKey: Argument (\$fence) must be the fence of a lease, $fence given");
        }
        static $script;
        $script ??= file_get_contents(__DIR__ . '/Key/write.lua');
        $arguments = [(string) $fence, (string) $fenceMs, ...$value];
        [$written, $detail] = $this->client->run($script, [$this->key, $this->fenceKey()], $arguments);
        if ((int) $written === 0) {
            throw new StaleFenceException(null, $this->key, $fence, (int) $detail);
        }

        return (int) $detail === 1;
    }

    /**
     * The fence's key, without prefix, in the cluster slot of the value's: Redis hashes what stands between the first {
     * and the next }, or the whole name if that is nothing. The two endings keep the keys of x and {x} apart.
     */
    private function fenceKey(): string
    {
        // Asked each time, for the caller may set another prefix.
        $fullName = $this->client->fullName($this->key);
        if ($this->key === '') {
            throw new ValueError('FencedKey: Argument #2 ($key) must not be empty');
        }
        if (preg_match('/^[^{]*\{[^}]+\}/', $fullName) === 1) {
            return "{$this->key}~fence";
        }
        if (strpbrk($fullName, '{}') !== false) {
            throw new ValueError('FencedKey: Argument #2 ($key) must not have braces that are no hash tag');
        }

        return '~{' . $fullName . '}:fence';
    }

    private static function milliseconds(float $seconds, string $argument): int
    {
        if (!($seconds >= 0.01 && $seconds <= self::YEAR)) {
            throw new ValueError("FencedKey: Argument (\$$argument) must be between 0.01 and 31536000 seconds");
        }

        return (int) ceil($seconds * 1000);
    }
}
