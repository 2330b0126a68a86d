<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Inspect;

/** What was found out about one lock. */
final class Finding
{
    /**
     * @param Lease|null $lease null: it is free
     * @param string|null $doubt for an operator, where the Redis client sees something else than the extension
     */
    public function __construct(public readonly ?Lease $lease, public readonly ?string $doubt = null)
    {
    }
}
