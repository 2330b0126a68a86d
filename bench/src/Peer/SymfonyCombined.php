<?php

declare(strict_types=1);

namespace RedisLease\Bench\Peer;

use Redis;
use RedisLease\Bench\Address;
use Symfony\Component\Lock\PersistingStoreInterface;
use Symfony\Component\Lock\Store\CombinedStore;
use Symfony\Component\Lock\Store\RedisStore;
use Symfony\Component\Lock\Strategy\ConsensusStrategy;

/** symfony/lock's CombinedStore on phpredis: one node after the other, each with a time-out of 200 ms. */
final class SymfonyCombined extends Symfony
{
    private const TIMEOUT = 0.2;

    protected function store(Address $address): PersistingStoreInterface
    {
        $stores = [];
        foreach ($address->nodes() as $node) {
            $redis = new Redis();
            $redis->connect($node->host(), $node->port(), self::TIMEOUT, null, 0, self::TIMEOUT);
            $stores[] = new RedisStore($redis, 10.0);
        }

        return new CombinedStore($stores, new ConsensusStrategy());
    }
}
