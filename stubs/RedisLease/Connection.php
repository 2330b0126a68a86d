<?php

namespace RedisLease;

/**
 * Where the locks are kept. Persistent: objects with the same DSN and options share one socket for the
 * worker's life, across requests.
 *
 * The socket is opened by the first command, not by the constructor. A forked child opens its own.
 * The objects cannot be cloned or serialized.
 */
final class Connection
{
    /**
     * @param non-empty-string $dsn redis://[user[:pass]@]host[:port][/db], rediss:// for TLS (with ?ca=&cert=&key=), or
     *     unix:///path[?db=&user=&pass=]; valkey:// and valkeys:// mean the same. Three, five or seven of them,
     *     separated by white space, are independent nodes of which a majority decides; ?restart_guard=seconds (0 to
     *     31536000) at one of them keeps a server that started less than that long ago from new grants.
     *     redis+sentinel://[user:pass@]host[:port],host[:port]/name[/db] is the primary that sentinels call so
     *     (?sentinel_user=&sentinel_pass=), redis+cluster://[user:pass@]host[:port],host[:port] a cluster; rediss+… for TLS.
     *     ?wait_replicas=N (0 to 100): a grant counts when N replicas have it. ?protocol=2|3.
     *     A password never shows in messages, dumps or traces.
     * @param float|null $connectTimeout seconds to connect, 0.001 to 3600.
     *     Null takes the ini setting redis_lease.connect_timeout.
     * @param float|null $commandTimeout seconds from sending a command to its answer, 0.001 to 3600.
     *     Null takes the ini setting redis_lease.command_timeout.
     * @param string|null $prefix put before every resource name to form its key in Redis.
     *     Null takes the ini setting redis_lease.prefix.
     *
     * @throws \ValueError when the DSN is malformed or of an unknown scheme, names a node twice or an even number of
     *     them, when a time-out is out of range, NAN or INF, or when the prefix is longer than 1024 bytes
     */
    public function __construct(
        #[\SensitiveParameter]
        string $dsn,
        ?float $connectTimeout = null,
        ?float $commandTimeout = null,
        ?string $prefix = null,
    ) {
    }

    /**
     * The connection of the ini settings redis_lease.dsn, .connect_timeout, .command_timeout and .prefix, as
     * they are now.
     *
     * @throws \ValueError when one of these settings is malformed
     */
    public static function default(): self
    {
    }

    /**
     * Asks each server whether it is there. It does not throw when it is not.
     *
     * Run Redis with maxmemory-policy noeviction: every other policy may drop locks when memory is short.
     *
     * @return array<non-empty-string, float|non-empty-string> per node: its address => the round trip in seconds, or the error.
     *     What is to be known beside it has a line of its own, such as "address (waiting)".
     *
     * @phpstan-impure
     */
    public function ping(): array
    {
    }

    /**
     * Closes the socket now. The next command opens a new one. Locks that are held stay held.
     */
    public function close(): void
    {
    }
}
