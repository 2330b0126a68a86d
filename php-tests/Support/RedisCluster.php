<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

/** A Redis Cluster of primaries, each with as many replicas as asked for, on free TCP ports. */
final class RedisCluster
{
    private const SLOTS = 16_384;

    /**
     * @param list<RedisServer> $primaries
     * @param list<RedisServer> $replicas the replica of the first primary first
     */
    private function __construct(public readonly array $primaries, public readonly array $replicas)
    {
    }

    /** @param array<string, string> $settings of every server */
    public static function start(int $primaries = 3, bool $hasReplicas = false, array $settings = []): self
    {
        $start = static fn () => RedisServer::start(tcp: true, settings: $settings + [
            'cluster-enabled' => 'yes',
            'cluster-config-file' => 'nodes.conf',
            'cluster-port' => (string) RedisServer::freePort(),
            'cluster-node-timeout' => '1000',
            'cluster-replica-validity-factor' => '0',
            'repl-diskless-sync-delay' => '0',
        ]);
        $cluster = new self(
            array_map($start, range(1, $primaries)),
            $hasReplicas ? array_map($start, range(1, $primaries)) : [],
        );
        $cluster->join();

        return $cluster;
    }

    /** @return list<RedisServer> */
    public function servers(): array
    {
        return [...$this->primaries, ...$this->replicas];
    }

    /** The primary that the slot of this key was given to at first. */
    public function primaryOf(string $key): RedisServer
    {
        return $this->primaries[intdiv(KeySlot::of($key) * count($this->primaries), self::SLOTS)];
    }

    public function dsn(): string
    {
        $hosts = array_map(static fn (RedisServer $server) => '127.0.0.1:' . $server->port(), $this->primaries);

        return 'redis+cluster://' . implode(',', $hosts);
    }

    public function stop(): void
    {
        foreach ($this->servers() as $server) {
            $server->stop();
        }
    }

    /** Whether every server knows of every slot's owner. */
    public function isWhole(): bool
    {
        foreach ($this->servers() as $server) {
            if (!str_contains((string) $server->command('CLUSTER', 'INFO'), 'cluster_state:ok')) {
                return false;
            }
        }

        return true;
    }

    private function join(): void
    {
        $count = count($this->primaries);
        foreach ($this->primaries as $place => $primary) {
            // The first slot that intdiv(slot * count, SLOTS) gives to this place.
            $first = intdiv($place * self::SLOTS + $count - 1, $count);
            $last = intdiv(($place + 1) * self::SLOTS + $count - 1, $count) - 1;
            $primary->command('CLUSTER', 'ADDSLOTSRANGE', $first, $last);
            $primary->command('CLUSTER', 'SET-CONFIG-EPOCH', $place + 1);
        }
        foreach (array_slice($this->servers(), 1) as $server) {
            $bus = $server->command('CONFIG', 'GET', 'cluster-port')[1];
            $this->primaries[0]->command('CLUSTER', 'MEET', '127.0.0.1', $server->port(), $bus);
        }
        $all = count($this->servers());
        eventually(function () use ($all) {
            foreach ($this->servers() as $server) {
                if (!str_contains((string) $server->command('CLUSTER', 'INFO'), "cluster_known_nodes:$all")) {
                    return false;
                }
            }

            return true;
        }, 'all servers of the cluster have met', 30.0);
        foreach ($this->replicas as $place => $replica) {
            $replica->command('CLUSTER', 'REPLICATE', $this->primaries[$place]->command('CLUSTER', 'MYID'));
        }
        eventually($this->isWhole(...), 'the cluster is whole', 30.0);
        foreach ($this->replicas as $replica) {
            eventually(
                static fn () => str_contains((string) $replica->command('INFO', 'replication'), 'master_link_status:up'),
                'the replica follows its primary',
                30.0,
            );
        }
    }
}
