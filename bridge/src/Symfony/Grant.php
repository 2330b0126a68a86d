<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Symfony;

use DistributedLock;

/**
 * What a LeaseStore knows of a key besides its token: facts of this process only, so they are not in the key.
 *
 * @internal
 */
final class Grant
{
    private readonly int $pid;
    private readonly float $since;

    /**
     * @param DistributedLock|null $lease the handle that gives the lease back when it goes; null when nothing shall
     * @param float $validity seconds for which the lease may be relied on, from now
     * @param float|null $unusedTtl the TTL it was just granted for, while nobody has asked for it yet
     */
    public function __construct(
        public readonly ?DistributedLock $lease,
        public readonly ?string $token,
        public readonly ?int $fence,
        private readonly float $validity,
        public ?float $unusedTtl = null,
    ) {
        $this->pid = (int) getmypid();
        $this->since = self::now();
    }

    /** Whether it came about in this process: a forked child inherits the object, and owns nothing. */
    public function isOurs(): bool
    {
        return $this->pid === getmypid();
    }

    /** Seconds for which the lease may still be relied on. */
    public function validity(): float
    {
        return max(0.0, $this->validity - $this->age());
    }

    /** Seconds. */
    public function age(): float
    {
        return self::now() - $this->since;
    }

    private static function now(): float
    {
        return hrtime(true) / 1e9;
    }
}
