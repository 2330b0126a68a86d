<?php

declare(strict_types=1);

namespace RedisLease\Tests\Metrics;

use DistributedLock;
use Error;
use RedisLease\Metrics;
use RedisLease\Tests\Support\PhpProcess;
use RedisLease\Tests\Support\WebServer;

/** What prometheus(), snapshot() and phpinfo tell, and by which settings. */
final class TextTest extends MetricsTestCase
{
    public function testBothTellTheSameUnderTheSameNames(): void
    {
        $this->heldLock('order:1')->release();
        [$text, $snapshot] = [Metrics::prometheus(), Metrics::snapshot()];
        preg_match_all('/^# TYPE redis_lease_(\w+) (counter|gauge|histogram)$/m', $text, $types, PREG_SET_ORDER);
        preg_match_all('/^# HELP redis_lease_(\w+) .+\.$/m', $text, $helps);
        self::assertSame($helps[1], array_column($types, 1), 'each has a meaning and a type');
        $kinds = array_combine(array_column($types, 1), array_column($types, 2));
        foreach ($kinds as $name => $kind) {
            self::assertSame($kind === 'counter', str_ends_with($name, '_total'), $name);
        }
        $names = array_map(static fn ($name) => preg_replace('/_total$/', '', $name), array_keys($kinds));
        self::assertSame($names, array_keys($snapshot));

        $samples = self::samples($text);
        self::assertSame((float) $snapshot['acquires']['acquired'], $samples['redis_lease_acquires_total{outcome="acquired"}']);
        self::assertSame(1, $snapshot['acquires']['acquired']);
        foreach (['wait_seconds', 'hold_seconds', 'validity_left_ratio', 'renewal_lag_seconds'] as $name) {
            $before = 0;
            foreach ($snapshot[$name]['buckets'] as $bound => $count) {
                self::assertGreaterThanOrEqual($before, $count, "$name is cumulative");
                self::assertSame((float) $count, $samples["redis_lease_{$name}_bucket{le=\"$bound\"}"]);
                $before = $count;
            }
            self::assertSame($before, $snapshot[$name]['count']);
            self::assertSame((float) $before, $samples["redis_lease_{$name}_count"]);
            self::assertEqualsWithDelta($snapshot[$name]['sum'], $samples["redis_lease_{$name}_sum"], 1e-12);
        }
    }

    public function testNoResourceIsNamedUnlessItsPrefixIsAskedFor(): void
    {
        $code = <<<'PHP'
            foreach (['order:eu:1', 'order:2', 'secret'] as $name) {
                $lock = new DistributedLock($name, 5.0);
                $lock->acquire();
                (new DistributedLock($name, 5.0))->acquire(0.01);
                $lock->release();
            }
            $lost = new DistributedLock('order:3', 0.02);
            $lost->acquire();
            usleep(50_000);
            $lost->release();
            echo json_encode([RedisLease\Metrics::snapshot(), RedisLease\Metrics::prometheus()]);
            PHP;
        $dsn = ['redis_lease.dsn' => self::$server->dsn()];
        [$snapshot, $text] = json_decode(PhpProcess::run($code, $dsn)->output(), true);
        self::assertSame([], $snapshot['prefix_acquires']);
        self::assertStringNotContainsString('order', $text);

        self::$server->flush();
        $output = PhpProcess::run($code, $dsn + ['redis_lease.metrics_prefixes' => '"order: order:eu:  x"'])->output();
        [$snapshot, $text] = json_decode($output, true);
        self::assertSame(['order:' => 2, 'order:eu:' => 1, 'x' => 0], $snapshot['prefix_acquires']);
        self::assertSame(['order:' => 1, 'order:eu:' => 1, 'x' => 0], $snapshot['prefix_contention']);
        self::assertSame(['order:' => 1, 'order:eu:' => 0, 'x' => 0], $snapshot['prefix_losses']);
        self::assertGreaterThan(0.01, $snapshot['prefix_hold_seconds']['order:eu:']);
        self::assertGreaterThan(0.005, $snapshot['prefix_wait_seconds']['order:']);
        self::assertStringNotContainsString('secret', $text);
        self::assertSame(2.0, self::samples($text)['redis_lease_prefix_acquires_total{prefix="order:"}']);
    }

