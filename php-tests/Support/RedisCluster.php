<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

use RuntimeException;

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

    /**
     * @param array<string, string> $settings of every server
     * @param string|null $password of every server
     * @param list<string> $users as in an ACL file, of every server
     */
    public static function start(
        int $primaries = 3,
        bool $hasReplicas = false,
        array $settings = [],
        ?string $password = null,
        array $users = [],
    ): self {
        if ($password !== null) {
            $settings += ['masterauth' => $password];
        }
        $start = static fn () => RedisServer::start(true, $password, aclUsers: $users, settings: $settings + [
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

    /** @param string $login as "user:password@" */
    public function dsn(string $login = ''): string
    {
        $hosts = array_map(static fn (RedisServer $server) => '127.0.0.1:' . $server->port(), $this->primaries);

        return "redis+cluster://$login" . implode(',', $hosts);
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

    /** @return array{RedisServer, RedisServer} the primary that owns this slot now, and the next one */
    public function sides(int $slot): array
    {
        foreach ($this->primaries as $place => $primary) {
            if (self::owner($slot, $primary) === $primary->port()) {
                return [$primary, $this->primaries[($place + 1) % count($this->primaries)]];
            }
        }
        throw new RuntimeException("nobody owns slot $slot");
    }

    /** Begins to move a slot. */
    public function open(int $slot, RedisServer $from, RedisServer $to): void
    {
        $to->command('CLUSTER', 'SETSLOT', $slot, 'IMPORTING', $from->command('CLUSTER', 'MYID'));
        $from->command('CLUSTER', 'SETSLOT', $slot, 'MIGRATING', $to->command('CLUSTER', 'MYID'));
    }

    /** Moves the keys of a slot that is being moved, one by one. */
    public function moveKeys(int $slot, RedisServer $from, RedisServer $to): void
    {
        while (($keys = $from->command('CLUSTER', 'GETKEYSINSLOT', $slot, 100)) !== []) {
            foreach ($keys as $key) {
                $from->command('MIGRATE', '127.0.0.1', $to->port(), '', 0, 5_000, 'KEYS', $key);
            }
        }
    }

    /** Ends the move of a slot; the new owner first, so that there is always one. */
    public function settle(int $slot, RedisServer $to): void
    {
        $id = $to->command('CLUSTER', 'MYID');
        foreach ([$to, ...array_filter($this->primaries, static fn (RedisServer $one) => $one !== $to)] as $server) {
            $server->command('CLUSTER', 'SETSLOT', $slot, 'NODE', $id);
        }
        // What a server said before may still be under way. It claims nothing once its epoch is known to be old.
        eventually(function () use ($slot, $to) {
            $epochs = [];
            foreach ($this->primaries as $server) {
                if (self::owner($slot, $server) !== $to->port()) {
                    return false;
                }
                preg_match('/cluster_current_epoch:(\d+)/', $server->command('CLUSTER', 'INFO'), $found);
                $epochs[] = $found[1];
            }

            return count(array_unique($epochs)) === 1;
        }, 'all servers know the new owner');
    }

    /** The port of the slot's owner, as this server knows it. */
    public static function owner(int $slot, RedisServer $server): ?int
    {
        foreach ($server->command('CLUSTER', 'SLOTS') as [$first, $last, [, $port]]) {
            if ($first <= $slot && $slot <= $last) {
                return $port;
            }
        }

        return null;
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
        foreach ($this->primaries as $primary) {
            $primary->awaitReplicas($this->replicas === [] ? 0 : 1);
        }
    }
}
