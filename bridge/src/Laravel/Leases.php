<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Laravel;

use Illuminate\Contracts\Cache\LockProvider;
use Illuminate\Contracts\Cache\Store;
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
    public function store(array $config): LockProvider&Store
    {
        $values = (string) ($config['store'] ?? '');
        if ($values === '') {
            throw new InvalidArgumentException(
                'A cache store of the driver redis_lease needs another one for the values, by name: \'store\' => …',
            );
        }
        if ($this->endsInLeases($values)) {
            throw new InvalidArgumentException(
                "The cache store $values cannot keep the values: it is of the driver redis_lease, or hands on to one that is.",
            );
        }

        return LeaseCacheStore::over($this->app->make('cache')->store($values)->getStore(), new LeaseLocks(
            $this->factory($config),
            self::number($config, 'long_ttl') ?? self::LONG_TTL,
            $this->app->make(HeldByRequest::class),
            $this->app->make(Owed::class),
        ));
    }

    /**
     * The configuration as Laravel's own drivers hand it to the repository: under store, it has the store's own name.
     *
     * @param array<string, mixed> $config
     *
     * @return array<string, mixed>
     */
    public function ofRepository(array $config): array
    {
        // Laravel does not tell the name. Where two are configured alike, either is right: their locks are the same.
        $name = array_search($config, (array) $this->config('cache.stores'), true);

        return ['store' => $name === false ? $config['name'] ?? 'ondemand' : (string) $name] + $config;
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

        return new LeaseFactory($connection, self::number($config, 'ttl'), $held);
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
     * The configuration of the store of that name. Without one, of the default store if its driver is redis_lease, else
     * of the first that has it.
     *
     * @return array<string, mixed>
     */
    public function configuration(?string $store = null): array
    {
        $ours = array_filter(
            (array) $this->config('cache.stores'),
            static fn (mixed $config): bool => ($config['driver'] ?? null) === 'redis_lease',
        );
        if ($store === null) {
            return $ours[(string) $this->config('cache.default')] ?? (reset($ours) ?: []);
        }

        return $ours[$store]
            ?? throw new InvalidArgumentException("The driver of the cache store $store is not redis_lease.");
    }

    /** @param array<string, mixed> $config */
    private static function connection(array $config, ?string $prefix): Connection
    {
        return new Connection(
            $config['dsn'] ?? (string) ini_get('redis_lease.dsn'),
            self::number($config, 'connect_timeout'),
            self::number($config, 'command_timeout'),
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

        if (isset($config['prefix'])) {
            return (string) $config['prefix'];
        }

        return $ofCache === '' ? null : ini_get('redis_lease.prefix') . $ofCache . ':';
    }

    /**
     * A setting of seconds: env() has it as a string, an empty one where nothing follows the equals sign.
     *
     * @param array<string, mixed> $config
     */
    private static function number(array $config, string $setting): ?float
    {
        $value = $config[$setting] ?? '';
        if ($value === '') {
            return null;
        }

        return is_numeric($value) ? (float) $value : throw new InvalidArgumentException(
            "The setting $setting of a cache store of the driver redis_lease is seconds, and no number is given.",
        );
    }

    /**
     * Whether a store is one of ours, or hands on to one, as Laravel's failover does: a value could go round for ever.
     *
     * @param list<string> $seen
     */
    private function endsInLeases(string $name, array $seen = []): bool
    {
        $config = (array) $this->config("cache.stores.$name");
        if (($config['driver'] ?? null) === 'redis_lease') {
            return true;
        }
        foreach ([...(array) ($config['store'] ?? []), ...(array) ($config['stores'] ?? [])] as $next) {
            if (is_string($next) && !in_array($next, $seen, true) && $this->endsInLeases($next, [...$seen, $name])) {
                return true;
            }
        }

        return false;
    }

    private function config(string $key): mixed
    {
        return $this->app->make('config')->get($key);
    }
}
