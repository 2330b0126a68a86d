<?php

declare(strict_types=1);

namespace RedisLease\Bench;

/**
 * A way to lock from PHP. Each makes a new token for every attempt, keeps its connection, asks for a TTL of
 * ten seconds, and uses a key of the same length. A lock that should have been had and was not throws.
 */
interface Peer
{
    /** The name under which Debian ships it, or null when it is none of Debian's. */
    public static function package(): ?string;

    /** Whether it is installed. */
    public static function isThere(): bool;

    public function __construct(Address $address, string $name);

    /** Acquires and releases $count times; nobody else wants the lock. */
    public function cycles(int $count): void;

    /** Acquires, waiting as long as it takes. */
    public function acquire(): void;

    public function release(): void;
}