    public function testPrefixesThatCannotBeUsedAreRefusedWithAWarning(): void
    {
        foreach ([implode(' ', range(1, 33)), str_repeat('x', 65), "\xff"] as $prefixes) {
            $process = PhpProcess::run('echo json_encode(ini_get("redis_lease.metrics_prefixes"));', ['redis_lease.metrics_prefixes' => "\"$prefixes\""]);
            self::assertStringContainsString('redis_lease.metrics_prefixes must be at most 32 prefixes of at most 64 bytes', $process->everything());
            self::assertStringEndsWith('""', $process->output());
        }
    }

    public function testTurnedOffNothingIsCountedOrTold(): void
    {
        $code = <<<'PHP'
            $lock = new DistributedLock('order:1', 5.0);
            $result = [$lock->acquire(), $lock->release()];
            foreach (['snapshot', 'prometheus', 'reset'] as $method) {
                try {
                    $result[] = [RedisLease\Metrics::$method()];
                } catch (Error $off) {
                    $result[] = $off->getMessage();
                }
            }
            echo json_encode($result);
            PHP;
        $result = json_decode(PhpProcess::run($code, ['redis_lease.dsn' => self::$server->dsn(), 'redis_lease.metrics' => '0'])->output(), true);
        $off = 'Nothing is counted: redis_lease.metrics is 0 in php.ini';
        self::assertSame([true, true, $off, $off, $off], $result);
        $info = PhpProcess::runArguments(['--ri', 'redis_lease'], ['redis_lease.metrics' => '0'])->output();
        self::assertMatchesRegularExpression('/^Metrics => off$/m', $info);
    }

    public function testPhpinfoShowsTheTotals(): void
    {
        $code = <<<'PHP'
            $lock = new DistributedLock('order:1', 5.0);
            $lock->acquire();
            (new DistributedLock('order:1', 5.0))->acquire();
            (new DistributedLock('order:1', 5.0))->forceRelease();
            $lock->release();
            (new ReflectionExtension('redis_lease'))->info();
            PHP;
        $info = PhpProcess::run($code, ['redis_lease.dsn' => self::$server->dsn()])->output();
        foreach (['Leases granted => 1', 'Found contended => 1', 'Leases lost => 1', 'Not acquired for a fault => 0', 'Outcomes reported as unknown => 0', 'Metrics => shared by all workers of one parent'] as $row) {
            self::assertMatchesRegularExpression("/^$row\$/m", $info);
        }
    }

    public function testTheExampleServesThemAndKeepsOthersOut(): void
    {
        $example = dirname(__DIR__, 2) . '/examples/metrics.php';
        $samples = self::samples(PhpProcess::runFile($example)->output());
        self::assertSame(0.0, $samples['redis_lease_contention_total']);
        $answered = [];
        $server = WebServer::start("putenv('METRICS_TOKEN=secret'); require '$example';");
        self::assertStringStartsWith('METRICS_TOKEN is set', $server->get('/', [], $answered));
        self::assertStringContainsString('403', $answered[0]);
        $body = $server->get('/', ['Authorization: Bearer secret'], $answered);
        self::assertStringContainsString('200', $answered[0]);
        self::assertContains('Content-Type: text/plain; version=0.0.4; charset=utf-8', array_map(static fn ($line) => preg_replace('/^content-type/i', 'Content-Type', str_replace(';charset', '; charset', $line)), $answered));
        self::assertSame(0.0, self::samples($body)['redis_lease_contention_total']);
        $server->stop();
    }

    public function testNobodyMakesAnObjectOfIt(): void
    {
        $this->expectException(Error::class);
        $this->expectExceptionMessage('private RedisLease\Metrics::__construct()');
        new Metrics();
    }

    public function testArgumentsAreRefused(): void
    {
        $this->expectException(\ArgumentCountError::class);
        Metrics::snapshot(1);
    }
}
