<?php

declare(strict_types=1);

namespace RedisLease\Tests\Renewal;

use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\Monitor;

use function RedisLease\Tests\Support\eventually;

/** Forks with the thread running: the parent goes on renewing, the child renews nothing of it and can begin anew. */
final class ForkTest extends RenewalTestCase
{
    public static function setUpBeforeClass(): void
    {
        self::needsPcntl();
        parent::setUpBeforeClass();
    }

    public function testTheParentGoesOnAndTheChildHasNothingOfIt(): void
    {
        $worker = self::renewing(<<<'PHP'
            $lock = $new('order:1', 0.6, true);
            $lock->acquire();
            $token = $lock->token();
            if (($child = pcntl_fork()) === 0) {
                say([$lock->isHeld(), $lock->token(), $lock->remaining(), $lock->loss(), $lock->release(), $lock->renew(), $threads()]);
                hear();
                exit(0);
            }
            pcntl_waitpid($child, $status);
            say([$status, $lock->isHeld(), $threads()]);
            hear();
            say([$lock->isHeld(), $lock->token() === $token, $lock->release()]);
            PHP);
        self::assertSame([false, null, 0.0, null, false, false, []], $worker->hear());
        usleep(800_000);
        self::assertIsString(self::stored('order:1'), 'the parent renews it while the child lives');
        $worker->say();
        self::assertSame([0, true, ['lease-renewal']], $worker->hear());
        usleep(800_000);
        $worker->say();
        self::assertSame([true, true, true], $worker->hear());
        $worker->finish();
    }

    public function testAChildRenewsItsOwnLeasesByAThreadOfItsOwn(): void
    {
        $worker = self::renewing(<<<'PHP'
            $lock = $new('parent', 0.6);
            $lock->acquire();
            $keep = static function (string $name) use ($new, $now, $threads): array {
                $own = $new($name, 0.3, true);
                $acquired = $own->acquire();
                for ($start = $now(), $lost = 0; $now() - $start < 1.0;) {
                    $lost += $own->isHeld() ? 0 : 1;
                    usleep(1000);
                }
                return [$name, $acquired, $lost, $threads(), $own->release()];
            };
            if (pcntl_fork() === 0) {
                if (pcntl_fork() === 0) {
                    say($keep('grandchild'));
                    exit(0);
                }
                say($keep('child'));
                pcntl_wait($status);
                exit($status);
            }
            pcntl_wait($status);
            say([$status, $lock->isHeld(), $lock->release()]);
            PHP);
        $heard = [$worker->hear(), $worker->hear()];
        sort($heard);
        self::assertSame([['child', true, 0, ['lease-renewal'], true], ['grandchild', true, 0, ['lease-renewal'], true]], $heard);
        self::assertSame([0, true, true], $worker->hear());
        $worker->finish();
    }

    public function testOnlyTheParentsConnectionRenewsWhatTheParentHolds(): void
    {
        $stop = Janitor::path('.stop');
        $worker = self::renewing(<<<'PHP'
            $lock = $new('order:1', 0.3);
            $lock->acquire();
            for ($i = 0; $i < 3; $i++) {
                if (pcntl_fork() === 0) {
                    $own = $new("child:$i", 0.3);
                    $own->acquire();
                    while (!file_exists($args['stop'])) {
                        usleep(10_000);
                    }
                    exit(0);
                }
            }
            say('forked');
            while (!file_exists($args['stop'])) {
                usleep(10_000);
            }
            PHP, ['stop' => $stop]);
        $worker->hear();
        // A second in which a busy machine kept somebody from renewing tells nothing.
        for ($try = 1, $renewals = [0]; min($renewals) < 6 && $try <= 5; $try++) {
            $monitor = Monitor::start(self::$server);
            usleep(1_000_000);
            $renewals = array_count_values(array_column(array_filter(self::scripts($monitor), static fn ($run) => $run[0] === 'renew'), 1));
        }
        self::assertCount(4, $renewals);
        foreach ($renewals as $lock => $count) {
            self::assertGreaterThanOrEqual(6, $count, $lock);
            self::assertLessThanOrEqual(14, $count, "$lock: renewed once, not by each process");
        }
        touch($stop);
        $worker->finish();
        $monitor->close();
    }

