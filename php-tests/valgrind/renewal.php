<?php

/*
 * Leases that renew themselves, and every way in which they end, for a memory checker to watch: given back, lost,
 * stopping the work, in a forked child, and left for the end of the request.
 *
 * Arguments: the unix socket of a private Redis server, its process id.
 */

declare(strict_types=1);

use RedisLease\Connection;
use RedisLease\LeaseLostException;

[, $socket, $pid] = $argv;

function check(bool $good, string $what): void
{
    if (!$good) {
        fwrite(STDERR, "renewal.php: $what\n");
        exit(1);
    }
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
$connection = new Connection("unix://$socket", 10.0, 10.0);
$new = static fn (string $name, float $ttl = 1.5, bool $abort = false): DistributedLock
    => new DistributedLock($name, $ttl, true, $connection, $abort);

/** Runs until the exception comes. */
$stopped = static function (callable $work): LeaseLostException {
    try {
        $work();
    } catch (LeaseLostException $lost) {
        return $lost;
    }
    check(false, 'it was not stopped');
};

// Kept over several TTLs, and given back in every way.
$locks = [];
for ($i = 0; $i < 20; $i++) {
    $locks[$i] = $new("kept:$i");
    check($locks[$i]->acquire(), 'acquire');
}
usleep(3_000_000);
foreach ($locks as $i => $lock) {
    check($lock->isHeld() && $lock->loss() === null && $lock->remaining() > 0, "kept:$i");
    match ($i % 5) {
        0 => $lock->release(),
        1 => $lock->detach(),
        2 => $lock->forceRelease(),
        3 => $lock->renew(60.0),
        4 => $lock->acquire(),
    };
}
unset($locks, $lock);

// Lost, and told or not.
$lock = $new('lost', 0.5, true);
foreach (['while (true);', 'usleep(2_000_000); usleep(1);', '(new Fiber(function () { while (true); }))->start();', 'foreach ((function () { while (true) { yield 1; } })() as $_);'] as $work) {
    check($lock->acquire(10.0), 'acquire');
    redis($socket, 'DEL', 'lock:lost');
    $lost = $stopped(static fn () => eval($work));
    check($lost->resource === 'lost' && is_string($lost->loss), 'what the exception says');
}
redis($socket, 'SET', 'lock:taken', 'somebody', 'PX', '600000');
check($lock->acquire(10.0), 'acquire');
redis($socket, 'DEL', 'lock:lost');
$taken = new DistributedLock('taken', connection: $connection);
$stopped(static fn () => $taken->acquire(60.0));
$quiet = $new('quiet', 0.5);
check($quiet->acquire(), 'acquire');
redis($socket, 'DEL', 'lock:quiet');
while ($quiet->isHeld());
check($quiet->loss() !== null, 'loss()');

// Redis away: tried again, then lost.
check($lock->acquire(10.0), 'acquire');
exec("kill -STOP $pid");
$lost = $stopped(static function (): void {
    while (true);
});
exec("kill -CONT $pid");
$lock->release();

// Children: one without, one with leases of its own.
$parents = $new('parent', 2.0, true);
check($parents->acquire(), 'acquire');
if (function_exists('pcntl_fork')) {
    foreach ([false, true] as $own) {
        if (pcntl_fork() === 0) {
            check(!$parents->isHeld() && $parents->loss() === null, 'a child holds nothing');
            if ($own) {
                $childs = $new('child', 1.0, true);
                check($childs->acquire(), 'acquire in a child');
                usleep(1_500_000);
                check($childs->isHeld(), 'a child renews its own');
                $childs->release();
            }
            // What the parent's thread had is there without the thread: no leak of ours, so none is looked for.
            pcntl_exec('/bin/true');
        }
        pcntl_wait($status);
        check(pcntl_wexitstatus($status) === 0, 'the child ended badly');
    }
}
check($parents->isHeld(), 'the parent renews its own');
ob_start();
phpinfo(INFO_MODULES);
check(str_contains(ob_get_clean(), 'thread runs'), 'phpinfo');
echo "every renewal ended\n";
