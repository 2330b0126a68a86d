<?php

/*
 * Calls every public method and provokes every exception, for a memory checker to watch. Checks
 * only as much as it takes to know that each step did what it is here for.
 *
 * Arguments: the unix socket of a private Redis server, its process id.
 */

declare(strict_types=1);

use RedisLease\Connection;
use RedisLease\ConnectionException;
use RedisLease\LeaseException;
use RedisLease\LeaseLostException;
use RedisLease\LockTimeoutException;
use RedisLease\OutcomeUnknownException;
use RedisLease\ServerException;

[, $socket, $pid] = $argv;
$dsn = "unix://$socket";

function check(bool $good, string $what): void
{
    if (!$good) {
        $line = debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS)[0]['line'];
        fwrite(STDERR, "every-method.php, line $line: $what\n");
        exit(1);
    }
}

function throws(string $class, callable $action): Throwable
{
    try {
        $action();
    } catch (Throwable $caught) {
        check($caught instanceof $class, "$class was expected, not " . $caught);

        return $caught;
    }
    $line = debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS)[0]['line'];
    check(false, "$class was expected in line $line");
}

/** One command to Redis behind the extension's back. */
function redis(string $socket, string ...$words): string
{
    $stream = stream_socket_client("unix://$socket");
    fwrite($stream, '*' . count($words) . "\r\n");
    foreach ($words as $word) {
        fwrite($stream, '$' . strlen($word) . "\r\n$word\r\n");
    }

    return fgets($stream);
}

// Every method in its good case, some names binary or long.
$connection = new Connection($dsn, 5.0, 5.0, 'v:');
check(is_float(current($connection->ping())), 'ping');
foreach (["order:1", "\0\xff{}", str_repeat('n', 65536)] as $name) {
    $lock = new DistributedLock($name, 60.0, connection: $connection);
    check($lock->owner() === null && $lock->token() === null && $lock->fence() === null, 'a fresh handle');
    check($lock->acquire() && $lock->acquire(0.1) && $lock->isHeld() && $lock->remaining() > 0, 'acquire');
    check($lock->renew() && $lock->renew(120.0), 'renew');
    check($lock->resource() === $name && $lock->owner() === $lock->token() && $lock->fence() > 0, 'questions');
    $other = new DistributedLock($name, 60.0, connection: $connection);
    check(!$other->acquire() && !$other->acquire(0.05) && !$other->renew() && !$other->release(), 'contention');
    $token = $lock->detach();
    check(!$lock->isHeld() && !$lock->renew() && !$lock->release(), 'detach');
    $restored = DistributedLock::restore($name, $token, 60.0, $connection);
    check($restored->renew() && $restored->release() && !$restored->release(), 'restore');
    check($lock->acquire() && $other->forceRelease() && !$other->forceRelease() && !$lock->renew(), 'force');
    check(is_string($lock->synchronized(fn (DistributedLock $held) => $held->token())), 'synchronized');
}

// Handles dropped while held, overwritten, in cycles, and left for the end of the request.
$lock = new DistributedLock('dropped', 60.0, connection: $connection);
$lock->acquire();
$lock = new DistributedLock('in a cycle', 60.0, connection: $connection);
$lock->acquire();
$cycle = new stdClass();
$cycle->lock = $lock;
$cycle->self = $cycle;
unset($lock, $cycle);
gc_collect_cycles();
$kept = new DistributedLock('kept to the end', 60.0, connection: $connection);
$kept->acquire();

// A waiter that gets the lock, one of many settings, and default connections.
$short = new DistributedLock('short', 0.05, connection: $connection);
$short->acquire();
check((new DistributedLock('short', 60.0, connection: $connection))->acquire(10.0), 'a wait that succeeds');
ini_set('redis_lease.dsn', $dsn);
check((new DistributedLock('by default'))->acquire(), 'the default connection');
check(is_float(current(Connection::default()->ping())), 'ping of the default connection');
$connection->close();
check((new DistributedLock('after close', connection: $connection))->acquire(), 'after close');

