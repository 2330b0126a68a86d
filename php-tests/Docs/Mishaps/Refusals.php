<?php

declare(strict_types=1);

namespace RedisLease\Tests\Docs\Mishaps;

use RedisLease\Connection;
use RedisLease\Tests\Support\FakeServer;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\RedisServer;
use RuntimeException;

use function RedisLease\Tests\Support\eventually;

/** What is said when Redis says no. */
final class Refusals
{
    /** @return list<string> */
    public static function ofOneServer(): array
    {
        $withPassword = RedisServer::start(password: 'secret');
        $said = [
            Told::ofAcquire('unix://' . $withPassword->socket()),
            Told::ofAcquire('unix://' . $withPassword->socket() . '?pass=wrong'),
            self::from([], ['ACL', 'SETUSER', 'default', '-eval', '-evalsha']),
            self::from([], ['REPLICAOF', '127.0.0.1', '1']),
            self::from([], ['CONFIG', 'SET', 'maxmemory', '1']),
            self::from(['min-replicas-to-write' => '1'], ['PING']),
            self::from([], ['RPUSH', 'lock:order:42', 'item']),
            self::from(['cluster-enabled' => 'yes', 'databases' => '1'], ['PING'], tcp: true),
            self::unsaved(),
            self::busy(),
        ];
        $withPassword->stop();
        // These pass too quickly to be met with a server of one's own: as Redis says them.
        $fake = FakeServer::start();
        foreach (['LOADING Redis is loading the dataset in memory', 'TRYAGAIN Multiple keys request during rehashing of slot'] as $error) {
            $fake->answerWith("-$error\r\n");
            $said[] = Told::ofAcquire($fake->dsn());
        }

        return $said;
    }

    /**
     * @param array<string, string> $settings
     * @param list<string> $command that brings the trouble about
     */
    private static function from(array $settings, array $command, bool $tcp = false): string
    {
        $server = RedisServer::start(tcp: $tcp, settings: $settings);
        $server->command(...$command);
        $said = Told::ofAcquire($server->dsn());
        $server->stop();

        return $said;
    }

    private static function unsaved(): string
    {
        $directory = Janitor::directory('.lost');
        $server = RedisServer::start(settings: ['dir' => $directory, 'save' => '3600 1000']);
        rmdir($directory);
        try {
            $server->command('BGSAVE');
        } catch (RuntimeException) {
            // Some versions say at once that they cannot.
        }
        $hasFailed = static fn () => str_contains((string) $server->command('INFO', 'persistence'), 'rdb_last_bgsave_status:err');
        eventually($hasFailed, 'saving failed');
        $said = Told::ofAcquire($server->dsn());
        $server->stop();

        return $said;
    }

    private static function busy(): string
    {
        $server = RedisServer::start(settings: ['lua-time-limit' => '20']);
        $server->connect()->send('EVAL', 'while true do end', 0);
        $said = '';
        eventually(static function () use ($server, &$said) {
            return str_contains($said = Told::ofAcquire($server->dsn(), 0.5, 0.5), 'BUSY');
        }, 'the server is busy');
        $server->stop();

        return $said;
    }

    /** @return list<string> */
    public static function ofNodes(): array
    {
        $servers = array_map(static fn () => RedisServer::start(tcp: true), range(1, 3));
        [$one, $two, $three] = $servers;
        $two->command('REPLICAOF', '127.0.0.1', $one->port());
        $nobody = 'unix:///no/such/socket';
        $said = [
            Told::ofAcquire("{$one->dsn()} {$two->dsn()} $nobody"),
            Told::ofAcquire("{$one->dsn()} {$one->tcpDsn()} $nobody"),
            Told::ofAcquire("{$one->dsn()}?restart_guard=3600 {$three->dsn()} $nobody"),
        ];
        array_map(static fn (RedisServer $server) => $server->command('ACL', 'SETUSER', 'default', '-info'), $servers);
        $said[] = Told::ofAcquire("{$one->dsn()}?restart_guard=3600 {$three->dsn()} $nobody");
        array_map(static fn (RedisServer $server) => $server->stop(), $servers);

        return $said;
    }

    /** @return list<string> */
    public static function inPing(): array
    {
        $servers = array_map(static fn () => RedisServer::start(), range(1, 3));
        foreach ($servers as $server) {
            $server->command('ACL', 'SETUSER', 'default', '-blpop', '-info');
            $server->command('SET', 'lock:order:42', 'another owner', 'PX', 60_000);
        }
        $one = new Connection($servers[0]->dsn(), 10.0, 10.0);
        $waits = static function () use ($one): array {
            Told::lock($one)->acquire(0.2);

            return array_filter($one->ping(), is_string(...));
        };
        $said = eventually($waits, 'a wait came as far as BLPOP');
        $nodes = new Connection(implode(' ', array_map(static fn (RedisServer $node) => $node->dsn(), $servers)), 10.0, 10.0);
        $said = [...array_values($said), ...array_values(array_filter($nodes->ping(), is_string(...)))];
        array_map(static fn (RedisServer $server) => $server->stop(), $servers);

        return $said;
    }
}
