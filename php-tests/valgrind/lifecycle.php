<?php

/*
 * One request that has lived through trouble, and then ends in one of several ways, for a memory checker to watch:
 * lost connections, unanswered commands, forks, fibers, waits that signals end.
 *
 * Arguments: the unix socket of a private Redis server, its process id, and the way to end: return, exit, throw,
 * fatal, time.
 */

declare(strict_types=1);

use RedisLease\Connection;
use RedisLease\LeaseException;

[, $socket, $pid, $way] = $argv;
$dsn = "unix://$socket";

function check(bool $good, string $what): void
{
    if (!$good) {
        fwrite(STDERR, "lifecycle.php: $what\n");
        exit(1);
    }
}

function threw(callable $action): ?Throwable
{
    try {
        $action();
    } catch (Throwable $caught) {
        return $caught;
    }

    return null;
}

/** One command to Redis behind the extension's back. */
function redis(string $socket, string ...$words): string
{
    $stream = stream_socket_client("unix://$socket");
    fwrite($stream, '*' . count($words) . "\r\n");
    foreach ($words as $word) {
        fwrite($stream, '$' . strlen($word) . "\r\n$word\r\n");
    }

    return (string) fgets($stream);
}

// Under the memory checker everything takes long.
$connection = new Connection($dsn, 10.0, 10.0);
$hasty = new Connection($dsn, 0.3, 0.3);
redis($socket, 'FLUSHALL');
redis($socket, 'SET', 'lock:taken', 'somebody', 'PX', '600000');

// Connections that break while a lock is held, and servers that are not there.
$lock = new DistributedLock('order', 60.0, connection: $connection);
check($lock->acquire(), 'acquire');
foreach (['renew', 'owner', 'acquire', 'release', 'acquire'] as $call) {
    redis($socket, 'CLIENT', 'KILL', 'TYPE', 'normal');
    check((bool) $lock->$call(), "$call on a broken connection");
}
foreach (['redis://localhost:1', 'redis://127.0.0.1:1', 'redis://no-such-host.invalid', 'unix:///no/such', "$dsn?pass=wrong"] as $nobody) {
    $elsewhere = new DistributedLock('order', 60.0, connection: new Connection($nobody, 0.2, 0.2));
    check(threw(static fn () => $elsewhere->acquire()) instanceof LeaseException, $nobody);
    check(threw(static fn () => $elsewhere->acquire(0.1)) instanceof LeaseException, $nobody);
}

// A server that hangs: what was asked stays unknown, and is given back by token or by handle.
$unanswered = new DistributedLock('unanswered', 60.0, connection: $hasty);
exec("kill -STOP $pid");
$unknown = threw(static fn () => $unanswered->acquire());
check($unknown instanceof LeaseException, 'a server that hangs');
threw(static fn () => $unanswered->release());
threw(static fn () => (new DistributedLock('unanswered', 60.0, connection: $hasty))->owner());
exec("kill -CONT $pid");
if (isset($unknown->token)) {
    DistributedLock::restore('unanswered', $unknown->token, 60.0, $connection)->release();
}

// Waits that end in every way: in vain, by a handler that throws, with the lock.
$taken = new DistributedLock('taken', 60.0, connection: $connection);
check(!$taken->acquire(0.3), 'a wait in vain');
if (function_exists('pcntl_fork')) {
    pcntl_async_signals(true);
    pcntl_signal(SIGUSR1, static function (): void {
        throw new DomainException('enough');
    });
    $me = getmypid();
    exec("(sleep 1; kill -USR1 $me) >/dev/null 2>&1 &");
    check(threw(static fn () => $taken->acquire(60.0)) instanceof DomainException, 'a handler that throws');

    // Children that inherit all of this, use some of it, and end in their own ways.
    foreach (['exit', 'use', 'fatal'] as $end) {
        $child = pcntl_fork();
        if ($child === 0) {
            fclose(STDERR);
            if ($end === 'use') {
                (new DistributedLock('of the child', 60.0, connection: $connection))->acquire();
                $lock->acquire(0.01);
            }
            $end === 'fatal' ? no_such_function() : exit(0);
        }
        pcntl_waitpid($child, $status);
    }
}
check($lock->isHeld() && $lock->renew(), 'held through it all');

// Fibers: one that is done, and one that never will be.
$section = static fn () => (new DistributedLock('of a fiber', 60.0, connection: $connection))->synchronized(static fn () => Fiber::suspend());
$done = new Fiber($section);
$done->start();
$done->resume();
$never = new Fiber($section);
$never->start();

// And now the end, two sections deep.
echo "$way\n";
if ($way === 'return') {
    return;
}
$lock->synchronized(static function () use ($connection, $way): void {
    (new DistributedLock('inner', 60.0, connection: $connection))->synchronized(static function () use ($way): void {
        match ($way) {
            'exit' => exit(0),
            'throw' => throw new DomainException('the end'),
            'fatal' => eval('final class DistributedLock {}'),
            'time' => (static function (): void {
                set_time_limit(1);
                for (;;);
            })(),
        };
    });
});
