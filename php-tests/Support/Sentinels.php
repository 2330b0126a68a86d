<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

/** A primary, its replicas, and the sentinels that watch over them, on free TCP ports. */
final class Sentinels
{
    public const NAME = 'main';

    /**
     * @param list<RedisServer> $sentinels
     * @param list<RedisServer> $servers the primary of the beginning first
     */
    private function __construct(public readonly array $sentinels, public readonly array $servers)
    {
    }

    /** @param array<string, string> $settings of every data server */
    public static function start(int $sentinels = 3, int $replicas = 2, array $settings = []): self
    {
        $settings += ['repl-diskless-sync-delay' => '0'];
        $primary = RedisServer::start(tcp: true, settings: $settings);
        $servers = [$primary];
        for ($i = 0; $i < $replicas; $i++) {
            $servers[] = RedisServer::start(
                tcp: true,
                settings: $settings + ['replicaof' => '127.0.0.1 ' . $primary->port()],
            );
        }
        $quorum = intdiv($sentinels, 2) + 1;
        $watch = static fn () => RedisServer::start(tcp: true, isSentinel: true, settings: ['sentinel' => [
            'monitor ' . self::NAME . " 127.0.0.1 {$primary->port()} $quorum",
            'down-after-milliseconds ' . self::NAME . ' 500',
            'failover-timeout ' . self::NAME . ' 2000',
        ]]);
        $group = new self(array_map($watch, range(1, $sentinels)), $servers);
        $group->awaitReady();

        return $group;
    }

    public function dsn(string $options = ''): string
    {
        $hosts = array_map(static fn (RedisServer $server) => '127.0.0.1:' . $server->port(), $this->sentinels);

        return 'redis+sentinel://' . implode(',', $hosts) . '/' . self::NAME . $options;
    }

    /** The server that a sentinel names as the primary. */
    public function primary(): RedisServer
    {
        $port = (int) $this->sentinels[0]->command('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', self::NAME)[1];

        return array_values(array_filter($this->servers, static fn (RedisServer $one) => $one->port() === $port))[0];
    }

    public function stop(): void
    {
        foreach ([...$this->sentinels, ...$this->servers] as $server) {
            $server->stop();
        }
    }

    private function awaitReady(): void
    {
        $replicas = count($this->servers) - 1;
        $others = count($this->sentinels) - 1;
        foreach ($this->sentinels as $sentinel) {
            eventually(static function () use ($sentinel, $replicas, $others) {
                $pairs = array_chunk($sentinel->command('SENTINEL', 'MASTER', self::NAME), 2);
                $facts = array_column($pairs, 1, 0);

                return (int) $facts['num-slaves'] === $replicas && (int) $facts['num-other-sentinels'] === $others;
            }, 'the sentinel knows all servers and sentinels', 30.0);
        }
    }
}
