<?php

declare(strict_types=1);

namespace RedisLease\Bench;

use RedisLease\Tests\Support\RedisServer;

/** Five independent nodes: all well, some of them hung or dead, and all of them far away. */
final class Quorum
{
    private const NODES = 5;
    /** As peers are set up, and as Symfony's store was measured: seconds. */
    private const TIMEOUT = '0.2';

    private const SINGLE = 'redis_lease, one node on a core of its own';
    private const SINGLE_PLACED = 'redis_lease, one node, where the scheduler puts it';
    private const OURS = 'redis_lease, five nodes';
    private const SYMFONY = 'Symfony CombinedStore, five nodes';

    /** @var list<RedisServer> */
    private array $servers = [];
    /** @var array<string, list<float>> µs per cycle by row, a round each */
    private array $samples = [];

    public function __construct(private readonly Contest $contest)
    {
    }

    public function run(): void
    {
        for ($i = 0; $i < self::NODES; $i++) {
            $this->servers[] = RedisServer::start(tcp: true);
        }
        $rounds = $this->contest->rounds(21, 7);
        $ours = $this->worker(Peer\OursOnNodes::class, $this->addresses());
        $single = $this->worker(Peer\Ours::class, [$this->addresses()[0]]);
        $symfony = Peer\SymfonyCombined::isThere()
            ? $this->worker(Peer\SymfonyCombined::class, $this->addresses())
            : null;
        $dead = [];
        foreach ([1, 2] as $count) {
            $dead[$count] = $this->worker(Peer\OursOnNodes::class, [
                ...array_slice($this->addresses(), 0, self::NODES - $count),
                ...array_map(static fn () => '127.0.0.1:' . self::deafPort(), range(1, $count)),
            ]);
        }
        for ($round = -2; $round < $rounds; $round++) {
            $this->cycles(self::SINGLE_PLACED, $single, 200, $round);
            $this->apart($single, fn () => $this->cycles(self::SINGLE, $single, 200, $round));
            $this->firstAndNext(self::OURS, $ours, $round);
            if ($symfony !== null) {
                $this->cycles(self::SYMFONY, $symfony, 50, $round);
            }
            foreach ([1, 2] as $count) {
                $this->firstAndNext(self::OURS . ", $count dead", $dead[$count], $round);
                $hung = array_slice($this->servers, -$count);
                array_walk($hung, static fn (RedisServer $server) => posix_kill($server->pid(), SIGSTOP));
                $this->firstAndNext(self::OURS . ", $count hung", $ours, $round);
                array_walk($hung, static fn (RedisServer $server) => posix_kill($server->pid(), SIGCONT));
                // Until the node has done what had been queued for it.
                $this->cycles('', $ours, 50, -1);
                usleep(20_000);
                $this->cycles('', $ours, 50, -1);
            }
        }
        if ($symfony !== null) {
            array_map($this->symfonyHung(...), [1, 2]);
        }
        $this->report($rounds);
        $this->far();
    }

    /** The single node's server and its client on a core each, as five nodes cannot be. */
    private function apart(Process $client, callable $measure): void
    {
        $cores = Machine::twoCores();
        $server = $this->servers[0]->pid();
        if ($cores === null) {
            $measure();

            return;
        }
        Machine::pin($server, $cores[0]);
        Machine::pin($client->pid, $cores[1]);
        $measure();
        Machine::pin($server, null);
        Machine::pin($client->pid, null);
    }

    /** A client whose connections stood when the nodes hung: after that, phpredis does not use them any more. */
    private function symfonyHung(int $count): void
    {
        $symfony = $this->worker(Peer\SymfonyCombined::class, $this->addresses());
        $this->cycles('', $symfony, 20, -1);
        $hung = array_slice($this->servers, -$count);
        array_walk($hung, static fn (RedisServer $server) => posix_kill($server->pid(), SIGSTOP));
        $this->cycles(self::SYMFONY . ", $count hung, first cycle", $symfony, 1, 0);
        array_walk($hung, static fn (RedisServer $server) => posix_kill($server->pid(), SIGCONT));
    }

    /** @param list<string> $addresses */
    private function worker(string $peer, array $addresses, string $timeout = self::TIMEOUT): Process
    {
        return Process::worker($peer, new Address(implode(',', $addresses)), $this->contest->name(), [
            'redis_lease.spin' => '0',
            'redis_lease.connect_timeout' => $timeout,
            'redis_lease.command_timeout' => $timeout,
        ]);
    }

