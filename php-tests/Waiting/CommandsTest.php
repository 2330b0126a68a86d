<?php

declare(strict_types=1);

namespace RedisLease\Tests\Waiting;

use RedisLease\Tests\Support\Monitor;
use RedisLease\Tests\Support\MonitorLine;

/** What contention costs the server, counted by MONITOR: what clients send, not what scripts do inside. */
final class CommandsTest extends WaitingTestCase
{
    /** Every child does its sections, and tells how long it waited for each. */
    private const SECTIONS = <<<'PHP'
        require $args['herd'];
        say('ready');
        hear();
        $start = hrtime(true);
        $waits = herd($args['workers'], static function (int $number) use ($args): array {
            $lock = new DistributedLock('order:1', 30.0, connection: new Connection($args['dsn'], 5.0, 5.0));
            for ($waits = [], $section = 0; $section < $args['sections']; $section++) {
                $before = hrtime(true);
                if (!$lock->acquire(60.0)) {
                    return [];
                }
                $waits[] = (hrtime(true) - $before) / 1e9;
                usleep($args['microseconds']);
                $lock->release();
            }

            return $waits;
        });
        say([(hrtime(true) - $start) / 1e9, $waits]);
        PHP;

    public function testSixteenWorkersNeedAtMostFiveCommandsASectionAndNobodyWaitsLong(): void
    {
        [$perSection, $ownLooks, $seconds, $waits] = $this->sections(16, 20, 1_000);

        $fairShare = $seconds / 20;
        $longest = max(array_merge(...$waits));
        self::figure('16 × 20 sections of 1 ms: %.2f commands a section, %.0f sections/s', $perSection, 320 / $seconds);
        self::figure('longest wait %.1f ms, %.2f of the fair share (2.5 promised)', 1e3 * $longest, $longest / $fairShare);
        self::assertLessThanOrEqual(5.0 + $ownLooks, $perSection);
        self::assertLessThan(8 * $fairShare, $longest);
    }

    public function testTheCommandsOfASectionDoNotGrowWithAHundredWaiters(): void
    {
        [$perSection, $ownLooks, $seconds] = $this->sections(100, 3, 1_000);

        self::figure('100 × 3 sections of 1 ms: %.2f commands a section, %.0f sections/s', $perSection, 300 / $seconds);
        self::assertLessThanOrEqual(5.0 + $ownLooks, $perSection);
    }

    public function testAnAttemptWithoutAWaitIsOneRoundTripAndMakesNobodyWake(): void
    {
        $owner = $this->heldLock('order:1');
        $lock = $this->lock('order:1');
        $monitor = Monitor::start(self::$server);
        for ($round = 0; $round < 20; $round++) {
            self::assertFalse($lock->acquire(0.0));
            self::assertSame(['EVALSHA'], self::names($monitor->commands()));
        }
        $owner->release();
        self::assertNothingHeldOrQueued();
        $monitor->commands();
        self::assertTrue($lock->acquire(0.0));
        self::assertSame(['EVALSHA'], self::names($monitor->commands()));
        $monitor->close();
    }

    public function testALockThatIsFreeCostsOneRoundTripWhateverTheWait(): void
    {
        $lock = $this->lock('order:1');
        $monitor = Monitor::start(self::$server);
        for ($round = 0; $round < 20; $round++) {
            self::assertTrue($lock->acquire(10.0));
            self::assertTrue($lock->release());
            self::assertLessThanOrEqual(2 + 2 * (int) ($round === 0), count($monitor->commands()));
        }
        self::assertSame(1, count(self::clients(' cmd=eval')), 'no second connection was opened');
        $monitor->close();
    }

    /**
     * @return array{float, float, float, list<list<float>>} commands a section; those that are due to waiters that
     *     look for themselves every second or two, at most; seconds for all sections; the waits of each worker
     */
    private function sections(int $workers, int $sections, int $microseconds): array
    {
        // Scripts that the server knows already, as any server does that has run for a second.
        $this->heldLock('warm')->release();
        $herd = dirname(__DIR__) . '/Support/herd.php';
        $worker = self::worker(self::SECTIONS, compact('workers', 'sections', 'microseconds', 'herd'));
        $worker->hear();
        $monitor = Monitor::start(self::$server);
        $worker->say();
        [$seconds, $waits] = $worker->hear(60.0);
        $commands = $monitor->commands();
        $monitor->close();
        $worker->finish();
        self::assertSame(array_fill(0, $workers, $sections), array_map(count(...), $waits), 'every section was had');
        // Each worker's two connections begin with a PING, and the second asks for its id.
        $sent = array_filter($commands, static fn (MonitorLine $line) => !in_array($line->name(), ['PING', 'CLIENT'], true));
        self::assertNothingHeldOrQueued();

        $all = $workers * $sections;

        return [count($sent) / $all, $workers * $seconds / $all, $seconds, $waits];
    }

    /**
     * @param list<MonitorLine> $commands
     * @return list<string>
     */
    private static function names(array $commands): array
    {
        return array_map(static fn (MonitorLine $line) => $line->name(), $commands);
    }
}
