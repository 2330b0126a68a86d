<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Symfony\DependencyInjection;

use RedisLease\Bridge\HeldByRequest;
use RedisLease\Bridge\Inspect\Inspector;
use RedisLease\Bridge\LeaseFactory;
use RedisLease\Bridge\Symfony\Command\ListCommand;
use RedisLease\Bridge\Symfony\Command\ReleaseCommand;
use RedisLease\Bridge\Symfony\Command\ShowCommand;
use RedisLease\Bridge\Symfony\Command\TopCommand;
use RedisLease\Bridge\Symfony\ConnectionFactory;
use RedisLease\Bridge\Symfony\LeaseStore;
use RedisLease\Bridge\Symfony\LockFactory;
use RedisLease\Bridge\Symfony\RequestListener;
use RedisLease\Connection;
use Symfony\Component\Config\Definition\Exception\InvalidConfigurationException;
use Symfony\Component\Console\Command\Command;
use Symfony\Component\DependencyInjection\Argument\ServiceClosureArgument;
use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\DependencyInjection\ContainerInterface;
use Symfony\Component\DependencyInjection\Definition;
use Symfony\Component\DependencyInjection\Extension\Extension;
use Symfony\Component\DependencyInjection\Reference;
use Symfony\Component\HttpKernel\KernelEvents;
use Symfony\Component\Lock\PersistingStoreInterface;

/** Makes the services. Which of the application's lock factories is replaced is left to LockFactoryPass. */
final class RedisLeaseExtension extends Extension
{
    /** The settings that are times, and their limits. */
    private const SECONDS = [
        'connect_timeout' => [0.001, 3600],
        'command_timeout' => [0.001, 3600],
        'ttl' => [0.01, 31536000],
        'lock_ttl' => [0.01, 31536000],
        'longest_wait' => [0, 31536000],
    ];

    public function load(array $configs, ContainerBuilder $container): void
    {
        $config = $this->processConfiguration(new Configuration(), $configs);

        self::check($config, $container);

        $settings = [$config['dsn'], $config['connect_timeout'], $config['command_timeout'], $config['prefix']];
        $connection = (new Definition(Connection::class, $settings))->setFactory([ConnectionFactory::class, 'create']);
        $container->setDefinition('redis_lease.connection', $connection);
        $container->setAlias(Connection::class, 'redis_lease.connection');

        $this->addHeld($container);
        $leases = [new Reference('redis_lease.connection'), $config['ttl'], new Reference('redis_lease.held')];
        $container->setDefinition('redis_lease.factory', new Definition(LeaseFactory::class, $leases))->setPublic(true);
        $container->setAlias(LeaseFactory::class, 'redis_lease.factory');

        if (interface_exists(PersistingStoreInterface::class)) {
            $this->addLockFactory($config, $container);
        }
        if (class_exists(Command::class)) {
            $this->addCommands($config, $container);
        }
    }

    /**
     * Here and not in Configuration, which would hold the zero against the rules that stands for a number of the
     * environment.
     *
     * @param array<string, mixed> $config
     */
    private static function check(array $config, ContainerBuilder $container): void
    {
        foreach (self::SECONDS as $setting => [$least, $most]) {
            $value = $config[$setting];
            // What is a string comes from the environment, at run time.
            if ((is_float($value) || is_int($value)) && !($value >= $least && $value <= $most)) {
                throw new InvalidConfigurationException(
                    "The setting redis_lease.$setting must be between $least and $most seconds, $value given.",
                );
            }
        }
        $lock = $config['lock'];
        $container->resolveEnvPlaceholders($lock, null, $ofEnvironment);
        if ((!is_string($lock) && $lock !== false && $lock !== null) || $lock === '' || (array) $ofEnvironment !== []) {
            throw new InvalidConfigurationException(
                'The setting redis_lease.lock must be the name of a lock factory, not of the environment, or false.',
            );
        }
    }

    /** What a request holds, or a message, and the events by which a worker that serves many tells of them. */
    private function addHeld(ContainerBuilder $container): void
    {
        $container->setDefinition('redis_lease.held', new Definition(HeldByRequest::class));
        $container->setAlias(HeldByRequest::class, 'redis_lease.held');
        $listener = new Definition(RequestListener::class, [
            new Reference('redis_lease.held'),
            new Reference('request_stack', ContainerInterface::NULL_ON_INVALID_REFERENCE),
        ]);
        $container->setDefinition('redis_lease.request_listener', $listener);
        // The first and the last to know.
        $hears = static fn (string $event, string $method): Definition => $listener->addTag('kernel.event_listener', [
            'event' => $event,
            'method' => $method,
            'priority' => str_starts_with($method, 'begin') ? 4096 : -4096,
        ]);
        foreach (['Received' => 'begin', 'Handled' => 'end', 'Failed' => 'end'] as $what => $method) {
            $hears("Symfony\\Component\\Messenger\\Event\\WorkerMessage{$what}Event", "{$method}Message");
        }
        if (class_exists(KernelEvents::class)) {
            $hears(KernelEvents::REQUEST, 'begin');
            $hears(KernelEvents::TERMINATE, 'end');
        }
    }

    /** @param array<string, mixed> $config */
    private function addLockFactory(array $config, ContainerBuilder $container): void
    {
        $store = [
            new Reference('redis_lease.connection'), $config['lock_ttl'], $config['longest_wait'],
            new Reference('redis_lease.held'),
        ];
        $container->setDefinition('redis_lease.lock_store', new Definition(LeaseStore::class, $store));
        $container->setAlias(LeaseStore::class, 'redis_lease.lock_store');

        $logger = new Reference('logger', ContainerInterface::IGNORE_ON_INVALID_REFERENCE);
        $factory = (new Definition(LockFactory::class, [new Reference('redis_lease.lock_store')]))
            ->addMethodCall('setLogger', [$logger])
            ->addTag('monolog.logger', ['channel' => 'lock']);
        $container->setDefinition('redis_lease.lock_factory', $factory);
        $container->setParameter('redis_lease.lock', $config['lock']);
    }

    /** @param array<string, mixed> $config */
    private function addCommands(array $config, ContainerBuilder $container): void
    {
        // A closure: lease:release needs no client, and it may have to do while that one cannot connect.
        $client = $config['client'] === null ? null : new ServiceClosureArgument(new Reference($config['client']));
        $arguments = [new Reference('redis_lease.factory'), $client, $config['prefix']];
        $container->setDefinition('redis_lease.inspector', new Definition(Inspector::class, $arguments));
        $commands = [
            'list' => ListCommand::class,
            'show' => ShowCommand::class,
            'release' => ReleaseCommand::class,
            'top' => TopCommand::class,
        ];
        // A closure: where the DSN is missing or wrong, the console still lists its commands.
        $inspector = new ServiceClosureArgument(new Reference('redis_lease.inspector'));
        foreach ($commands as $name => $class) {
            $command = (new Definition($class, [$inspector]))
                ->addTag('console.command', ['command' => "lease:$name"]);
            $container->setDefinition("redis_lease.command.$name", $command);
        }
    }
}