    /** @return list<string> */
    private function addresses(): array
    {
        return array_map(static fn (RedisServer $server) => '127.0.0.1:' . $server->port(), $this->servers);
    }

    /** A port on which nobody listens. */
    private static function deafPort(): int
    {
        $socket = stream_socket_server('tcp://127.0.0.1:0');
        $port = (int) substr(strrchr(stream_socket_get_name($socket, false), ':'), 1);
        fclose($socket);

        return $port;
    }

    private function cycles(string $row, Process $process, int $count, int $round): void
    {
        $process->tell("cycles $count");
        [$wall] = explode(' ', $process->line());
        if ($round >= 0) {
            $this->samples[$row][] = $wall / 1e3 / $count;
        }
    }

    /** The first cycle after a pause, and those that follow. */
    private function firstAndNext(string $row, Process $process, int $round): void
    {
        usleep(5_000);
        $this->cycles("$row, first cycle", $process, 1, $round);
        $this->cycles($row, $process, 100, $round);
    }

    /** The median, over the rounds, of the ratio of two rows. */
    private function ratio(string $row, string $to): ?float
    {
        if (!isset($this->samples[$row], $this->samples[$to])) {
            return null;
        }

        return Stats::median(array_map(
            static fn (float $one, float $other) => $one / $other,
            array_slice($this->samples[$row], 0, count($this->samples[$to])),
            array_slice($this->samples[$to], 0, count($this->samples[$row])),
        ));
    }

    private function report(int $rounds): void
    {
        $this->contest->report->section(
            'Five independent nodes',
            "TCP loopback, spin=0, time-outs 200 ms; $rounds rounds of 100 cycles of ours. Hung nodes are stopped, on dead "
            . 'ones nobody listens. Ratios are to five healthy nodes, round by round; the first cycle after a pause of '
            . '5 ms is compared with such a one. The single node is measured with server and client on a core each: together '
            . 'on one core, where no processor has to be woken, it is more than twice as fast.',
        );
        $rows = [['', 'ratio', 'µs/cycle']];
        ksort($this->samples);
        foreach ($this->samples as $row => $samples) {
            $to = str_ends_with($row, 'first cycle') ? self::OURS . ', first cycle' : self::OURS;
            $rows[] = [$row, sprintf('%.2f', $this->ratio($row, $to)), sprintf('%.0f', Stats::median($samples))];
        }
        $this->contest->report->table($rows);

        $bars = $this->contest->bars;
        $bars->atMost('five nodes, healthy: to Symfony CombinedStore', 0.25, $this->ratio(self::OURS, self::SYMFONY));
        $bars->atMost('five nodes, healthy: to one node with spin=0, on a core each', 2.5, $this->ratio(self::OURS, self::SINGLE));
        $bars->told('and to one where the scheduler puts it', $this->ratio(self::OURS, self::SINGLE_PLACED));
        foreach (['1 hung', '2 hung', '1 dead', '2 dead'] as $trouble) {
            $row = self::OURS . ", $trouble";
            $bars->atMost("five nodes, $trouble: to healthy", 1.3, $this->ratio($row, self::OURS));
            $bars->atMost(
                "five nodes, $trouble: the first cycle, to a healthy one",
                1.3,
                $this->ratio("$row, first cycle", self::OURS . ', first cycle'),
            );
        }
    }

    private function far(): void
    {
        $proxies = $addresses = [];
        foreach ($this->servers as $server) {
            $proxy = Process::start([...Process::php(), dirname(__DIR__) . '/delay-proxy.php', $server->socket(), '1000']);
            $addresses[] = '127.0.0.1:' . $proxy->line();
            $proxies[] = $proxy;
        }
        // Nothing is broken here: an overloaded machine only takes its time.
        $worker = $this->worker(Peer\OursOnNodes::class, $addresses, '10');
        $worker->ask('sections 3 0 0');
        $sections = $worker->ask('sections ' . $this->contest->rounds(200, 50) . ' 0 0');
        $acquires = array_map(static fn (array $section) => ($section[1] - $section[0]) / 1e6, $sections);
        $this->contest->report->line();
        $this->contest->report->line(sprintf(
            'Each node 2 ms away, through a proxy: acquire takes %.2f ms (median of %d), the slowest of ten %.2f.',
            Stats::median($acquires),
            count($acquires),
            Stats::quantile($acquires, 0.9),
        ));
        $this->contest->bars->atMost('five nodes 2 ms away: acquire, ms', 3.0, Stats::median($acquires));
    }
}
