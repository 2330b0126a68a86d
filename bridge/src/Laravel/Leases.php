<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Laravel;

use Illuminate\Contracts\Container\Container;
use InvalidArgumentException;
use RedisLease\Bridge\HeldByRequest;
use RedisLease\Bridge\Inspect\Inspector;
use RedisLease\Bridge\LeaseFactory;
use RedisLease\Connection;

/**
 * What an application's configuration says of its leases: the cache stores whose driver is redis_lease.
 *
 * @internal
 */
final class Leases
{
    /** One day. */
    private const LONG_TTL = 86_400.0;

    public function __construct(private readonly Container $app)
    {
    }

    /**
     * The cache store of one configuration.
     *
     * @param array<string, mixed> $config
     */
    public function store(array $config): LeaseCacheStore
    {
        $values = $config['store'] ?? throw new InvalidArgumentException(
            'A cache store of the driver redis_lease needs the name of another store, for the values: \'store\' => …',
        );
        if ($this->config("cache.stores.$values.driver") === 'redis_lease') {
            throw new InvalidArgumentException("The cache store $values cannot keep the values: its own driver is redis_lease.");
        }
        $store = $this->app->make('cache')->store($values)->getStore();

        $longTtl = (float) ($config['long_ttl'] ?? self::LONG_TTL);

        return LeaseCacheStore::over(
            $store,
            $this->factory($config),
            $longTtl,
            $this->app->make(HeldByRequest::class),
            $this->app->make(Owed::class),
        );
    }

    /**
     * @param array<string, mixed> $config
     * @param HeldByRequest|null $held for leases that the application's own code makes
     */
    public function factory(array $config, ?HeldByRequest $held = null): LeaseFactory
    {
        $prefix = $this->prefix($config);
        // A closure: Laravel makes the cache for commands like list, which a wrong DSN must not stop.
        $connection = static fn (): Connection => self::connection($config, $prefix);

        return new LeaseFactory($connection, $config['ttl'] ?? null, $held);
    }

    public function inspector(?string $store): Inspector
    {
        $config = $this->configuration($store);
        $name = $config['client'] ?? null;
        // A closure: lease:release needs no client, and it may have to do while that one cannot connect.
        $client = $name === null ? null : fn (): object => $this->app->make('redis')->connection($name)->client();

        return new Inspector($this->factory($config), $client, $this->prefix($config));
    }

    /**
     * The configuration of the store of that name, or of the first whose driver is redis_lease.
     *
     * @return array<string, mixed>
     */
    public function configuration(?string $store = null): array
    {
        foreach ((array) $this->config('cache.stores') as $name => $config) {
            if (($config['driver'] ?? null) === 'redis_lease' && ($store === null || $store === (string) $name)) {
                return $config;
            }
        }

        return $store === null ? [] : throw new InvalidArgumentException("The driver of the cache store $store is not redis_lease.");
    }

    /** @param array<string, mixed> $config */
    private static function connection(array $config, ?string $prefix): Connection
    {
        return new Connection(
            $config['dsn'] ?? (string) ini_get('redis_lease.dsn'),
            isset($config['connect_timeout']) ? (float) $config['connect_timeout'] : null,
            isset($config['command_timeout']) ? (float) $config['command_timeout'] : null,
            $prefix,
        );
    }

    /**
     * Applications that share a Redis are told apart by the cache's prefix: their locks too.
     *
     * @param array<string, mixed> $config
     */
    private function prefix(array $config): ?string
    {
        $ofCache = (string) $this->config('cache.prefix');

        return $config['prefix'] ?? ($ofCache === '' ? null : ini_get('redis_lease.prefix') . $ofCache . ':');
    }

    private function config(string $key): mixed
    {
        return $this->app->make('config')->get($key);
    }
}
