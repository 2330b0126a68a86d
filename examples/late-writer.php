<?php

/*
 * A worker that is stopped for longer than its lease lasts, and then goes on as if nothing had happened.
 *
 * Worker A holds the lease on an invoice and is stopped in the middle of its work. Its lease ends, B gets the next
 * one, does the work and writes. Then A goes on. First with nothing to stop its late write, then with a table that
 * refuses it, then with a lease that interrupts A itself.
 *
 *     make demo
 *     php examples/late-writer.php    with the extension installed, and a Redis where redis_lease.dsn points
 *     php examples/late-writer.php 5  with so many seconds for the lease that interrupts: on a machine that is so busy
 *                                     that half a second is a pause of its own, B would lose it too
 */

declare(strict_types=1);

use RedisLease\Bridge\FencedTable;
use RedisLease\Bridge\StaleFenceException;
use RedisLease\LeaseLostException;

require __DIR__ . '/../bridge/autoload.php';    // with Composer: vendor/autoload.php
require __DIR__ . '/support/Invoices.php';
require __DIR__ . '/support/Pause.php';
require __DIR__ . '/support/Terminal.php';

if (!extension_loaded('redis_lease')) {
    fwrite(STDERR, "The extension redis_lease is not loaded: use 'make demo', or 'make install' first.\n");
    exit(1);
}

$lease = static fn (): DistributedLock => new DistributedLock('invoice:42', ttl: 0.5);

$seconds = (float) ($argv[1] ?? 0.5);
$leaseThatInterrupts = static fn (): DistributedLock
    => new DistributedLock('invoice:42', ttl: $seconds, autoRenew: true, abortOnLoss: true);

$write = static function (PDO $db, string $name, int $fence): void {
    $db->prepare('UPDATE invoice SET done_by = ? WHERE id = 42')->execute([$name]);
};

$fencedWrite = static function (PDO $db, string $name, int $fence): void {
    (new FencedTable($db, 'invoice'))->update(42, ['done_by' => $name], $fence);
};

$worker = static fn (string $file, Closure $lease, Closure $write): Closure
    => static function (string $name, Closure $say, Closure $work) use ($file, $lease, $write): void {
        $db = Invoices::open($file);
        $lock = $lease();
        $lock->acquire(wait: 30.0) ?: throw new RuntimeException('the lease is not to be had');
        $fence = $lock->fence();
        try {
            $say("has the lease, fence $fence");
            $work();
            $write($db, $name, $fence);
            $say('writes');
        } catch (StaleFenceException $late) {
            $say("is refused: fence {$late->storedFence} has written since");
        } catch (LeaseLostException) {
            $say('is interrupted: its lease is over');
        } finally {
            $lock->release();
        }
    };

$terminal = new Terminal(STDOUT);
$scene = static function (Closure $lease, Closure $write) use ($terminal, $worker): array {
    $terminal->line('');
    $file = Invoices::create();
    try {
        $pause = new Pause(static fn (float $seconds, string $who, string $what)
            => $terminal->line(sprintf('  %5.2f s  %s %s', $seconds, $who, $what)));
        $said = $pause->play($worker($file, $lease, $write));

        return [end($said['A']), Invoices::doneBy($file)];
    } finally {
        unlink($file);
    }
};
$verdict = static function (bool $good, string $doneBy, string $text) use ($terminal): void {
    $painted = $terminal->paint($good ? Terminal::GREEN : Terminal::RED, $text);
    $terminal->line('');
    $terminal->line("  The invoice says: done by $doneBy. $painted");
};

$terminal->line('Two workers, one invoice, a lease of half a second. A is stopped for longer than that.');

$terminal->heading('Without a guard', "UPDATE invoice SET done_by = ? WHERE id = 42");
[$end, $doneBy] = $scene($lease, $write);
$overwritten = $end === 'writes' && $doneBy === 'A';
$verdict(false, $doneBy, $overwritten ? "A's late write is over B's." : "This was to show a late write: $end.");

$terminal->heading('With a guard', "(new FencedTable(\$db, 'invoice'))->update(42, ['done_by' => ...], \$lock->fence())");
[$end, $doneBy] = $scene($lease, $fencedWrite);
$refused = str_starts_with($end, 'is refused') && $doneBy === 'B';
$verdict($refused, $doneBy, $refused ? "A's late write is refused." : "It was not refused: A $end.");

$terminal->heading('With a lease that interrupts', "new DistributedLock(..., ttl: $seconds, autoRenew: true, abortOnLoss: true)");
try {
    $leaseThatInterrupts();
} catch (ValueError) {
    $terminal->line('  This version of the extension does not have it yet.');
    exit($overwritten && $refused ? 0 : 1);
}
[$end, $doneBy] = $scene($leaseThatInterrupts, $write);
$interrupted = str_starts_with($end, 'is interrupted') && $doneBy === 'B';
$verdict($interrupted, $doneBy, $interrupted ? 'A never comes to its write.' : "It was not interrupted: A $end.");

exit($overwritten && $refused && $interrupted ? 0 : 1);
