<?php

declare(strict_types=1);

namespace RedisLease\Tests\torture;

use Random\Engine\Mt19937;
use Random\Randomizer;
use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\PhpProcess;
use RedisLease\Tests\Support\RedisServer;

use function RedisLease\Tests\Support\eventually;

/**
 * A torture run: workers that take locks in every way, while they are killed, stopped and forked, and the server and the
 * network fail. The same seed makes the same choices; the machine decides how they meet.
 */
final class Run
{
    private const RESOURCES = ['order', 'stock', 'cart', '{mail}'];
    private const TIMEOUT = 0.15;
    /** Seconds; shorter with several nodes, since as long a restarted one must not grant anything. */
    private const LONGEST_TTL = 2.0;
    private const LONGEST_TTL_ON_NODES = 1.0;
    private const RESTART_GUARD = 1.2;

    private readonly Randomizer $random;
    private readonly string $directory;
    private readonly float $longestTtl;
    /** @var list<array{RedisServer, string, FaultProxy}> */
    private array $nodes = [];
    private readonly Events $events;
    private readonly ?Failovers $group;
    /** @var list<PhpProcess> */
    private array $workers = [];
    /** @var array<int, array{float, int, PhpProcess}> when to continue a stopped worker, since when it stands, which */
    private array $stopped = [];

    /**
     * @param int $count how many servers; several are the nodes of a quorum
     * @param (callable(Randomizer, Events): Failovers)|null $group servers that replace one another, in place of these
     */
    public function __construct(
        int $seed,
        private readonly float $seconds,
        private readonly int $number = 8,
        private readonly int $count = 1,
        ?callable $group = null,
    ) {
        $this->random = new Randomizer(new Mt19937($seed));
        $this->directory = Janitor::directory('.torture');
        $this->longestTtl = $count === 1 ? self::LONGEST_TTL : self::LONGEST_TTL_ON_NODES;
        for ($place = 0; $place < $count && $group === null; $place++) {
            $data = Janitor::directory('.data');
            // What was answered survives a kill: it is in the file before the answer is sent.
            $server = RedisServer::start(settings: ['dir' => $data, 'appendonly' => 'yes', 'appendfsync' => 'no']);
            $this->nodes[] = [$server, $data, FaultProxy::start($server)];
        }
        $this->events = new Events($this->directory);
        $this->group = $group === null ? null : $group($this->random, $this->events);
    }

    /** @return list<array<string, mixed>> all that happened */
    public function history(): array
    {
        $this->events->note(['e' => 'nodes', 'count' => $this->count]);
        $chaos = $this->group ?? new Chaos($this->random, $this->nodes, $this->events);
        $observers = [];
        foreach ($this->nodes as $place => [$server]) {
            $look = ['socket' => $server->socket(), 'directory' => $this->directory, 'resources' => self::RESOURCES, 'node' => $place];
            $observers[] = PhpProcess::start([__DIR__ . '/observer.php', self::packed($look)], extension: false);
        }
        if ($this->count > 1) {
            $granting = microtime(true) + self::RESTART_GUARD + 1.0;
            eventually(static fn () => microtime(true) > $granting, 'all nodes grant');
        }
        $end = microtime(true) + $this->seconds;
        $strike = microtime(true) + 0.3;
        while (($now = microtime(true)) < $end) {
            while (count($this->workers) < $this->number) {
                $this->workers[] = $this->worker();
            }
            $this->continueSome();
            $chaos->mend();
            if ($now >= $strike) {
                $this->random->getInt(0, 2) === 0 ? $chaos->strike() : $this->strikeAWorker();
                $strike = $now + $this->random->getInt(20, 250) / 1000;
            }
            $this->bury();
            usleep(2_000);
        }
        $this->calmDown($chaos);
        touch($this->directory . '/seen');
        foreach ($observers as $observer) {
            $observer->wait();
            $this->events->note(['e' => 'observer', 'errors' => $observer->errors()]);
        }
        foreach ($this->nodes as [$server, , $proxy]) {
            $proxy->stop();
            $server->stop();
        }
        $this->group?->stop();

        return $this->events->all();
    }

