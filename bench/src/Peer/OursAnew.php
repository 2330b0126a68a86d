<?php

declare(strict_types=1);

namespace RedisLease\Bench\Peer;

use DistributedLock;
use RuntimeException;

/** This extension, a new object for each cycle. */
final class OursAnew extends Ours
{
    public function cycles(int $count): void
    {
        for ($i = 0; $i < $count; $i++) {
            $lock = new DistributedLock($this->name, 10.0);
            if (!$lock->acquire() || !$lock->release()) {
                throw new RuntimeException('not held');
            }
        }
    }
}
