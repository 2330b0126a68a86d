<?php

declare(strict_types=1);

namespace RedisLease\Bench;

/** The uncontended cycle with a server two milliseconds away: spinning must not cost processor time. */
final class Far
{
    public function __construct(private readonly Contest $contest)
    {
    }

    public function run(): void
    {
        $script = dirname(__DIR__) . '/delay-proxy.php';
        $proxy = Process::start([...Process::php(), $script, $this->contest->unix->text, '1000']);
        $address = new Address('127.0.0.1:' . $proxy->line());
        $rounds = new Rounds(
            $this->contest->server,
            $this->contest->workers([Contest::RAW, Contest::OURS, Contest::SLEEPING], $address),
            $this->contest->rounds(25, 15),
            $this->contest->rounds(60, 20),
            watchesOthers: false, // the proxy is one
        );
        $this->contest->report->section(
            'The uncontended cycle, the server 2 ms away',
            "A proxy holds every byte for a millisecond, in either direction. {$rounds->rounds} interleaved rounds of "
            . "{$rounds->cycles} cycles.",
        );
        $this->contest->report->table($rounds->table(Contest::SLEEPING));
        $this->contest->bars->atMost(
            'server 2 ms away: CPU, to redis_lease.spin=0',
            1.10,
            $rounds->ratio(Contest::OURS, Contest::SLEEPING, 'client'),
        );
    }
}
