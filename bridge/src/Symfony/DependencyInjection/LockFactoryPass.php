<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Symfony\DependencyInjection;

use RedisLease\Bridge\Symfony\LockFactory;
use Symfony\Component\DependencyInjection\Compiler\CompilerPassInterface;
use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\Lock\LockFactory as SymfonyLockFactory;
use Symfony\Component\Lock\PersistingStoreInterface;

/**
 * Puts the lock factory of the chosen name on leases, whatever the framework made of that name, and in whatever order
 * the bundles were registered.
 *
 * @internal
 */
final class LockFactoryPass implements CompilerPassInterface
{
    public function process(ContainerBuilder $container): void
    {
        if (!$container->hasDefinition('redis_lease.lock_factory')) {
            return;
        }
        // Other names of the framework's may have a LeaseStore too.
        if ($container->hasDefinition('lock.factory.abstract')) {
            $container->getDefinition('lock.factory.abstract')->setClass(LockFactory::class);
        }
        $name = $container->getParameter('redis_lease.lock');
        if ($name === false || $name === null) {
            return;
        }
        $container->setAlias("lock.$name.factory", 'redis_lease.lock_factory');
        if ($name !== 'default') {
            // The last is for #[Target] with the bare name, from Symfony 7.4 on; before, it is not looked at.
            $names = ["$name.lock.factory", $name];
            $container->registerAliasForArgument("lock.$name.factory", SymfonyLockFactory::class, ...$names);

            return;
        }
        $container->setAlias('lock.factory', 'redis_lease.lock_factory');
        $container->setAlias(SymfonyLockFactory::class, 'redis_lease.lock_factory');
        // The store had names of its own until Symfony 6.
        foreach (['lock.store', 'lock.default.store', PersistingStoreInterface::class] as $store) {
            if ($container->has($store)) {
                $container->setAlias($store, 'redis_lease.lock_store');
            }
        }
    }
}
