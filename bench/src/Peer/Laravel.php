<?php

declare(strict_types=1);

namespace RedisLease\Bench\Peer;

use Illuminate\Cache\RedisStore;
use Illuminate\Contracts\Cache\Lock;
use Illuminate\Redis\RedisManager;
use RedisLease\Bench\Address;
use RedisLease\Bench\Peer;
use RuntimeException;

/** Laravel's cache lock on phpredis, as Cache::lock() makes it, without the rest of the framework around it. */
final class Laravel implements Peer
{
    private const LIBRARY = 'Illuminate/Cache/autoload.php';

    private readonly RedisStore $store;
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
        $server = $address->isUnix()
            ? ['host' => $address->text, 'port' => 0]
            : ['host' => $address->host(), 'port' => $address->port()];
        $manager = new RedisManager(null, 'phpredis', ['default' => $server + ['persistent' => true]]);
        $this->store = new RedisStore($manager, 'lock', 'default');
        if ($this->store->getPrefix() !== 'lock:') {
            $this->store->setPrefix('lock:');
        }
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
