<?php

declare(strict_types=1);

namespace RedisLease\Bench\Peer;

use LogicException;
use malkusch\lock\mutex\PHPRedisMutex;
use RedisLease\Bench\Address;
use RedisLease\Bench\Peer;

/** php-lock/lock, which was malkusch/lock, on phpredis. It knows critical sections only. */
final class PhpLock implements Peer
{
    private const LIBRARY = 'Malkusch/Lock/autoload.php';

    private readonly PHPRedisMutex $mutex;

    public static function package(): ?string
    {
        return 'php-malkusch-lock';
    }

    public static function isThere(): bool
    {
        return extension_loaded('redis') && stream_resolve_include_path(self::LIBRARY) !== false;
    }

    public function __construct(Address $address, string $name)
    {
        require_once self::LIBRARY;
        // It adds a second to the TTL, and "lock_" to the name.
        $this->mutex = new PHPRedisMutex([$address->phpredis()], $name, 9);
    }

    public function cycles(int $count): void
    {
        $nothing = static fn () => null;
        for ($i = 0; $i < $count; $i++) {
            $this->mutex->synchronized($nothing);
        }
    }

    public function acquire(): void
    {
        throw new LogicException('only as a critical section');
    }

    public function release(): void
    {
        throw new LogicException('only as a critical section');
    }
}
