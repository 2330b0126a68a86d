<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Symfony\DependencyInjection;

use Symfony\Component\Config\Definition\Builder\TreeBuilder;
use Symfony\Component\Config\Definition\ConfigurationInterface;

/** The keys under redis_lease. Where null is the default, the ini setting of that name counts. */
final class Configuration implements ConfigurationInterface
{
    public function getConfigTreeBuilder(): TreeBuilder
    {
        $tree = new TreeBuilder('redis_lease');
        $tree->getRootNode()
            ->children()
                ->scalarNode('dsn')->defaultNull()
                    ->info('Where the leases are: redis://host, several of them, redis+sentinel://…, redis+cluster://…')
                ->end()
                ->floatNode('connect_timeout')->defaultNull()->info('Seconds.')->end()
                ->floatNode('command_timeout')->defaultNull()->info('Seconds.')->end()
                ->scalarNode('prefix')->defaultNull()->info('Put before every resource.')->end()
                ->floatNode('ttl')->defaultNull()->info('Seconds, for native leases that name no TTL.')->end()
                ->scalarNode('lock')->defaultValue('default')
                    ->info('The lock factory to put on leases: "default", another name to add one, or false.')
                ->end()
                ->floatNode('lock_ttl')->defaultValue(300.0)->info('Seconds, for locks created with the TTL null.')->end()
                ->floatNode('longest_wait')->defaultValue(300.0)->info('Seconds that acquire(true) waits.')->end()
                ->scalarNode('client')->defaultNull()
                    ->info('The service of a Redis client for the same server, for lease:list and lease:top.')
                ->end()
            ->end();

        return $tree;
    }
}
