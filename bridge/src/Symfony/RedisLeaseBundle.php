<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Symfony;

use RedisLease\Bridge\Symfony\DependencyInjection\LockFactoryPass;
use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\HttpKernel\Bundle\Bundle;

/** Puts an application's locks on leases. What it can be told is in DependencyInjection\Configuration. */
final class RedisLeaseBundle extends Bundle
{
    public function build(ContainerBuilder $container): void
    {
        parent::build($container);
        $container->addCompilerPass(new LockFactoryPass());
    }
}
