<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Symfony;

use RedisLease\Bridge\Symfony\DependencyInjection\LockFactoryPass;
use RedisLease\Bridge\Symfony\DependencyInjection\RedisLeaseExtension;
use RedisLease\Bridge\Symfony\LeaseStore;
use RedisLease\Bridge\Symfony\LockFactory;
use RedisLease\Tests\Bridge\Database\Needs;
use Symfony\Component\DependencyInjection\ChildDefinition;
use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\DependencyInjection\Definition;
use Symfony\Component\DependencyInjection\Reference;
use Symfony\Component\Lock\LockFactory as SymfonyLockFactory;
use Symfony\Component\Lock\PersistingStoreInterface;
use Symfony\Component\Lock\Store\InMemoryStore;

/** A compiled container in which no framework has prepared anything. */
final class ExtensionTest extends SymfonyTestCase
{
    public static function setUpBeforeClass(): void
    {
        Needs::library('php-symfony-config', 'Symfony/Component/Config/autoload.php');
        Needs::library('php-symfony-dependency-injection', 'Symfony/Component/DependencyInjection/autoload.php');
        parent::setUpBeforeClass();
    }

    /** @param callable(ContainerBuilder): void|null $prepare */
    private function compiled(array $config, ?callable $prepare = null): ContainerBuilder
    {
        $container = new ContainerBuilder();
        ($prepare ?? static fn () => null)($container);
        (new RedisLeaseExtension())->load([$config + ['dsn' => self::$server->dsn()]], $container);
        foreach ($container->getDefinitions() as $definition) {
            $definition->setPublic(true);
        }
        (new LockFactoryPass())->process($container);
        foreach ($container->getAliases() as $alias) {
            $alias->setPublic(true);
        }
        $container->compile();

        return $container;
    }

    public function testTheFactoryHasTheNamesOfTheFrameworks(): void
    {
        $container = $this->compiled([]);

        foreach ([SymfonyLockFactory::class, 'lock.factory', 'lock.default.factory'] as $service) {
            self::assertInstanceOf(LockFactory::class, $container->get($service));
        }
        self::assertInstanceOf(LeaseStore::class, $container->get(LeaseStore::class));
        self::assertFalse($container->has(PersistingStoreInterface::class));
    }

    public function testWithoutALockNothingIsNamed(): void
    {
        $container = $this->compiled(['lock' => false]);

        $named = preg_grep('/^lock\.|LockFactory/', array_keys($container->getAliases()));
        self::assertSame([], array_values($named));
    }

    public function testTheStoreOfOldFrameworksIsReplacedToo(): void
    {
        $container = $this->compiled([], static function (ContainerBuilder $container): void {
            foreach (['lock.store', 'lock.default.store', PersistingStoreInterface::class] as $store) {
                $container->setDefinition($store, new Definition(InMemoryStore::class));
            }
        });

        foreach (['lock.store', 'lock.default.store', PersistingStoreInterface::class] as $store) {
            self::assertInstanceOf(LeaseStore::class, $container->get($store));
        }
    }

    public function testAFactoryOfTheFrameworksOnOurStoreKnowsTheTtls(): void
    {
        $container = $this->compiled(['lock' => false], static function (ContainerBuilder $container): void {
            $container->setDefinition('lock.factory.abstract', new Definition(SymfonyLockFactory::class, [null]))
                ->setAbstract(true);
            $factory = new ChildDefinition('lock.factory.abstract');
            $container->setDefinition('lock.orders.factory', $factory->replaceArgument(0, new Reference(LeaseStore::class)));
        });

        $lock = $container->get('lock.orders.factory')->createLock('order:1', 5.0);
        self::assertTrue($lock->acquire());
        self::assertLessThanOrEqual(5_000, self::$server->command('PTTL', 'lock:order:1'));
    }
}
