<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Inspect;

use Redis;
use RedisCluster;
use RedisException;
use Symfony\Component\Cache\Traits\RedisClusterProxy;
use Symfony\Component\Cache\Traits\RedisProxy;

/**
 * phpredis, past its prefix and serializer: rawCommand() knows neither.
 *
 * @internal
 */
final class PhpRedis implements Client
{
    /** @param Redis|RedisCluster|RedisProxy|RedisClusterProxy $redis or what passes calls on to one, as Symfony's do */
    public function __construct(private readonly object $redis, private readonly bool $isCluster)
    {
    }

    public function scan(string $pattern): iterable
    {
        foreach ($this->nodes() as $node) {
            $cursor = '0';
            do {
                [$cursor, $names] = $this->ask($node, 'SCAN', $cursor, 'MATCH', $pattern, 'COUNT', '1000', 'TYPE', 'string');
                yield from $names;
            } while ((string) $cursor !== '0');
        }
    }

    public function get(string $key): ?string
    {
        $value = $this->ask($key, 'GET', $key);

        return is_string($value) ? $value : null;
    }

    public function pttl(string $key): int
    {
        return $this->ask($key, 'PTTL', $key);
    }

    public function waiting(): ?int
    {
        $count = 0;
        try {
            foreach ($this->nodes() as $node) {
                $count += Waiting::count($this->ask($node, 'CLIENT', 'LIST'));
            }
        } catch (RedisException) {
            return null;
        }

        return $count;
    }

    /** @return list<array{string, int}|null> */
    private function nodes(): array
    {
        return $this->isCluster ? $this->redis->_masters() : [null];
    }

    /** @param array{string, int}|string|null $node the node of a cluster, or a key of it */
    private function ask(array|string|null $node, string ...$words): mixed
    {
        $this->redis->clearLastError();
        $answer = $this->isCluster
            ? $this->redis->rawCommand($node, ...$words)
            : $this->redis->rawCommand(...$words);
        $error = $this->redis->getLastError();

        return $error === null ? $answer : throw new RedisException($error);
    }
}