    private function worker(): PhpProcess
    {
        return PhpProcess::start([__DIR__ . '/worker.php', self::packed([
            'seed' => $this->random->getInt(0, PHP_INT_MAX >> 32),
            'directory' => $this->directory, 'resources' => self::RESOURCES,
            'dsns' => [$this->dsn(0), $this->dsn(PHP_INT_MAX), $this->dsn(PHP_INT_MAX)], 'timeout' => self::TIMEOUT,
            'longest' => (int) ($this->longestTtl * 1000),
        ])], ['redis_lease.dsn' => 'unix:///dev/null/no-redis']);
    }

    /** @param int $proxied how many of the nodes are reached through their proxies */
    private function dsn(int $proxied): string
    {
        if ($this->group !== null) {
            return $this->group->dsn();
        }
        $words = [];
        foreach ($this->nodes as $place => [$server, , $proxy]) {
            $words[] = $place < $proxied ? $proxy->dsn() : $server->dsn();
        }

        return implode(' ', $words) . ($this->count > 1 ? '?restart_guard=' . self::RESTART_GUARD : '');
    }

    private function strikeAWorker(): void
    {
        $worker = $this->workers[$this->random->getInt(0, count($this->workers) - 1)];
        if ($this->random->getInt(0, 2) === 0) {
            $this->events->note(['e' => 'kill', 'pid' => $worker->pid()]);
            $worker->signal(SIGKILL);
        } elseif (!isset($this->stopped[$worker->pid()])) {
            // Past its lease, as a rule.
            $this->stopped[$worker->pid()] = [microtime(true) + $this->random->getInt(20, 2500) / 1000, hrtime(true), $worker];
            $worker->signal(SIGSTOP);
        }
    }

    private function continueSome(bool $all = false): void
    {
        foreach ($this->stopped as $pid => [$due, $since, $worker]) {
            if ($all || $due <= microtime(true)) {
                unset($this->stopped[$pid]);
                $worker->signal(SIGCONT);
                $this->events->note(['e' => 'stopped', 'pid' => $pid, 't0' => $since]);
            }
        }
    }

    /** Takes workers away that have ended, and tells of those that ended otherwise than they should. */
    private function bury(): void
    {
        foreach ($this->workers as $index => $worker) {
            if (!$worker->isRunning()) {
                unset($this->workers[$index]);
                $code = $worker->wait();
                if (!in_array($code, [0, 128 + SIGKILL], true) || $worker->errors() !== '') {
                    $this->events->note(['e' => 'bad', 'what' => "a worker ended with $code: {$worker->everything()}"]);
                }
                $this->events->note(['e' => 'died', 'pid' => $worker->pid()]);
            }
        }
        $this->workers = array_values($this->workers);
    }

    /** No more mishaps: the workers end, and every lock has to be free in time. */
    private function calmDown(Chaos|Failovers $chaos): void
    {
        $this->continueSome(all: true);
        $chaos->mend(all: true);
        $this->events->note(['e' => 'calm']);
        touch($this->directory . '/stop');
        eventually(function (): bool {
            $this->bury();

            return $this->workers === [];
        }, 'the workers end when they are told to', 10.0);
        $until = microtime(true) + $this->longestTtl + 1.1;
        eventually(fn () => $this->allFree() || microtime(true) > $until, 'the locks are free');
        $this->events->note(['e' => 'end of run', 'free' => $this->allFree()]);
    }

    private function allFree(): bool
    {
        if ($this->group !== null) {
            return $this->group->areFree(self::RESOURCES);
        }
        foreach ($this->nodes as [$server]) {
            foreach (self::RESOURCES as $resource) {
                if (!str_starts_with($server->command('GET', "lock:$resource") ?? 'reserved:', 'reserved:')) {
                    return false;
                }
            }
        }

        return true;
    }

    private static function packed(array $args): string
    {
        return base64_encode(json_encode($args, JSON_THROW_ON_ERROR));
    }
}