// Arguments and rules of PHP.
throws(ValueError::class, fn () => new DistributedLock(''));
throws(ValueError::class, fn () => new DistributedLock('a', NAN));
throws(TypeError::class, fn () => new DistributedLock('a', []));
throws(ArgumentCountError::class, fn () => new DistributedLock());
throws(ValueError::class, fn () => new DistributedLock('a', abortOnLoss: true));
throws(ValueError::class, fn () => DistributedLock::restore('a', ''));
throws(ValueError::class, fn () => $kept->acquire(-1.0));
throws(ValueError::class, fn () => $kept->renew(0.0));
throws(TypeError::class, fn () => $kept->synchronized('no such function'));
throws(ValueError::class, fn () => $kept->synchronized(fn () => null, INF));
foreach (['', 'x', 'http://h', 'redis://h:0', 'redis://:p%zz@h', 'redis://a redis://a', 'redis+cluster://'] as $bad) {
    throws(Error::class, fn () => new Connection($bad));
}
throws(ValueError::class, fn () => new Connection($dsn, -1.0));
foreach ([$kept, $connection] as $object) {
    throws(Throwable::class, fn () => clone $object);
    throws(Throwable::class, fn () => serialize($object));
    throws(Error::class, fn () => $object->__construct('redis://again'));
    try {
        $empty = (new ReflectionClass($object))->newInstanceWithoutConstructor();
        throws(Error::class, fn () => $object instanceof Connection ? $empty->ping() : $empty->acquire());
    } catch (ReflectionException) {
    }
    ob_start();
    var_dump($object);
    print_r($object);
    var_export($object);
    ob_end_clean();
}

// Every exception, thrown by us and made in PHP.
$lost = throws(LeaseLostException::class, function () use ($socket, $connection): void {
    (new DistributedLock('lost', 60.0, connection: $connection))->synchronized(function () use ($socket): array {
        redis($socket, 'DEL', 'v:lost');
        return ['result'];
    });
});
check($lost->result === ['result'] && $lost->resource === 'lost', 'LeaseLostException');
redis($socket, 'SET', 'v:taken', 'somebody', 'PX', '60000');
$taken = new DistributedLock('taken', connection: $connection);
throws(LockTimeoutException::class, fn () => $taken->synchronized(fn () => 1, 0.05));
throws(DomainException::class, fn () => (new DistributedLock('thrower', connection: $connection))->synchronized(
    fn () => throw new DomainException('by the callback'),
));
redis($socket, 'RPUSH', 'v:list', 'item');
$refused = throws(ServerException::class, fn () => (new DistributedLock('list', connection: $connection))->acquire());
check($refused->redisCode === 'WRONGTYPE', 'WRONGTYPE');
throws(ServerException::class, fn () => (new DistributedLock('a', connection: new Connection("$dsn?pass=wrong")))->acquire());
$nobody = new Connection('unix:///no/such.sock', 0.2, 0.2);
throws(ConnectionException::class, fn () => (new DistributedLock('a', connection: $nobody))->acquire());
throws(ConnectionException::class, fn () => (new DistributedLock('a', connection: $nobody))->acquire(0.1));
check(is_string(current($nobody->ping())), 'ping of nobody');
$slow = new Connection($dsn, 0.2, 0.2, 'v:');
$held = new DistributedLock('slow', 60.0, connection: $slow);
$held->acquire();
exec("kill -STOP $pid");
$unknown = throws(OutcomeUnknownException::class, fn () => (new DistributedLock('unknown', connection: $slow))->acquire());
check(is_string($unknown->token), 'OutcomeUnknownException');
throws(LeaseException::class, fn () => $held->renew());
throws(LeaseException::class, fn () => $held->release());
exec("kill -CONT $pid");
check($held->release(), 'the release after a release without an answer');
foreach ([LeaseException::class, ConnectionException::class, ServerException::class, OutcomeUnknownException::class] as $class) {
    $made = new $class('made', 1, new Exception('before'));
    $made->resource = 'set';
    (string) $made;
}

// A child of fork that inherits all of this, uses some of it, and ends.
if (function_exists('pcntl_fork')) {
    if (pcntl_fork() === 0) {
        check(!$kept->isHeld() && $kept->token() === null && !$kept->acquire() && $kept->detach() === null, 'a child');
        check((new DistributedLock('of the child', connection: $connection))->acquire(), 'a lock of the child');
        exit(0);
    }
    pcntl_wait($status);
    check(pcntl_wexitstatus($status) === 0, 'the child ended badly');
}
check($kept->isHeld(), 'what the parent held is still held');
echo "every method was called\n";
