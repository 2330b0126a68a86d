<?php

declare(strict_types=1);

namespace RedisLease\Tests\torture;

use Random\Randomizer;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\Sentinels;
use RuntimeException;

use function RedisLease\Tests\Support\eventually;

/** A primary and two replicas, watched by three sentinels. */
final class SentinelFailovers extends Failovers
{
    private readonly Sentinels $group;

    public function __construct(Randomizer $random, Events $events)
    {
        parent::__construct($random, $events);
        $this->group = Sentinels::start();
    }

    public function dsn(): string
    {
        return $this->group->dsn();
    }

    public function stop(): void
    {
        $this->group->stop();
    }

    protected function servers(): array
    {
        return $this->group->servers;
    }

    protected function count(): int
    {
        return 1;
    }

    protected function primaries(): array
    {
        return [$this->group->primary()];
    }

    protected function isReplaced(RedisServer $old): bool
    {
        return $this->group->agreed() !== $old && $this->group->agreed() !== null;
    }

    protected function bringBack(RedisServer $old): void
    {
        $old->restart(keepData: false);
        eventually(function () use ($old): bool {
            try {
                // A sentinel may say the same, and end all connections.
                return $old->connect()->command('REPLICAOF', '127.0.0.1', $this->group->primary()->port()) !== null;
            } catch (RuntimeException) {
                return false;
            }
        }, 'the old primary follows the new one');
    }

    protected function isWhole(): bool
    {
        $role = $this->group->primary()->connect()->command('ROLE');

        return $role[0] === 'master' && count($role[2]) === count($this->group->servers) - 1;
    }
}
