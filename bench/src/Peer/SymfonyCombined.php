<?php

declare(strict_types=1);

namespace RedisLease\Bench\Peer;

use Redis;
use RedisLease\Bench\Address;
use RedisLease\Bench\Peer;
use RuntimeException;
use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\Store\CombinedStore;
use Symfony\Component\Lock\Store\RedisStore;
use Symfony\Component\Lock\Strategy\ConsensusStrategy;

/** symfony/lock's CombinedStore on phpredis: one node after the other, each with a time-out of 200 ms. */
final class SymfonyCombined implements Peer
{
    private const LIBRARY = 'Symfony/Component/Lock/autoload.php';
    private const TIMEOUT = 0.2;

    private readonly LockFactory $factory;
    private readonly string $key;

    public static function package(): ?string
    {
        return Symfony::package();
    }

    public static function isThere(): bool
    {
        return Symfony::isThere();
    }

    public function __construct(Address $address, string $name)
    {
        require_once self::LIBRARY;
        $stores = [];
        foreach ($address->nodes() as $node) {
            $redis = new Redis();
            $redis->connect($node->host(), $node->port(), self::TIMEOUT, null, 0, self::TIMEOUT);
            $stores[] = new RedisStore($redis, 10.0);
        }
        $this->factory = new LockFactory(new CombinedStore($stores, new ConsensusStrategy()));
        $this->key = "lock:$name";
    }

    public function cycles(int $count): void
    {
        for ($i = 0; $i < $count; $i++) {
            $lock = $this->factory->createLock($this->key, 10.0);
            if (!$lock->acquire()) {
                throw new RuntimeException('not held');
            }
            $lock->release();
        }
    }

    public function acquire(): void
    {
        throw new RuntimeException('not measured');
    }

    public function release(): void
    {
        throw new RuntimeException('not measured');
    }
}
