<?php

declare(strict_types=1);

namespace RedisLease\Tests\torture;

use Random\Randomizer;
use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\RedisServer;

/**
 * What befalls the servers and the network: one mishap after another, each written down with its begin and its end. Of
 * several servers only one is in trouble at a time, with its part of the network.
 */
final class Chaos
{
    /** @var list<array{float, callable}> what is to be ended, and when */
    private array $pending = [];
    private bool $serverIsAway = false;
    private bool $networkIsAway = false;
    private RedisServer $server;
    private string $data;
    private FaultProxy $proxy;

    /**
     * @param list<array{RedisServer, string, FaultProxy}> $nodes each server, where its data is, and its proxy
     */
    public function __construct(
        private readonly Randomizer $random,
        private readonly array $nodes,
        private readonly Events $events,
    ) {
    }

    public function strike(): void
    {
        if (!$this->serverIsAway && !$this->networkIsAway) {
            [$this->server, $this->data, $this->proxy] = $this->nodes[$this->random->getInt(0, count($this->nodes) - 1)];
        }
        $mishap = $this->random->getInt(0, 9);
        if (count($this->nodes) > 1 && in_array($mishap, [2, 3], true) && $this->random->getInt(0, 2) > 0) {
            // A restarted node is of no use for a while, and at most one at a time is to be so, as a rule.
            $mishap = 0;
        }
        if ($mishap < 4 && !$this->serverIsAway) {
            match ($mishap) {
                0, 1 => $this->stopServer(),
                2 => $this->restartServer(keepData: true),
                3 => $this->restartServer(keepData: false),
            };
        } elseif ($mishap >= 4 && !$this->networkIsAway) {
            match ($mishap) {
                4, 5 => $this->cut(),
                6, 7 => $this->hold(),
                8 => $this->refuse(),
                9 => $this->delay(),
            };
        }
    }

    /** Ends what has lasted long enough; with $all everything. */
    public function mend(bool $all = false): void
    {
        $now = microtime(true);
        foreach ($this->pending as $index => [$due, $mend]) {
            if ($all || $due <= $now) {
                unset($this->pending[$index]);
                $mend();
            }
        }
    }

    private function stopServer(): void
    {
        $this->serverIsAway = true;
        $begun = hrtime(true);
        $this->server->pause();
        $this->later(30, 700, function () use ($begun): void {
            $this->server->resume();
            $this->serverIsAway = false;
            $this->events->note(['e' => 'away', 'what' => 'server stopped', 't0' => $begun]);
        });
    }

    private function restartServer(bool $keepData): void
    {
        $this->serverIsAway = true;
        $begun = hrtime(true);
        $this->server->kill();
        if (!$keepData) {
            Janitor::remove($this->data);
            mkdir($this->data, 0700);
        }
        $this->later(0, 300, function () use ($begun, $keepData): void {
            $this->server->restart(keepData: true);
            $this->serverIsAway = false;
            $this->events->note(['e' => $keepData ? 'away' : 'lost data', 'what' => 'server killed', 't0' => $begun]);
        });
    }

    private function cut(): void
    {
        $this->proxy->cut($this->random->getInt(0, 1) === 0 ? 'fin' : 'reset', awaitsServer: false);
        $this->events->note(['e' => 'cut']);
    }

    /** Commands are kept back, and delivered late: at times when their senders are long gone. */
    private function hold(): void
    {
        $this->networkIsAway = true;
        $begun = hrtime(true);
        $direction = ['request', 'reply'][$this->random->getInt(0, 1)];
        $this->proxy->hold($direction);
        $this->later(50, 1500, function () use ($begun): void {
            $late = $this->proxy->deliver(awaitsServer: false);
            $this->networkIsAway = false;
            $this->events->note(['e' => 'away', 'what' => 'network held', 't0' => $begun, 'late' => count($late)]);
        });
    }

    private function refuse(): void
    {
        $this->networkIsAway = true;
        $begun = hrtime(true);
        $this->proxy->newConnections(['refuse', 'reject', 'hang'][$this->random->getInt(0, 2)]);
        $this->proxy->cut(awaitsServer: false);
        $this->later(30, 500, function () use ($begun): void {
            $this->proxy->newConnections('pass');
            $this->proxy->deliver(awaitsServer: false);
            $this->networkIsAway = false;
            $this->events->note(['e' => 'away', 'what' => 'network refused', 't0' => $begun]);
        });
    }

    private function delay(): void
    {
        $this->networkIsAway = true;
        $begun = hrtime(true);
        $this->proxy->delay($this->random->getInt(0, 60) / 1000, $this->random->getInt(0, 60) / 1000);
        $this->later(100, 600, function () use ($begun): void {
            $this->proxy->delay(0.0, 0.0);
            $this->networkIsAway = false;
            $this->events->note(['e' => 'away', 'what' => 'network slow', 't0' => $begun]);
        });
    }

    private function later(int $least, int $most, callable $mend): void
    {
        $this->pending[] = [microtime(true) + $this->random->getInt($least, $most) / 1000, $mend];
    }
}
