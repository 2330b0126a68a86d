<?php

declare(strict_types=1);

namespace RedisLease\Bench;

use RedisLease\Tests\Support\RedisServer;

/** What all parts of a run share. */
final class Contest
{
    public const OURS = 'redis_lease';
    public const SLEEPING = 'redis_lease, spin=0';
    public const ANEW = 'redis_lease, new object each';
    public const RAW = 'phpredis by hand';
    public const SYMFONY = 'Symfony Lock';
    public const SYMFONY_KEPT = 'Symfony Lock, one object';
    public const LARAVEL = 'Laravel cache lock';

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
        self::ANEW => Peer\OursAnew::class,
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
        $ini = $title === self::SLEEPING ? ['redis_lease.spin' => '0'] : [];

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
}
