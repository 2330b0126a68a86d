<?php

declare(strict_types=1);

namespace RedisLease\Bench;

use RedisLease\Tests\Support\RedisServer;

/** What all parts of a run share. */
final class Contest
{
    public const OURS = 'redis_lease';
    public const SLEEPING = 'redis_lease, spin=0';
    public const UNCOUNTED = 'redis_lease, metrics=0';
    public const ANEW = 'redis_lease, new object each';
    public const RAW = 'phpredis by hand';
    public const SYMFONY = 'Symfony Lock';
    public const SYMFONY_KEPT = 'Symfony Lock, one object';
    public const LARAVEL = 'Laravel cache lock';
    public const SYMFONY_ON_LEASES = 'Symfony Lock on leases';
    public const LARAVEL_ON_LEASES = 'Laravel cache lock on leases';
    /** The frameworks' locks with this project underneath, and ours without counting: they have parts of their own. */
    public const APART = [self::SYMFONY_ON_LEASES, self::LARAVEL_ON_LEASES, self::UNCOUNTED];

    /** @var array<string, class-string<Peer>> */
    public const PEERS = [
        self::RAW => Peer\PhpRedis::class,
        'Predis by hand' => Peer\Predis::class,
        self::SYMFONY => Peer\Symfony::class,
        self::SYMFONY_KEPT => Peer\SymfonyKept::class,
        self::LARAVEL => Peer\Laravel::class,
        'php-lock' => Peer\PhpLock::class,
        self::OURS => Peer\Ours::class,
        self::SLEEPING => Peer\Ours::class,
        self::UNCOUNTED => Peer\Ours::class,
        self::ANEW => Peer\OursAnew::class,
        self::SYMFONY_ON_LEASES => Peer\SymfonyOnLeases::class,
        self::LARAVEL_ON_LEASES => Peer\LaravelOnLeases::class,
    ];

    public readonly RedisServer $server;
    public readonly Address $tcp;
    public readonly Address $unix;
    public readonly Report $report;
    public readonly Bars $bars;
    public readonly Chart $chart;
    private int $locks = 0;

    /** @param bool $isQuick fewer rounds: a look, not a result */
    public function __construct(public readonly bool $isQuick, public readonly string $floor)
    {
        $this->server = RedisServer::start(tcp: true);
        $this->tcp = new Address('127.0.0.1:' . $this->server->port());
        $this->unix = new Address($this->server->socket());
        $this->report = new Report();
        $this->bars = new Bars();
        $this->chart = new Chart();
    }

    /** The number for a run that counts, or the one for a look. */
    public function rounds(int $full, int $quick): int
    {
        return $this->isQuick ? $quick : $full;
    }

    /** A lock that nothing else uses; all names are of one length. */
    public function name(): string
    {
        return sprintf('bench-%03d', ++$this->locks);
    }

    /** A worker of the peer of that title, or null when the peer is absent. */
    public function worker(string $title, Address $address, ?string $name = null): ?Process
    {
        $peer = self::PEERS[$title];
        $ini = [self::SLEEPING => ['redis_lease.spin' => '0'], self::UNCOUNTED => ['redis_lease.metrics' => '0']][$title] ?? [];

        return $peer::isThere() ? Process::worker($peer, $address, $name ?? $this->name(), $ini) : null;
    }

    /**
     * One worker for each title, on a lock of its own each.
     *
     * @param list<string> $titles
     * @return array<string, Process>
     */
    public function workers(array $titles, Address $address): array
    {
        $workers = [];
        foreach ($titles as $title) {
            $workers[$title] = $this->worker($title, $address);
        }

        return array_filter($workers);
    }

    /**
     * Several workers for each title that is there, all on one lock.
     *
     * @param list<string> $titles
     * @return array<string, list<Process>>
     */
    public function crowds(array $titles, int $size): array
    {
        $crowds = [];
        foreach (array_filter($titles, static fn ($title) => self::PEERS[$title]::isThere()) as $title) {
            $name = $this->name();
            for ($i = 0; $i < $size; $i++) {
                $crowds[$title][] = $this->worker($title, $this->tcp, $name);
            }
            // Connected, and known to the server's script cache.
            foreach ($crowds[$title] as $worker) {
                $worker->tell('cycles 1');
                $worker->line();
            }
        }

        return $crowds;
    }

    /**
     * Uncontended cycles of all of them, in interleaved rounds.
     *
     * @param array<string, Process> $processes
     * @param array{int, int}|null $cores for the server and for the clients; null: where the scheduler puts them
     * @param int $times so many times the usual rounds
     */
    public function cycles(array $processes, ?array $cores, int $times = 1): Rounds
    {
        foreach ($cores === null ? [] : $processes as $process) {
            // Not before its first cycle: who finds itself on one processor from the start does not spin at all.
            $process->tell('cycles 1');
            $process->line();
            Machine::pin($process->pid, $cores[1]);
        }
        $cores === null || Machine::pin($this->server->pid(), $cores[0]);
        try {
            return new Rounds(
                $this->server,
                $processes,
                $this->rounds(25, 9) * $times,
                $this->rounds(300, 100),
                watchesOthers: !$this->isQuick,
            );
        } finally {
            $cores === null || Machine::pin($this->server->pid(), null);
        }
    }
}
