<?php

declare(strict_types=1);

namespace RedisLease\Tests\Docs\Mishaps;

use RedisLease\Connection;
use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\Worker;

/** What is said when a lease ends under the work, or is not had in time. */
final class Losses
{
    /** @return list<string> */
    public static function messages(): array
    {
        $server = RedisServer::start();
        $connection = new Connection($server->dsn(), 1.0, 1.0);
        $under = static function (callable $mishap, float $ttl = 30.0) use ($server, $connection): string {
            $server->flush();

            return Told::by(static fn () => Told::lock($connection, $ttl)->synchronized($mishap));
        };
        $said = [
            $under(static fn () => self::until(static fn () => $server->command('EXISTS', 'lock:order:42') === 0), 0.05),
            $under(static fn () => $server->flush()),
            $under(static fn () => $server->command('SET', 'lock:order:42', 'another owner', 'PX', 60_000)),
            Told::by(static fn () => Told::lock($connection)->synchronized(intval(...))),
            Told::by(static fn () => Told::lock($connection)->synchronized(intval(...), 0.02)),
            self::late($server),
            self::aborted($server, '', ['redis_lease.max_hold' => '0.2']),
            self::aborted($server, 'posix_kill($args["server"], SIGSTOP);', ['redis_lease.command_timeout' => '0.1']),
        ];
        $server->resume();
        $server->stop();

        return $said;
    }

    private static function until(callable $condition): void
    {
        while (!$condition()) {
            usleep(1_000);
        }
    }

    private static function late(RedisServer $server): string
    {
        $server->flush();
        $proxy = FaultProxy::start($server);
        $connection = new Connection($proxy->dsn(), 2.0, 2.0);
        $connection->ping();
        $proxy->delay(0.0, 0.1);
        $said = Told::by(static fn () => Told::lock($connection, 0.05)->acquire());
        $proxy->stop();

        return $said;
    }

    /** @param array<string, string> $ini */
    private static function aborted(RedisServer $server, string $mishap, array $ini): string
    {
        $server->flush();
        $worker = Worker::start(<<<PHP
            \$lock = new DistributedLock('order:42', 0.5, true, new Connection(\$args['dsn']), true);
            \$lock->acquire();
            try {
                $mishap
                for (;;) {
                    usleep(1_000);
                }
            } catch (LeaseLostException \$lost) {
                say(\$lost->getMessage());
            }
            PHP, ['dsn' => $server->dsn(), 'server' => $server->pid()], $ini, phpIni: true);
        $said = $worker->hear();
        $worker->wait();

        return $said;
    }
}
