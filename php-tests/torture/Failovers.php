<?php

declare(strict_types=1);

namespace RedisLease\Tests\torture;

use Random\Randomizer;
use RedisLease\Tests\Support\RedisServer;
use RuntimeException;

use function RedisLease\Tests\Support\eventually;

/**
 * What befalls servers of which one replaces another: a primary is killed or hangs, its replica is promoted, and it comes
 * back as a replica. Replication is asynchronous: what was granted shortly before may be lost with the old primary.
 */
abstract class Failovers
{
    /** Nanoseconds before a mishap in which what was granted may not be on the replica yet. */
    private const BEHIND = 300_000_000;

    private ?RedisServer $away = null;
    private ?RedisServer $returning = null;
    private int $struck = 0;
    /** Until then all is left in peace, for there to be something that can be lost. */
    private float $peace = 0.0;
    /** @var list<RedisServer> the primaries, when there was last one for each lock */
    private array $last = [];
    private int $lastSeen = 0;
    /** Since when there are too few or too many. */
    private ?int $lostSince = null;

    public function __construct(private readonly Randomizer $random, private readonly Events $events)
    {
    }

    abstract public function dsn(): string;

    abstract public function stop(): void;

    /** @return list<RedisServer> */
    abstract protected function servers(): array;

    /** How many primaries there are to be. */
    abstract protected function count(): int;

    /** @return list<RedisServer> the primaries of the moment */
    abstract protected function primaries(): array;

    /** Whether everybody knows that another server is in its place. */
    abstract protected function isReplaced(RedisServer $old): bool;

    /** Starts it again, without its data. */
    abstract protected function bringBack(RedisServer $old): void;

    /** Whether every replica has caught up, so that the next primary can be lost. */
    abstract protected function isWhole(): bool;

    public function strike(): void
    {
        if ($this->away !== null || $this->returning !== null || microtime(true) < $this->peace) {
            return;
        }
        $primaries = $this->primaries();
        $this->away = $primaries[$this->random->getInt(0, count($primaries) - 1)];
        $this->struck = hrtime(true);
        // It never answers again, so that this is all that it can take with it.
        $this->random->getInt(0, 1) === 0 ? $this->away->kill() : $this->away->pause();
    }

    /** Goes on with what has been struck; with $all until nothing is left of it. */
    public function mend(bool $all = false): void
    {
        $this->watch();
        if ($this->away !== null && $this->isReplaced($this->away)) {
            $this->returning = $this->away;
            $this->away = null;
            // Else it would go on as the primary that it was, for whoever is still connected to it.
            if ($this->returning->isRunning()) {
                $this->returning->kill();
            }
            $this->events->note(['e' => 'away', 'what' => 'primary replaced', 't0' => $this->struck]);
            $this->bringBack($this->returning);
        }
        if ($this->returning !== null && $this->isWhole()) {
            $this->returning = null;
            $this->peace = microtime(true) + $this->random->getInt(200, 2500) / 1000;
        }
        if ($all) {
            eventually(function (): bool {
                $this->mend();

                return $this->away === null && $this->returning === null && $this->lostSince === null;
            // A sentinel that a busy machine kept from running for two seconds does nothing for thirty (TILT).
            }, 'the last failover is over', 90.0);
        }
    }

    /**
     * Notes the times in which not every lock has its one primary: between the loss of one and the promotion of
     * another, and when two think that they are it, which happens to sentinels that do not agree.
     */
    private function watch(): void
    {
        $found = array_values(array_filter($this->servers(), $this->saysThatItIsPrimary(...)));
        $this->last = $this->last === [] ? $found : $this->last;
        if ($found === $this->last && $this->lostSince === null) {
            $this->lastSeen = hrtime(true);

            return;
        }
        $this->lostSince ??= $this->lastSeen - self::BEHIND;
        if (count($found) === $this->count()) {
            $this->events->note(['e' => 'lost data', 'what' => 'other primaries', 't0' => $this->lostSince]);
            [$this->last, $this->lostSince, $this->lastSeen] = [$found, null, hrtime(true)];
        }
    }

    protected function saysThatItIsPrimary(RedisServer $server): bool
    {
        try {
            return $server !== $this->away && $server->isRunning() && $server->connect()->command('ROLE')[0] === 'master';
        } catch (RuntimeException) {
            return false;
        }
    }

    /** @param list<string> $resources */
    public function areFree(array $resources): bool
    {
        foreach ($this->primaries() as $primary) {
            // Whoever was promoted has ended all connections.
            $client = $primary->connect();
            foreach ($resources as $resource) {
                if ($this->isOn($resource, $primary)
                    && !str_starts_with($client->command('GET', "lock:$resource") ?? 'reserved:', 'reserved:')) {
                    return false;
                }
            }
        }

        return true;
    }

    protected function isOn(string $resource, RedisServer $primary): bool
    {
        return true;
    }
}
