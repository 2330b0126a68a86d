<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Key;

use LogicException;
use Redis;
use RedisCluster;
use RedisException;
use TypeError;

/**
 * phpredis, with whatever options the caller has set.
 *
 * @internal
 */
final class PhpRedis implements Client
{
    public function __construct(private readonly Redis|RedisCluster $redis)
    {
    }

    public function fullName(string $key): string
    {
        return $this->redis->_prefix($key);
    }

    public function pack(mixed $value): string
    {
        $serializes = (int) $this->redis->getOption(Redis::OPT_SERIALIZER) !== Redis::SERIALIZER_NONE;
        if (!$serializes && !is_scalar($value)) {
            $type = get_debug_type($value);
            throw new TypeError("FencedKey: the client has no serializer for a value of type $type");
        }

        return $this->redis->_pack($value);
    }

    public function get(string $key): mixed
    {
        $value = $this->answer(fn (): mixed => $this->redis->get($key));

        // A serializer can store false as well.
        return $value === false && !$this->answer(fn (): mixed => $this->redis->exists($key)) ? null : $value;
    }

    public function run(string $script, array $keys, array $arguments): array
    {
        $words = [...$keys, ...$arguments];
        try {
            return $this->answer(fn (): mixed => $this->redis->evalSha(sha1($script), $words, count($keys)));
        } catch (RedisException $failure) {
            if (!str_starts_with($failure->getMessage(), 'NOSCRIPT')) {
                throw $failure;
            }

            return $this->answer(fn (): mixed => $this->redis->eval($script, $words, count($keys)));
        }
    }

    /**
     * phpredis answers false to some errors of the server and throws others: here all are thrown.
     *
     * @param callable(): mixed $command
     */
    private function answer(callable $command): mixed
    {
        if ($this->redis->getMode() !== Redis::ATOMIC) {
            throw new LogicException('FencedKey needs an answer at once: not within multi() or pipeline()');
        }
        $this->redis->clearLastError();
        $answer = $command();
        $error = $this->redis->getLastError();

        return $error === null ? $answer : throw new RedisException($error);
    }
}
