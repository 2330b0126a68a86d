<?php

declare(strict_types=1);

namespace RedisLease\Tests\torture;

use Random\Randomizer;
use RedisLease\Tests\Support\KeySlot;
use RedisLease\Tests\Support\RedisCluster;
use RedisLease\Tests\Support\RedisServer;

/** A cluster of three primaries with a replica each. */
final class ClusterFailovers extends Failovers
{
    private readonly RedisCluster $cluster;

    public function __construct(Randomizer $random, Events $events)
    {
        parent::__construct($random, $events);
        $this->cluster = RedisCluster::start(hasReplicas: true);
    }

    public function dsn(): string
    {
        return $this->cluster->dsn();
    }

    public function stop(): void
    {
        $this->cluster->stop();
    }

    protected function servers(): array
    {
        return $this->cluster->servers();
    }

    protected function count(): int
    {
        return count($this->cluster->primaries);
    }

    protected function primaries(): array
    {
        return array_values(array_filter($this->cluster->servers(), $this->saysThatItIsPrimary(...)));
    }

    protected function isReplaced(RedisServer $old): bool
    {
        foreach ($this->cluster->servers() as $server) {
            if ($server !== $old && !str_contains($server->command('CLUSTER', 'INFO'), 'cluster_state:ok')) {
                return false;
            }
        }

        return $this->partner($old)->command('ROLE')[0] === 'master';
    }

    protected function bringBack(RedisServer $old): void
    {
        $old->restart(keepData: false);
    }

    protected function isWhole(): bool
    {
        $primaries = $this->primaries();
        foreach ($primaries as $primary) {
            $role = $primary->command('ROLE');
            if ($role[0] !== 'master' || count($role[2]) !== 1) {
                return false;
            }
        }

        return count($primaries) === count($this->cluster->primaries) && $this->cluster->isWhole();
    }

    protected function isOn(string $resource, RedisServer $primary): bool
    {
        return RedisCluster::owner(KeySlot::of("lock:$resource"), $primary) === $primary->port();
    }

    /** The other server with the same slots. */
    private function partner(RedisServer $one): RedisServer
    {
        foreach ($this->cluster->primaries as $place => $primary) {
            $pair = [$primary, $this->cluster->replicas[$place]];
            $index = array_search($one, $pair, true);
            if ($index !== false) {
                return $pair[1 - $index];
            }
        }
        throw new \LogicException('a server of another cluster');
    }
}
