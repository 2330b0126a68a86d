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

    /**
     * @param array<string, string> $settings of every data server
     * @param string|null $password of every data server
     * @param string|null $sentinelPassword of every sentinel
     * @param list<string> $sentinelUsers as in an ACL file, of every sentinel
     * @param list<string> $users the same, of every data server
     * @param array<string, string> $more settings of every server and sentinel, for example its certificate
     */
    public static function start(
        int $sentinels = 3,
        int $replicas = 2,
        array $settings = [],
        ?string $password = null,
        ?string $sentinelPassword = null,
        array $sentinelUsers = [],
        array $users = [],
        array $more = [],
    ): self {
        $settings += $more + ['repl-diskless-sync-delay' => '0'];
        if ($password !== null) {
            $settings += ['masterauth' => $password];
        }
        $data = static fn (array $settings) => RedisServer::start(true, $password, $settings, $users);
        $primary = $data($settings);
        $servers = [$primary];
        for ($i = 0; $i < $replicas; $i++) {
            $servers[] = $data($settings + ['replicaof' => '127.0.0.1 ' . $primary->port()]);
        }
        $quorum = intdiv($sentinels, 2) + 1;
        $lines = [
            'monitor ' . self::NAME . " 127.0.0.1 {$primary->port()} $quorum",
            'down-after-milliseconds ' . self::NAME . ' 500',
            'failover-timeout ' . self::NAME . ' 2000',
            ...($password === null ? [] : ['auth-pass ' . self::NAME . " $password"]),
            ...($sentinelPassword === null ? [] : ["sentinel-pass $sentinelPassword"]),
        ];
        $watch = static fn () => RedisServer::start(
            true,
            $sentinelPassword,
            ['sentinel' => $lines] + $more,
            $sentinelUsers,
            isSentinel: true,
        );
        $group = new self(array_map($watch, range(1, $sentinels)), $servers);
        $group->awaitReady();

        return $group;
    }

    /** @param string $login of the data servers, as "user:password@" */
    public function dsn(string $options = '', string $login = ''): string
    {
        return self::dsnOf($this->sentinels, $options, $login);
    }

    /** @param list<RedisServer|BlackHole> $sentinels */
    public static function dsnOf(array $sentinels, string $options = '', string $login = ''): string
    {
        $hosts = array_map(static fn ($sentinel) => '127.0.0.1:' . $sentinel->port(), $sentinels);

        return "redis+sentinel://$login" . implode(',', $hosts) . '/' . self::NAME . $options;
    }

    /** The server that a sentinel names as the primary. */
    public function primary(): RedisServer
    {
        return $this->named($this->sentinels[0]);
    }

    /** The primary in the opinion of the sentinel that has the newest. */
    public function newest(): RedisServer
    {
        $old = $this->servers[0];
        foreach ($this->sentinels as $sentinel) {
            $named = $this->named($sentinel);
            if ($named !== $old) {
                return $named;
            }
        }

        return $old;
    }

    /** The primary in the opinion of all sentinels; null while they do not agree. */
    public function agreed(): ?RedisServer
    {
        $named = $this->primary();
        foreach ($this->sentinels as $sentinel) {
            if ($this->named($sentinel) !== $named) {
                return null;
            }
        }

        return $named;
    }

    /** @return list<RedisServer> those that began as replicas */
    public function replicas(): array
    {
        return array_slice($this->servers, 1);
    }

    private function named(RedisServer $sentinel): RedisServer
    {
        $port = (int) $sentinel->command('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', self::NAME)[1];

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
        $replicas = count($this->replicas());
        $this->servers[0]->awaitReplicas($replicas);
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
