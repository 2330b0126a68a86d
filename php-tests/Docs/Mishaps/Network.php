<?php

declare(strict_types=1);

namespace RedisLease\Tests\Docs\Mishaps;

use DistributedLock;
use RedisLease\Connection;
use RedisLease\LeaseException;
use RedisLease\Tests\Support\BlackHole;
use RedisLease\Tests\Support\FakeServer;
use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\Sentinels;

use function RedisLease\Tests\Support\eventually;

/** What is said of servers that cannot be reached, or do not answer. */
final class Network
{
    /** @return list<string> */
    public static function unavailable(): array
    {
        $nobody = 'redis://127.0.0.1:' . RedisServer::freePort();
        $server = RedisServer::start(tcp: true);
        $hole = BlackHole::open('tcp://127.0.0.1:0');
        $said = [
            Told::ofAcquire($nobody),
            Told::ofAcquire('unix:///no/such/socket'),
            Told::ofAcquire('redis://no-such-host.invalid', 20.0),
            Told::ofAcquire($hole->dsn(), 0.2, 0.2),
            self::again($hole->dsn()),
            self::full(),
            // These are tried again for as long as the time-outs allow: they are short.
            Told::inTime(self::garbled(...)),
            Told::inTime(static fn () => self::reset($server)),
        ];
        $server->pause();
        $said[] = Told::ofAcquire($server->tcpDsn(), 0.5, 0.5);
        $said[] = Told::ofAcquire("rediss://127.0.0.1:{$server->port()}?ca=" . Tls::ca(), 0.5, 0.5);
        $server->resume();
        $server->stop();
        $hole->close();

        return $said;
    }

    /** What is said of a server that has not answered a moment ago. */
    private static function again(string $dsn): string
    {
        $connection = new Connection($dsn, 0.1, 0.1);
        $say = static function () use ($connection): string {
            $said = Told::by(static fn () => Told::lock($connection)->acquire());

            return str_contains($said, 'not tried again') ? $said : '';
        };

        return eventually($say, 'a call finds that it was silent');
    }

    private static function full(): string
    {
        // The one is the test's own.
        $server = RedisServer::start(settings: ['maxclients' => '1']);
        $said = Told::ofAcquire($server->dsn());
        $server->stop();

        return $said;
    }

    private static function reset(RedisServer $server): string
    {
        $proxy = FaultProxy::start($server);
        $connection = Told::opened($proxy->dsn(), 0.5);
        $proxy->breakAfter('request', 1, 'reset', 'reject');
        $said = Told::by(static fn () => Told::lock($connection)->acquire());
        $proxy->stop();

        return $said;
    }

    /** Something that is not Redis answers. */
    private static function garbled(): string
    {
        $stranger = FakeServer::start();
        $stranger->answerWith("HTTP/1.1 400 Bad Request\r\n");

        $said = Told::ofAcquire($stranger->dsn(), 0.5, 0.5);
        $stranger->stop();

        return $said;
    }

    /** @return list<string> */
    public static function ofGroups(): array
    {
        $group = Sentinels::start(sentinels: 1, replicas: 1);
        $replica = $group->replicas()[0];
        $ignorant = RedisServer::start(tcp: true, isSentinel: true);
        $nobody = 'redis://127.0.0.1:' . RedisServer::freePort();
        $said = [
            Told::ofAcquire(Sentinels::dsnOf([$ignorant])),
            Told::ofAcquire("$nobody unix:///no/such/socket unix:///no/other"),
            Told::ofAcquire($group->primary()->dsn(['wait_replicas' => '2'])),
            self::unconfirmed($group->primary(), $replica),
            self::demoted($group),
            self::decidedWithout(),
        ];
        $ignorant->stop();
        $group->stop();

        return $said;
    }

    private static function unconfirmed(RedisServer $primary, RedisServer $replica): string
    {
        $replica->pause();
        try {
            return Told::ofAcquire($primary->dsn(['wait_replicas' => '1']), 10.0, 0.5);
        } finally {
            $replica->resume();
        }
    }

    /** The sentinels have not noticed yet that the primary follows another. */
    private static function demoted(Sentinels $group): string
    {
        $primary = $group->primary();
        foreach ($group->sentinels as $sentinel) {
            // It does not repair what it finds.
            $sentinel->command('SENTINEL', 'SET', Sentinels::NAME, 'failover-timeout', 60_000);
        }
        $primary->command('REPLICAOF', '127.0.0.1', 1);

        return Told::ofAcquire($group->dsn());
    }

    /** Two of three nodes refuse, and the third has not answered yet. */
    private static function decidedWithout(): string
    {
        $servers = array_map(static fn () => RedisServer::start(), range(1, 3));
        $lock = self::heldBy($servers, 10.0);
        $servers[0]->pause();
        $servers[1]->command('REPLICAOF', '127.0.0.1', 1);
        $servers[2]->command('REPLICAOF', '127.0.0.1', 1);
        $said = Told::by($lock->release(...));
        foreach ($servers as $server) {
            $server->resume();
            $server->stop();
        }

        return $said;
    }

    /** @param list<RedisServer> $servers */
    private static function heldBy(array $servers, float $timeout): DistributedLock
    {
        array_map(static fn (RedisServer $node) => $node->flush(), $servers);
        $dsn = implode(' ', array_map(static fn (RedisServer $node) => $node->dsn(), $servers));
        $lock = Told::lock(Told::opened($dsn, $timeout));
        $acquires = static function () use ($lock): bool {
            try {
                return $lock->acquire();
            } catch (LeaseException) {
                return false;
            }
        };
        eventually($acquires, 'the nodes grant the lock', 30.0);

        return $lock;
    }

    /** @return list<string> */
    public static function unknown(): array
    {
        $servers = array_map(static fn () => RedisServer::start(), range(1, 3));
        [$server, $second] = $servers;
        $connection = Told::opened($server->dsn(), 0.5);
        $server->pause();
        $said = [Told::by(static fn () => Told::lock($connection)->acquire())];
        $server->resume();

        $said[] = Told::inTime(static fn () => self::cut($server));
        $lock = self::heldBy($servers, 0.5);
        $server->pause();
        $second->pause();
        $said[] = Told::by($lock->release(...));
        foreach ($servers as $node) {
            $node->resume();
            $node->stop();
        }

        return $said;
    }

    /** Its answer is cut off, and nobody takes the next connection. */
    private static function cut(RedisServer $server): string
    {
        $server->flush();
        $proxy = FaultProxy::start($server);
        $behind = Told::opened($proxy->dsn(), 0.5);
        $proxy->breakAfter('request', 1, 'fin', 'refuse');
        $proxy->breakAfter('reply', 1, 'fin', 'refuse');
        $said = Told::by(static fn () => Told::lock($behind)->acquire());
        $proxy->stop();

        return $said;
    }
}
