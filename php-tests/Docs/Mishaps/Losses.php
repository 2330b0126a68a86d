<?php

declare(strict_types=1);

namespace RedisLease\Tests\Docs\Mishaps;

use RedisLease\Connection;
use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\Worker;

use function RedisLease\Tests\Support\eventually;

/** What is said when a lease ends under the work, or is not had in time. */
final class Losses
{
    /** @return list<string> */
    public static function messages(): array
    {
        $server = RedisServer::start();
        $connection = new Connection($server->dsn(), 10.0, 10.0);
        // Where the machine is so slow that a short lease is over before the callable begins, once more.
        $under = static function (callable $mishap, float $ttl = 30.0) use ($server, $connection): string {
            $attempt = static function () use ($server, $connection, $mishap, $ttl): string {
                $server->flush();
                $hasRun = false;
                $section = static function () use ($mishap, &$hasRun): void {
                    $hasRun = true;
                    $mishap();
                };
                $said = Told::by(static fn () => Told::lock($connection, $ttl)->synchronized($section));

                return $hasRun ? $said : '';
            };

            return eventually($attempt, 'the callable begins in time', 30.0);
        };
        $isGone = static fn () => $server->command('EXISTS', 'lock:order:42') === 0;
        $said = [
            $under(static fn () => eventually($isGone, 'the lease has expired'), 0.2),
            $under(static fn () => $server->flush()),
            $under(static fn () => $server->command('SET', 'lock:order:42', 'another owner', 'PX', 60_000)),
            Told::by(static fn () => Told::lock($connection)->synchronized(intval(...))),
            Told::by(static fn () => Told::lock($connection)->synchronized(intval(...), 0.02)),
            self::late($server),
            self::aborted($server, 'max_hold', '', ['redis_lease.max_hold' => '0.2']),
            self::aborted($server, 'unreachable', 'posix_kill($args["server"], SIGSTOP);', ['redis_lease.command_timeout' => '0.1']),
        ];
        $server->stop();

        return $said;
    }

    private static function late(RedisServer $server): string
    {
        $server->flush();
        $proxy = FaultProxy::start($server);
        $connection = Told::opened($proxy->dsn(), 10.0);
        $proxy->delay(0.0, 0.1);
        $said = Told::by(static fn () => Told::lock($connection, 0.05)->acquire());
        $proxy->stop();

        return $said;
    }

    /**
     * What the exception says that stops the code for that cause. A slow machine can bring about another loss first.
     *
     * @param array<string, string> $ini
     */
    private static function aborted(RedisServer $server, string $cause, string $mishap, array $ini): string
    {
        $attempt = static function () use ($server, $cause, $mishap, $ini): string {
            $server->flush();
            $worker = Worker::start(<<<PHP
                try {
                    \$lock = new DistributedLock('order:42', 0.5, true, new Connection(\$args['dsn']), true);
                    \$lock->acquire();
                    $mishap
                    for (;;) {
                        usleep(1_000);
                    }
                } catch (LeaseException \$thrown) {
                    say([\$thrown->loss ?? null, \$thrown->getMessage()]);
                }
                PHP, ['dsn' => $server->dsn(), 'server' => $server->pid()], $ini, phpIni: true);
            [$loss, $said] = $worker->hear(30.0);
            $worker->wait();
            $server->resume();

            return $loss === $cause ? $said : '';
        };

        return eventually($attempt, "a lease is lost by $cause", 60.0);
    }
}
