<?php

/*
 * A web request begins a piece of work and a job of a queue ends it: the lease goes with the job.
 *
 * The request acquires the lease, puts its token into the job and ends. The job restores the lease in a process of its
 * own, renews it, writes and releases it. Then the same again with a job that hangs: the queue gives it to a second
 * worker, and when the first one goes on, its write is refused.
 *
 *     make demo
 *     php examples/queue-hand-off.php     with the extension installed, and a Redis where redis_lease.dsn points
 */

declare(strict_types=1);

use RedisLease\Bridge\FencedTable;
use RedisLease\Bridge\StaleFenceException;

require __DIR__ . '/../bridge/autoload.php';    // with Composer: vendor/autoload.php
require __DIR__ . '/support/Crowd.php';
require __DIR__ . '/support/Invoices.php';
require __DIR__ . '/support/Jobs.php';
require __DIR__ . '/support/Pause.php';
require __DIR__ . '/support/Terminal.php';

if (!extension_loaded('redis_lease')) {
    fwrite(STDERR, "The extension redis_lease is not loaded: use 'make demo', or 'make install' first.\n");
    exit(1);
}

$request = static function (PDO $db, float $ttl): string {
    $lock = new DistributedLock('invoice:42', ttl: $ttl);
    if (!$lock->acquire()) {
        return 'is told that invoice 42 is under way';
    }
    $fence = $lock->fence();
    // From here on nothing in this process releases the lease.
    (new Jobs($db))->push($lock->detach());

    return "has the lease, fence $fence; it leaves the token to a job, and ends";
};

$job = static function (PDO $db, string $name, Closure $say, Closure $work): void {
    $jobs = new Jobs($db);
    $lock = DistributedLock::restore('invoice:42', $jobs->take(), ttl: 0.5);
    if ($lock->renew()) {
        $say("goes on with the request's lease, fence {$lock->fence()}");
    } elseif ($lock->acquire(wait: 30.0)) {
        $say("comes after the end of the request's lease, and takes the next one, fence {$lock->fence()}");
    } else {
        $say('leaves it to the worker that has the lease');

        return;
    }
    $fence = $lock->fence();
    try {
        $work();
        (new FencedTable($db, 'invoice'))->update(42, ['done_by' => $name], $fence);
        $say('writes');
        $jobs->done();
    } catch (StaleFenceException $late) {
        $say("is refused: fence {$late->storedFence} has written since");
    } finally {
        $lock->release();
    }
};

$terminal = new Terminal(STDOUT);
// PHP-FPM's request, a worker's job: each in a process of its own.
$inItsOwnProcess = static function (string $who, Closure $do) use ($terminal): string {
    $said = Crowd::rush(1, static fn (): Closure => $do)[1]['outcome'];
    $terminal->line("  $who $said");

    return $said;
};
$verdict = static function (bool $good, string $text) use ($terminal): bool {
    $terminal->line('');
    $terminal->line('  ' . $terminal->paint($good ? Terminal::GREEN : Terminal::RED, $text));

    return $good;
};

$terminal->line('A request begins the work on invoice 42, a job ends it. Each is a process of its own.');

$terminal->heading('The lease goes with the job', "\$lock->detach(), then DistributedLock::restore('invoice:42', \$token)->renew()");
$terminal->line('');
$file = Invoices::create();
$first = $inItsOwnProcess('The request ', static fn (): string => $request(Invoices::open($file), 30.0));
$second = $inItsOwnProcess('A second one', static fn (): string => $request(Invoices::open($file), 30.0));
$goesOn = $inItsOwnProcess('The job     ', static function () use ($job, $file): string {
    $said = [];
    $job(Invoices::open($file), 'the job', static function (string $what) use (&$said): void {
        $said[] = $what;
    }, static fn () => null);

    return implode(', then it ', $said);
});
$fence = static fn (string $said): string => preg_match('/fence (\d+)/', $said, $found) === 1 ? $found[1] : 'none';
$handedOver = $fence($first) === $fence($goesOn) && str_contains($second, 'under way')
    && str_ends_with($goesOn, 'writes') && Invoices::doneBy($file) === 'the job'
    && (new DistributedLock('invoice:42'))->owner() === null;
$good = $verdict($handedOver, $handedOver
    ? 'One lease and one fence, from the request to the end of the job.'
    : 'The lease was lost on the way.');
unlink($file);

$terminal->heading('A retry while the first attempt hangs', 'worker A is stopped for longer than the lease lasts, B gets the job again');
$terminal->line('');
$file = Invoices::create();
$inItsOwnProcess('The request ', static fn (): string => $request(Invoices::open($file), 0.5));
$pause = new Pause(static fn (float $seconds, string $who, string $what)
    => $terminal->line(sprintf('  %5.2f s  %s %s', $seconds, $who, $what)));
$said = $pause->play(static fn (string $name, Closure $say, Closure $work) => $job(Invoices::open($file), $name, $say, $work));
$refused = str_starts_with(end($said['A']), 'is refused') && Invoices::doneBy($file) === 'B';
$good = $verdict($refused, $refused
    ? "The invoice says: done by B. A's late write is refused."
    : "A's late write was not refused.") && $good;
unlink($file);

exit($good ? 0 : 1);
