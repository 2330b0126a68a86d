<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use RedisLease\Tests\Support\ServerTestCase;

/** Looking for an answer awake must never keep the server from running. */
final class SpinTest extends ServerTestCase
{
    /**
     * Who spins on the server's own core is thrown off it once for every answer; who sleeps is only now and then,
     * as the kernel likes. The process may use two cores when it starts, so it does try to spin. A trial on a busy
     * machine can speak for spinning, for one turn: so one connection of several must show that it prefers to sleep.
     */
    public function testOnTheServersOwnCoreItSleeps(): void
    {
        $counts = [];
        do {
            $counts[] = $this->timesThrownOff();
        } while (end($counts) >= 400 && count($counts) < 6);

        self::assertLessThan(400, min($counts), 'of 800 answers, in each of: ' . implode(', ', $counts));
    }

    private function timesThrownOff(): int
    {
        preg_match('/^Cpus_allowed_list:\s*(\d+)(.?)/m', (string) file_get_contents('/proc/self/status'), $allowed);
        if (!in_array($allowed[2], ['-', ','], true)) {
            self::markTestSkipped('With one core it never spins.');
        }
        $worker = self::worker(<<<'PHP'
            $lock = new DistributedLock('spin', 30.0, connection: $connection);
            $thrownOff = static fn () => (int) preg_replace(
                '/.*nonvoluntary_ctxt_switches:\s*(\d+).*/s', '$1', file_get_contents('/proc/self/status'));
            $cycle = static fn () => $lock->acquire() && $lock->release();
            say($cycle());
            hear();
            // Long enough for a trial of either way, and for a turn of the better one.
            for ($i = 0; $i < 100; $i++) { $cycle(); }
            $before = $thrownOff();
            for ($i = 0; $i < 400; $i++) { $cycle(); }
            say($thrownOff() - $before);
            PHP, ini: ['redis_lease.spin' => '1000']);
        self::assertTrue($worker->hear());
        foreach ([self::$server->pid(), $worker->pid()] as $pid) {
            exec("taskset -acp $allowed[1] $pid 2>&1", $output, $code);
            self::assertSame(0, $code, implode("\n", $output));
        }
        $worker->say();
        $count = $worker->hear(30.0);
        $worker->finish();

        return $count;
    }
}
