<?php

declare(strict_types=1);

namespace RedisLease\Bench\Peer;

use Illuminate\Cache\RedisStore;
use Illuminate\Contracts\Cache\Lock;
use Illuminate\Contracts\Cache\LockProvider;
use Illuminate\Redis\RedisManager;
use RedisLease\Bench\Address;
use RedisLease\Bench\Peer;
use RuntimeException;

/** Laravel's cache lock on phpredis, as Cache::lock() makes it, without the rest of the framework around it. */
class Laravel implements Peer
{
    protected const LIBRARY = 'Illuminate/Cache/autoload.php';

    private readonly LockProvider $store;
    private ?Lock $lock = null;

    public static function package(): ?string
    {
        return 'php-illuminate-cache';
    }

    public static function isThere(): bool
    {
        return extension_loaded('redis') && stream_resolve_include_path(self::LIBRARY) !== false
            && stream_resolve_include_path('Illuminate/Redis/autoload.php') !== false;
    }

    public function __construct(Address $address, private readonly string $name)
    {
        require_once self::LIBRARY;
        $this->store = $this->store($address);
    }

    protected function store(Address $address): LockProvider
    {
        $server = $address->isUnix()
            ? ['host' => $address->text, 'port' => 0]
            : ['host' => $address->host(), 'port' => $address->port()];
        $manager = new RedisManager(null, 'phpredis', ['default' => $server + ['persistent' => true]]);
        $store = new RedisStore($manager, 'lock', 'default');
        if ($store->getPrefix() !== 'lock:') {
            $store->setPrefix('lock:');
        }

        return $store;
    }

    public function cycles(int $count): void
    {
        for ($i = 0; $i < $count; $i++) {
            $lock = $this->store->lock($this->name, 10);
            if (!$lock->get() || !$lock->release()) {
                throw new RuntimeException('not held');
            }
        }
    }

    public function acquire(): void
    {
        $this->lock = $this->store->lock($this->name, 10);
        $this->lock->block(600);
    }

    public function release(): void
    {
        if (!$this->lock->release()) {
            throw new RuntimeException('lost');
        }
    }
}
