<?php

declare(strict_types=1);

namespace RedisLease\Tests\Waiting;

use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\Proc;

use function RedisLease\Tests\Support\timed;

/** A wait that ends in vain ends at its deadline: never before, and not later than 50 ms after. */
final class DeadlineTest extends WaitingTestCase
{
    private const LATEST = 0.05;

    /** Each child waits again and again for a lock that changes hands all the time, and tells what was wrong. */
    private const WAITS = <<<'PHP'
        require $args['herd'];
        $delay = static fn (int|string $pid): float => (int) explode(' ', @file_get_contents("/proc/$pid/schedstat") ?: '0 0')[1] / 1e9;
        $found = herd($args['children'], static function (int $number) use ($args, $delay): array {
            mt_srand($number);
            $latest = $vain = $got = 0;
            $early = [];
            $lock = new DistributedLock('order:1', 10.0, connection: new Connection($args['dsn'], 5.0, 5.0));
            for ($i = 0; $i < $args['waits']; $i++) {
                $wait = mt_rand(1, 40_000) / 1e6;
                $before = $delay('self') + $delay($args['server']);
                $start = hrtime(true);
                $acquired = $lock->acquire($wait);
                $seconds = (hrtime(true) - $start) / 1e9;
                $latest = max($latest, $seconds - $wait - ($delay('self') + $delay($args['server']) - $before));
                if ($acquired) {
                    $got++;
                    usleep(mt_rand(0, 20_000));
                    $lock->release();
                } else {
                    $vain++;
                    if ($seconds < $wait) {
                        $early[] = [$wait, $seconds];
                    }
                }
            }
            return compact('latest', 'vain', 'got', 'early');
        });
        say($found);
        PHP;

    public function testAThousandWaitsUnderContentionEndByTheirDeadlineAndNoneGivesUpEarly(): void
    {
        $herd = dirname(__DIR__) . '/Support/herd.php';
        $args = ['children' => 10, 'waits' => 100, 'server' => self::$server->pid(), 'herd' => $herd];
        $worker = self::worker(self::WAITS, $args);
        $found = $worker->hear(60.0);
        $worker->finish();

        $latest = max(array_column($found, 'latest'));
        $vain = array_sum(array_column($found, 'vain'));
        $got = array_sum(array_column($found, 'got'));
        self::figure('%d waits in vain and %d others: %.1f ms after the deadline at most', $vain, $got, 1e3 * $latest);
        self::assertSame(1_000, $vain + $got);
        self::assertGreaterThan(100, min($vain, $got));
        self::assertSame([], array_merge(...array_column($found, 'early')), 'ended in vain before the deadline');
        self::assertLessThan(self::LATEST, $latest);
        self::assertNothingHeldOrQueued();
    }

    public function testAWaitForALockThatNobodyReleasesEndsByItsDeadline(): void
    {
        $owner = $this->heldLock('order:1');
        $lock = $this->lock('order:1');
        foreach ([0.0, 1e-9, 0.0005, 0.003, 0.02, 0.11, 0.35, 1.02] as $wait) {
            [[$acquired, $all], $ours] = Proc::timed(static fn () => timed(static fn () => $lock->acquire($wait)));

            self::assertFalse($acquired);
            self::assertGreaterThanOrEqual($wait, $all, "wait $wait");
            self::assertLessThan($wait + self::LATEST, $ours, "wait $wait");
        }
        self::assertSame(0, self::blocked());
        self::assertTrue($owner->isHeld());
    }

    /** An idle Redis ends a block up to a tenth of a second late, and a slow line makes all answers late. */
    public function testAWaitOverASlowLineEndsByItsDeadlineAndOneRoundTrip(): void
    {
        $owner = $this->heldLock('order:1');
        $proxy = FaultProxy::start(self::$server);
        $connection = new \RedisLease\Connection($proxy->dsn(), 5.0, 5.0);
        $lock = new \DistributedLock('order:1', 30.0, connection: $connection);
        $lock->acquire();
        $proxy->delay(0.03, 0.03);
        foreach ([0.0, 0.01, 0.1, 0.3] as $wait) {
            [$acquired, $seconds] = Proc::timed(static fn () => $lock->acquire($wait));

            self::assertFalse($acquired);
            self::assertLessThan($wait + 0.06 + self::LATEST, $seconds, "wait $wait");
        }
    }

    public function testTheLongestWaitAllowedIsAcceptedAndNoTrouble(): void
    {
        $owner = $this->heldLock('order:1');
        $waiter = self::waiter()->ready()->wait(31_536_000.0);
        self::awaitBlocked(1);
        $owner->release();
        self::assertTrue($waiter->outcome()->answer);
        $waiter->end();
    }
}
