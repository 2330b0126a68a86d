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
    /** @var array{string, int, float, float, mixed, int}|null host, port, time-outs, password, database */
    private ?array $server = null;

    /** @param Redis|RedisCluster|RedisProxy|RedisClusterProxy $redis or what passes calls on to one, as Symfony's do */
    public function __construct(private object $redis, private readonly bool $isCluster)
    {
    }

    public function scan(string $pattern): iterable
    {
        foreach ($this->nodes() as $node) {
            $cursor = '0';
            do {
                $answer = $this->ask($node, 'SCAN', $cursor, 'MATCH', $pattern, 'COUNT', '1000', 'TYPE', 'string');
                [$cursor, $names] = is_array($answer) ? $answer : throw new RedisException('SCAN has no answer.');
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
        $ttl = $this->ask($key, 'PTTL', $key);

        return is_int($ttl) ? $ttl : throw new RedisException('PTTL has no answer.');
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

    /** By another one: connect() would take the application's own its options. A cluster's client comes back itself. */
    public function reconnect(): void
    {
        if ($this->server === null) {
            return;
        }
        [$host, $port, $timeout, $readTimeout, $password, $database] = $this->server;
        $redis = new Redis();
        $redis->connect($host, $port, $timeout, null, 0, $readTimeout);
        empty($password) || $redis->auth($password);
        $database === 0 || $redis->select($database);
        $this->redis = $redis;
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
        // Now, since a client whose connection has failed forgets them.
        $this->server ??= $this->isCluster ? null : [
            $this->redis->getHost(),
            (int) $this->redis->getPort(),
            max(0.0, (float) $this->redis->getTimeout()),
            max(0.0, (float) $this->redis->getReadTimeout()),
            $this->redis->getAuth(),
            (int) $this->redis->getDbNum(),
        ];

        return $error === null ? $answer : throw new RedisException($error);
    }
}
