<?php

declare(strict_types=1);

namespace RedisLease\Bench\Peer;

use RuntimeException;

/** symfony/lock on phpredis, one object, and so one token, for all cycles. */
final class SymfonyKept extends Symfony
{
    public function cycles(int $count): void
    {
        $lock = $this->factory->createLock($this->key, 10.0);
        for ($i = 0; $i < $count; $i++) {
            if (!$lock->acquire()) {
                throw new RuntimeException('not held');
            }
            $lock->release();
        }
    }
}
