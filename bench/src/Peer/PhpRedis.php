<?php

declare(strict_types=1);

namespace RedisLease\Bench\Peer;

use Redis;
use RedisLease\Bench\Address;
use RedisLease\Bench\Peer;
use RuntimeException;

/** phpredis by hand: SET NX PX, and the usual compare-and-delete script by its digest. No fence, no waiting. */
final class PhpRedis implements Peer
{
    public const RELEASE
        = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

    private readonly Redis $redis;
    private readonly string $digest;
    private readonly string $key;
    private string $token = '';

    public static function package(): ?string
    {
        return 'php-redis';
    }

    public static function isThere(): bool
    {
        return extension_loaded('redis');
    }

    public function __construct(Address $address, string $name)
    {
        $this->redis = $address->phpredis();
        $this->digest = $this->redis->script('load', self::RELEASE);
        $this->key = "lock:$name";
    }

    public function cycles(int $count): void
    {
        for ($i = 0; $i < $count; $i++) {
            $token = bin2hex(random_bytes(16));
            if (
                !$this->redis->set($this->key, $token, ['nx', 'px' => 10_000])
                || $this->redis->evalSha($this->digest, [$this->key, $token], 1) !== 1
            ) {
                throw new RuntimeException('not held');
            }
        }
    }

    public function acquire(): void
    {
        $this->token = bin2hex(random_bytes(16));
        while (!$this->redis->set($this->key, $this->token, ['nx', 'px' => 10_000])) {
            usleep(random_int(500, 1500));
        }
    }

    public function release(): void
    {
        if ($this->redis->evalSha($this->digest, [$this->key, $this->token], 1) !== 1) {
            throw new RuntimeException('lost');
        }
    }
}
