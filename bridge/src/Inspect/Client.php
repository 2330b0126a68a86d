<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Inspect;

/**
 * What an Inspector needs of a Redis client. Names are whole: no prefix of the client's is added.
 *
 * @internal
 */
interface Client
{
    /**
     * @param string $pattern as SCAN takes it
     *
     * @return iterable<string> the names of the string keys that match, some perhaps twice
     */
    public function scan(string $pattern): iterable;

    public function get(string $key): ?string;

    /** Milliseconds; -1: it never ends, -2: it is gone. */
    public function pttl(string $key): int;

    /** Anew, where a client would not do so by itself after it has lost its connection. */
    public function reconnect(): void;

    /** How many of the extension's connections are blocked in a wait; null where this client may not ask. */
    public function waiting(): ?int;
}
