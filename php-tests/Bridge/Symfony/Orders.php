<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Symfony;

use Symfony\Component\DependencyInjection\Attribute\Target;
use Symfony\Component\Lock\LockFactory;

/** A service that asks for the lock factory "orders" by its bare name. */
final class Orders
{
    public function __construct(#[Target('orders')] public readonly LockFactory $locks)
    {
    }
}
