<?php

declare(strict_types=1);

namespace RedisLease\Tests\Metrics;

use RedisLease\Tests\Support\Fpm;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\PhpProcess;

use function RedisLease\Tests\Support\eventually;

/** The workers of one parent count together, exactly, whatever becomes of them. */
final class SharedTest extends MetricsTestCase
{
    public function testEightFpmWorkersCountTogetherAndOneTellsForAll(): void
    {
        $begun = Janitor::path('.begun');
        mkdir($begun);
        $fpm = Fpm::start(sprintf(<<<'PHP'
            if ($query === 'metrics') {
                exit(RedisLease\Metrics::prometheus());
            }
            // Nobody goes on before all eight are at work: so each request has a worker of its own.
            touch("%1$s/$query");
            for ($by = time() + 60; count(glob('%1$s/*')) < 8 && time() < $by; usleep(1000));
            $lock = new DistributedLock("order:$query");
            for ($done = 0; $done < 1000 && $lock->acquire() && $lock->release(); $done++);
            echo json_encode([$done, getmypid()]);
            PHP, $begun), ['pm.max_children' => 8], ['redis_lease.dsn' => '"' . self::$server->dsn() . '"', 'redis_lease.connect_timeout' => '5', 'redis_lease.command_timeout' => '5']);
        $requests = array_map(static fn ($number) => $fpm->begin("$number"), range(1, 8));
        $answers = array_map(static fn ($request) => json_decode(Fpm::body($request)), $requests);
        self::assertSame(array_fill(0, 8, 1000), array_column($answers, 0), $fpm->log());
        self::assertCount(8, array_unique(array_column($answers, 1)));

        $samples = self::samples($fpm->get('metrics'));
        self::assertSame(1.0, $samples['redis_lease_metrics_shared']);
        self::assertSame(8000.0, $samples['redis_lease_acquires_total{outcome="acquired"}']);
        self::assertSame(8000.0, $samples['redis_lease_releases_total{outcome="released"}']);
        self::assertSame(8000.0, $samples['redis_lease_hold_seconds_count']);
        self::assertSame(8000.0, $samples['redis_lease_hold_seconds_bucket{le="+Inf"}']);
        self::assertSame(8000.0, $samples['redis_lease_validity_left_ratio_count']);
        self::assertSame(0.0, $samples['redis_lease_contention_total']);
        $node = 'node="' . self::$server->socket() . '"';
        self::assertSame(16_000.0, $samples["redis_lease_node_answers_total{{$node}}"]);
        self::assertSame(8.0, $samples["redis_lease_node_connects_total{{$node}}"]);
        $fpm->stop();
    }

    public function testAPoolCanTurnCountingOff(): void
    {
        $fpm = Fpm::start(<<<'PHP'
            try {
                RedisLease\Metrics::snapshot();
            } catch (Error $off) {
                echo $off->getMessage();
            }
            PHP, ['php_admin_value[redis_lease.metrics]' => '0']);
        self::assertSame('Nothing is counted: redis_lease.metrics is 0 in php.ini', $fpm->get(), $fpm->log());
        $fpm->stop();
    }

    /** Killed wherever it is, a worker leaves numbers that add up: what it said it had done, and at most the one under way. */
    public function testAWorkerKilledAtARandomInstantCorruptsNothing(): void
    {
        self::needsPcntl();
        $kills = getenv('REDIS_LEASE_THOROUGH') ? 500 : 40;
        $worker = self::worker(<<<'PHP'
            $done = 0;
            for ($kill = 0; $kill < $args['kills']; $kill++) {
                [$mine, $its] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
                if (($child = pcntl_fork()) === 0) {
                    fclose($mine);
                    $lock = new DistributedLock('order:' . getmypid(), 30.0, connection: $connection);
                    for (;;) {
                        $lock->acquire();
                        $lock->release();
                        fwrite($its, '.');
                    }
                }
                fclose($its);
                fread($mine, 1);
                usleep(mt_rand(0, 5000));
                exec("kill -9 $child");
                pcntl_waitpid($child, $status);
                $done += 1 + strlen(stream_get_contents($mine));
                fclose($mine);
            }
            say([$done, RedisLease\Metrics::snapshot(), RedisLease\Metrics::prometheus()]);
            PHP, ['kills' => $kills]);
        [$done, $snapshot, $text] = $worker->hear(120.0);
        self::assertGreaterThan($kills, $done);
        $between = static function (int $number, string $what) use ($done, $kills): void {
            self::assertGreaterThanOrEqual($done, $number, $what);
            self::assertLessThanOrEqual($done + $kills, $number, $what);
        };
        $between($snapshot['acquires']['acquired'], 'acquired');
        $between($snapshot['releases']['released'], 'released');
        $between($snapshot['hold_seconds']['count'], 'held');
        self::assertSame($snapshot['hold_seconds']['count'], $snapshot['hold_seconds']['buckets']['+Inf']);
        self::assertSame($kills, array_sum($snapshot['node_connects']));
        self::assertSame((float) $snapshot['acquires']['acquired'], self::samples($text)['redis_lease_acquires_total{outcome="acquired"}']);
        $worker->finish();
    }

    public function testAForkedChildCountsWithItsParentItsThreadToo(): void
    {
        self::needsPcntl();
        $worker = self::worker(<<<'PHP'
            $held = new DistributedLock('order:parent', 30.0, connection: $connection);
            $held->acquire();
            for ($child = 1; $child <= 3; $child++) {
                if (pcntl_fork() === 0) {
                    $lock = new DistributedLock("order:$child", 0.3, true, $connection);
                    $lock->acquire();
                    usleep(250_000);
                    exit(0);
                }
            }
            while (pcntl_wait($status) > 0);
            $before = RedisLease\Metrics::snapshot();
            if (pcntl_fork() === 0) {
                RedisLease\Metrics::reset();
                exit(0);
            }
            while (pcntl_wait($status) > 0);
            say([$before, RedisLease\Metrics::snapshot()]);
            PHP);
        [$before, $after] = $worker->hear(30.0);
        self::assertSame(['acquired' => 4], self::used($before['acquires']));
        self::assertSame(['released' => 3], self::used($before['releases']), 'what only the parent holds no child releases');
        self::assertGreaterThanOrEqual(3, $before['renewals']['thread']['renewed']);
        self::assertSame([], self::used($after['acquires']), 'set to zero for all');
        self::assertGreaterThan($before['metrics_start_time_seconds'], $after['metrics_start_time_seconds']);
        $worker->finish();
    }

    public function testCommandsThatAreStartedOneByOneCountEachForItself(): void
    {
        $code = '$lock = new DistributedLock("order:1"); $lock->acquire(); $lock->release();'
            . 'echo RedisLease\Metrics::snapshot()["acquires"]["acquired"];';
        foreach ([1, 2] as $_) {
            self::assertSame('1', PhpProcess::run($code, ['redis_lease.dsn' => self::$server->dsn()])->output());
        }
    }

}
