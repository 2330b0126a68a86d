<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Inspect;

use Closure;
use LogicException;
use Predis\ClientInterface;
use Redis;
use RedisCluster;
use RedisLease\Bridge\LeaseFactory;
use RedisLease\LeaseException;
use Symfony\Component\Cache\Traits\RedisClusterProxy;
use Symfony\Component\Cache\Traits\RedisProxy;
use TypeError;

/**
 * For operators: which locks are there, and whose.
 *
 * The extension asks about locks by their names. To find the names, and to read TTL and fence, a client of Redis is
 * needed besides. With independent nodes it shows what the one node has that the client speaks to.
 */
final class Inspector
{
    /** A lock that changes hands at each of so many looks is shown as the extension saw it last. */
    private const LOOKS = 10;
    /** So begins the value of a lock that is handed to a waiter. */
    private const HANDED_OVER = 'reserved:';

    private ?Client $made = null;

    /**
     * @param Redis|RedisCluster|ClientInterface|RedisProxy|RedisClusterProxy|Closure|null $client phpredis, Predis or a
     *     lazy client of Symfony's RedisAdapter, or a closure that gives one. It is for the same server and database as
     *     the leases; its prefix is not used. Without one, leases cannot be listed, and neither TTL nor fence is known.
     * @param string|null $prefix of the leases' keys; null takes the ini setting redis_lease.prefix
     */
    public function __construct(
        private readonly LeaseFactory $leases,
        private readonly ?object $client = null,
        private readonly ?string $prefix = null,
    ) {
    }

    /**
     * The leases whose resource begins so. SCAN does not stop the server; a lease that comes or goes meanwhile may be
     * in the list or not. With an empty prefix all strings of the database would do: then only those whose value is the
     * token that stands with their fence are listed.
     *
     * @param bool $withWaiters whether to ask of each if somebody waits for it, which is one more round trip
     *
     * @return iterable<Lease>
     *
     * @throws LogicException without a client
     * @throws TypeError when the client is none that can be used
     */
    public function list(string $beginning = '', bool $withWaiters = false): iterable
    {
        $client = $this->client() ?? throw new LogicException(
            'Leases can be listed only with a Redis client: the setting "client" names one.',
        );
        $prefix = $this->prefix();
        $seen = [];
        foreach ($client->scan(addcslashes($prefix . $beginning, '\\*?[]') . '*') as $key) {
            // SCAN may give a key twice.
            $resource = substr((string) $key, strlen($prefix));
            $isNone = isset($seen[$key]) || $resource === '' || Keys::isBeside($prefix, (string) $key);
            $lease = $isNone ? null : $this->read($client, $resource, $withWaiters, $prefix === '');
            $seen[$key] = true;
            if ($lease !== null) {
                yield $lease;
            }
        }
    }

    /**
     * The lease on one resource; null when it is free.
     *
     * @throws LeaseException when Redis could not be asked
     */
    public function show(string $resource): ?Lease
    {
        return $this->look($resource)->lease;
    }

    /**
     * The lease on one resource, and whether the client sees the same. The extension says who has it, which on several
     * nodes is what most of them have; the client adds fence and TTL.
     *
     * @throws LeaseException when Redis could not be asked
     */
    public function look(string $resource): Finding
    {
        [$lock, $client, $before] = [$this->leases->create($resource), $this->client(), null];
        for ($time = 1; $time <= self::LOOKS; $time++) {
            $owner = $lock->owner();
            $ofStore = $owner === null ? null : new Lease($resource, $owner, null, null);
            if ($client === null) {
                return new Finding($ofStore);
            }
            $seen = $this->read($client, $resource);
            if ($owner === $seen?->owner) {
                return new Finding($seen);
            }
            // It may have changed hands in between. What both say again is no coincidence.
            if ([$owner, $seen?->owner] === $before) {
                return new Finding($ofStore, self::doubt($seen));
            }
            $before = [$owner, $seen?->owner];
        }

        return new Finding($ofStore);
    }

    /**
     * How many clients wait for any lock on the server, or on all nodes of a cluster.
     *
     * @return int|null null where the client may not ask, or there is none
     */
    public function waiting(): ?int
    {
        return $this->client()?->waiting();
    }

    /** After a failure: some clients do not come back by themselves. */
    public function reconnect(): void
    {
        $this->made?->reconnect();
    }

    /**
     * Removes a lock. Its owner is not asked, and may be at work.
     *
     * @param string|null $owner only if this token has it
     *
     * @return bool true: removed. False: it was free, or another owner's.
     *
     * @throws LeaseException when Redis could not be asked
     */
    public function release(string $resource, ?string $owner = null): bool
    {
        return $owner === null
            ? $this->leases->create($resource)->forceRelease()
            : $this->leases->restore($resource, $owner)->release();
    }

    /** Made when it is needed: for a release it is not. */
    private function client(): ?Client
    {
        if ($this->client === null || $this->made !== null) {
            return $this->made;
        }
        $client = $this->client instanceof Closure ? ($this->client)() : $this->client;

        return $this->made = match (true) {
            $client instanceof ClientInterface => new Predis($client),
            $client instanceof Redis, $client instanceof RedisProxy => new PhpRedis($client, isCluster: false),
            $client instanceof RedisCluster, $client instanceof RedisClusterProxy => new PhpRedis($client, isCluster: true),
            default => throw new TypeError(sprintf(
                'Inspector: Argument #2 ($client) must be Redis, RedisCluster or Predis\ClientInterface, %s given',
                get_debug_type($client),
            )),
        };
    }

    /** @param bool $onlySure whether what may be another program's key is null */
    private function read(
        Client $client,
        string $resource,
        bool $withWaiters = false,
        bool $onlySure = false,
    ): ?Lease {
        $key = $this->prefix() . $resource;
        [$value, $ttl] = [$client->get($key), $client->pttl($key)];
        if ($value === null || $ttl === -2 || ($onlySure && !Lease::isToken(self::token($value)))) {
            return null;
        }
        // The fence stands with the token it was minted for: another one's is not shown.
        $fence = explode(':', (string) $client->get(Keys::beside($this->prefix(), $resource, 'fence')), 2);
        if ($onlySure && ($fence[1] ?? null) !== self::token($value)) {
            return null;
        }
        $waiterKey = $withWaiters ? Keys::beside($this->prefix(), $resource, 'waiter') : null;

        return new Lease(
            $resource,
            str_starts_with($value, self::HANDED_OVER) ? null : $value,
            ($fence[1] ?? null) === $value ? (int) $fence[0] : null,
            $ttl < 0 ? INF : $ttl / 1000,
            $waiterKey === null ? null : $client->get($waiterKey) !== null,
        );
    }

    /** The token in a lock's value, whether it is held or handed over. */
    private static function token(string $value): string
    {
        return str_starts_with($value, self::HANDED_OVER) ? substr($value, strlen(self::HANDED_OVER)) : $value;
    }

    private static function doubt(?Lease $seen): string
    {
        $what = match (true) {
            $seen === null => 'sees no such lock',
            $seen->owner === null => 'sees it handed over',
            default => 'sees it with the owner ' . $seen->row()[1],
        };

        return "The Redis client $what: it may speak to another node, or to another server or database.";
    }

    private function prefix(): string
    {
        return $this->prefix ?? (string) ini_get('redis_lease.prefix');
    }
}
