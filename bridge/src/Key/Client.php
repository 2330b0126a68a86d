<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Key;

/**
 * What FencedKey needs of the caller's Redis client.
 *
 * @internal
 */
interface Client
{
    /** The key's name as the server knows it: with the client's prefix. */
    public function fullName(string $key): string;

    /** The value as the client's own set() would store it: with its serializer and compression. */
    public function pack(mixed $value): string;

    /** What the client's own get() gives; null when there is none. */
    public function get(string $key): mixed;

    /**
     * Runs the script by its digest, and by its text where the server does not know it yet.
     *
     * @param list<string> $keys without prefix, all in one cluster slot
     * @param list<string> $arguments
     *
     * @return array<mixed> the script's answer
     */
    public function run(string $script, array $keys, array $arguments): array;
}
