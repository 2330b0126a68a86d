<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Symfony;

use JsonSerializable;

/**
 * Lies in a key beside the token, and knows the process. A clone of the key has the same one, so in a forked child it
 * is known for the parent's. It is not handed over: what is unserialized is of the process that does so.
 *
 * @internal
 */
final class Origin implements JsonSerializable
{
    private int $pid;

    public function __construct()
    {
        $this->pid = (int) getmypid();
    }

    public function isOurs(): bool
    {
        return $this->pid === getmypid();
    }

    /** @return array<never, never> */
    public function __serialize(): array
    {
        return [];
    }

    /** @param array<mixed> $nothing */
    public function __unserialize(array $nothing): void
    {
        $this->__construct();
    }

    public function jsonSerialize(): mixed
    {
        return null;
    }
}
