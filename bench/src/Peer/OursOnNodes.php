<?php

declare(strict_types=1);

namespace RedisLease\Bench\Peer;

use RedisLease\Bench\Address;

/** This extension on several independent nodes: their addresses, separated by commas. */
final class OursOnNodes extends Ours
{
    public function __construct(Address $address, string $name)
    {
        $nodes = array_map(static fn (Address $node) => $node->dsn(), $address->nodes());
        parent::__construct(new class (implode(' ', $nodes)) extends Address {
            public function dsn(): string
            {
                return $this->text;
            }
        }, $name);
    }
}
