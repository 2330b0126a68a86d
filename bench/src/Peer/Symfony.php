<?php

declare(strict_types=1);

namespace RedisLease\Bench\Peer;

use RedisLease\Bench\Address;
use RedisLease\Bench\Peer;
use RuntimeException;
use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\LockInterface;
use Symfony\Component\Lock\PersistingStoreInterface;
use Symfony\Component\Lock\Store\RedisStore;

/** symfony/lock on phpredis. Its token belongs to the lock object, so each attempt has a new one. */
class Symfony implements Peer
{
    protected const LIBRARY = 'Symfony/Component/Lock/autoload.php';

    protected readonly LockFactory $factory;
    protected readonly string $key;
    private ?LockInterface $lock = null;

    public static function package(): ?string
    {
        return 'php-symfony-lock';
    }

    public static function isThere(): bool
    {
        return extension_loaded('redis') && stream_resolve_include_path(self::LIBRARY) !== false;
    }

    public function __construct(Address $address, string $name)
    {
        require_once self::LIBRARY;
        $this->factory = $this->factory($address);
        $this->key = $this->key($name);
    }

    protected function factory(Address $address): LockFactory
    {
        return new LockFactory($this->store($address));
    }

    protected function key(string $name): string
    {
        return "lock:$name";
    }

    protected function store(Address $address): PersistingStoreInterface
    {
        return new RedisStore($address->phpredis(), 10.0);
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
        $this->lock = $this->factory->createLock($this->key, 10.0);
        if (!$this->lock->acquire(true)) {
            throw new RuntimeException('not held');
        }
    }

    public function release(): void
    {
        $this->lock->release();
    }
}