    public function testTheLossOfTheParentsLeaseStopsTheParentAndNoChild(): void
    {
        $worker = self::renewing(<<<'PHP'
            $lock = $new('order:1', 0.3, true);
            $lock->acquire();
            if (($child = pcntl_fork()) === 0) {
                try {
                    // Waits see nothing of it either, and sleep.
                    $waits = (new DistributedLock('taken', connection: $connection))->acquire(0.8);
                    $used = getrusage();
                    for ($start = $now(); $now() - $start < 0.2;);
                    say(['child', 'went on', $waits, $used['ru_utime.tv_sec'] + ($used['ru_utime.tv_usec'] + $used['ru_stime.tv_usec']) / 1e6 < 0.2]);
                } catch (LeaseLostException) {
                    say(['child', 'was stopped']);
                }
                exit(0);
            }
            try {
                say('forked');
                // The bell is rung and not heard for a while.
                usleep(1_000_000);
                while (true);
            } catch (LeaseLostException $lost) {
                say(['parent', $lost->loss]);
            }
            pcntl_wait($status);
            PHP);
        self::$server->command('SET', 'lock:taken', 'another', 'PX', 60_000);
        self::assertSame('forked', $worker->hear());
        self::$server->command('DEL', 'lock:order:1');
        $heard = [$worker->hear(), $worker->hear()];
        sort($heard);
        self::assertSame([['parent', 'deleted'], ['child', 'went on', false, true]], $heard);
        $worker->finish();
    }

    /** A fork right after the loss copies the flag that stops the parent. */
    public function testAForkAtTheMomentOfTheLossTellsOnlyTheParent(): void
    {
        $worker = self::renewing(<<<'PHP'
            $told = 0;
            for ($i = 0; $i < 10; $i++) {
                $lock = $new('order:1', 0.03, true);
                $parent = getmypid();
                // On a busy machine the loss may be told before the fork.
                try {
                    $lock->acquire(5.0);
                    $stream = stream_socket_client($args['socket']);
                    fwrite($stream, "DEL lock:order:1\r\n");
                    fgets($stream);
                    usleep(8_000 + $i * 1000);
                    $child = pcntl_fork();
                    for ($start = $now(); $now() - $start < 0.05;);
                } catch (LeaseLostException) {
                    if (getmypid() !== $parent) {
                        exit(9);
                    }
                    $told++;
                }
                if (getmypid() !== $parent) {
                    exit(0);
                }
                if (($child ?? 0) > 0) {
                    pcntl_waitpid($child, $status);
                    if ($status !== 0) {
                        exit(8);
                    }
                }
                $child = 0;
            }
            say($told);
            PHP, ['socket' => 'unix://' . self::$server->socket()]);
        self::assertSame(10, $worker->hear(20.0));
        $worker->finish();
    }

    public function testNoForkUnderLoadLeavesAChildThatHangs(): void
    {
        $forks = self::thorough(1000, 150);
        $worker = self::renewing(<<<'PHP'
            // Many renewals at any moment, so that forks meet the thread in the middle of them.
            $locks = [];
            for ($i = 0; $i < 20; $i++) {
                $locks[] = $lock = $new("parent:$i", 0.1 + $i / 100);
                $lock->acquire();
            }
            $bad = 0;
            for ($fork = 0; $fork < $args['forks']; $fork++) {
                if (($child = pcntl_fork()) === 0) {
                    $own = $new('child:' . getmypid(), 1.0);
                    $good = !$locks[0]->isHeld() && $own->acquire() && $own->isHeld();
                    // Some see renewals of their own.
                    usleep($fork % 10 === 0 ? 500_000 : ($fork % 3) * 10_000);
                    exit($good && $own->release() ? 0 : 1);
                }
                $children[$child] = true;
                while (count($children) >= 4 || ($fork + 1 === $args['forks'] && $children !== [])) {
                    unset($children[pcntl_wait($status)]);
                    $bad = $status === 0 ? $bad : $status;
                }
                if ($fork % 50 === 0) {
                    say($fork);
                }
            }
            $held = count(array_filter($locks, static fn ($lock) => $lock->loss() !== 'deleted' && $lock->loss() !== 'taken'));
            say([$bad, $held, $threads()]);
            PHP, ['forks' => $forks]);
        // A child that hangs keeps the worker from ever saying the next number.
        for ($fork = 0; $fork < $forks; $fork += 50) {
            self::assertSame($fork, $worker->hear(30.0));
        }
        self::assertSame([0, 20, ['lease-renewal']], $worker->hear(30.0));
        $worker->finish();
    }

    public function testAnAcquireThatASignalInterruptedIsNotRenewed(): void
    {
        $other = $this->heldLock('order:1', 60.0);
        $worker = self::renewing(<<<'PHP'
            pcntl_async_signals(true);
            pcntl_signal(SIGUSR1, static fn () => throw new DomainException());
            $lock = $new('order:1', 0.3);
            say(thrown(static fn () => $lock->acquire(30.0)));
            hear();
            say($lock->isHeld());
            PHP);
        eventually(static fn () => preg_match('/^blocked_clients:1/m', self::$server->command('INFO', 'clients')), 'it waits');
        $monitor = Monitor::start(self::$server);
        $worker->signal(SIGUSR1);
        self::assertSame('DomainException', $worker->hear());
        self::assertTrue($other->release());
        usleep(500_000);
        self::assertSame(0, self::renewals($monitor));
        self::assertNull(self::stored('order:1'));
        $worker->say();
        self::assertFalse($worker->hear());
        $worker->finish();
        $monitor->close();
    }
}
