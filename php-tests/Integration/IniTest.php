<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use RedisLease\Tests\Support\PhpProcess;
use RedisLease\Tests\Support\ServerTestCase;
use RedisLease\Tests\Support\Worker;
use ReflectionExtension;

/** The ini settings: readable, changeable where they say so, and effective. */
final class IniTest extends ServerTestCase
{
    private const DEFAULTS = [
        'redis_lease.command_timeout' => '0.5',
        'redis_lease.connect_timeout' => '0.5',
        'redis_lease.dsn' => 'redis://127.0.0.1:6379',
        'redis_lease.max_hold' => '3600',
        'redis_lease.metrics' => '1',
        'redis_lease.metrics_prefixes' => '',
        'redis_lease.prefix' => 'lock:',
        'redis_lease.release_on_shutdown' => '1',
        'redis_lease.spin' => '100',
        'redis_lease.ttl' => '10',
    ];

    public function testTheSettingsAreTheDocumentedOnesWithTheirDefaults(): void
    {
        $process = PhpProcess::run('echo json_encode(ini_get_all("redis_lease", false));');
        $settings = json_decode($process->output(), true);
        ksort($settings);

        self::assertSame(self::DEFAULTS, $settings);
        $entries = array_keys((new ReflectionExtension('redis_lease'))->getINIEntries());
        sort($entries);
        self::assertSame(array_keys(self::DEFAULTS), $entries);
    }

    public function testAllButTheWorkerWideSettingCanBeChangedAtRunTime(): void
    {
        foreach (ini_get_all('redis_lease') as $name => $setting) {
            $access = str_starts_with($name, 'redis_lease.metrics') ? INI_SYSTEM : INI_ALL;
            self::assertSame($access, $setting['access'], $name);
        }
        $process = PhpProcess::run('var_dump(ini_set("redis_lease.metrics", "0"), ini_get("redis_lease.metrics"));');
        self::assertStringContainsString('bool(false)', $process->output());
        self::assertStringContainsString('string(1) "1"', $process->output());
    }

    public function testTheDsnPrefixAndTtlAreWhatALockWithoutArgumentsUses(): void
    {
        $worker = $this->workerWith([
            'redis_lease.dsn' => '"' . self::$server->dsn(['db' => 3]) . '"',
            'redis_lease.prefix' => 'app:',
            'redis_lease.ttl' => '120',
        ], '$lock = new DistributedLock("order:1"); say([$lock->acquire(), $lock->remaining()]); hear();');
        [$acquired, $remaining] = $worker->hear();

        self::assertTrue($acquired);
        self::assertEqualsWithDelta(120 * 0.99, $remaining, 1.0);
        $client = self::$server->connect(3);
        self::assertIsString($client->command('GET', 'app:order:1'));
        self::assertEqualsWithDelta(120_000, $client->command('PTTL', 'app:order:1'), 1_000);
        $worker->say();
        $worker->finish();
    }

    public function testAChangeAtRunTimeHoldsForTheNextObject(): void
    {
        $worker = self::worker(<<<'PHP'
            ini_set('redis_lease.dsn', $args['dsn']);
            ini_set('redis_lease.prefix', 'one:');
            $one = new DistributedLock('order:1');
            $one->acquire();
            ini_set('redis_lease.prefix', 'two:');
            ini_set('redis_lease.ttl', '90.5');
            $two = new DistributedLock('order:1');
            $two->acquire();
            $one->renew();
            say('held');
            hear();
            ini_restore('redis_lease.ttl');
            say((new DistributedLock('order:1', connection: $connection))->acquire());
            say([ini_get('redis_lease.ttl'), ini_get('redis_lease.prefix')]);
            PHP);
        $worker->hear();

        self::assertEqualsWithDelta(10_000, self::$server->command('PTTL', 'one:order:1'), 1_000);
        self::assertEqualsWithDelta(90_500, self::$server->command('PTTL', 'two:order:1'), 1_000);
        $worker->say();
        self::assertTrue($worker->hear());
        self::assertSame(['10', 'two:'], $worker->hear());
        $worker->finish();
    }

    public function testTheTimeoutsHold(): void
    {
        $worker = $this->workerWith([
            'redis_lease.dsn' => '"' . self::$server->dsn() . '"',
            'redis_lease.connect_timeout' => '0.1',
            'redis_lease.command_timeout' => '0.15',
        ], <<<'PHP'
            $lock = new DistributedLock('order:1');
            say($lock->acquire());
            hear();
            $start = hrtime(true);
            $caught = thrown(static fn () => $lock->renew());
            say([$caught, (hrtime(true) - $start) / 1e9]);
            hear();
            PHP);
        self::assertTrue($worker->hear());
        self::$server->pause();
        try {
            $worker->say();
            [$caught, $seconds] = $worker->hear();
        } finally {
            self::$server->resume();
        }
        self::assertSame(\RedisLease\OutcomeUnknownException::class, $caught);
        self::assertGreaterThan(0.1, $seconds);
        self::assertLessThan(0.1 + 0.15 + 0.1, $seconds);
        $worker->say();
        $worker->finish();
    }

    public function testASettingThatMakesNoSenseIsRefusedWhereItIsMadeOrWhereItIsUsed(): void
    {
        $bad = [
            'redis_lease.ttl' => ['0', '-1', 'abc', '', '1e300', 'nan', '0.001'],
            'redis_lease.connect_timeout' => ['0', '-1', 'abc', 'inf', 'nan', '1e300'],
            'redis_lease.command_timeout' => ['0', '-1', 'abc', 'inf', 'nan', '1e300'],
            'redis_lease.dsn' => ['', 'nonsense', 'redis://host:0', 'http://host'],
        ];
        $worker = self::worker(<<<'PHP'
            while (([$name, $value] = hear()) && $name !== null) {
                if (@ini_set($name, $value) === false) {
                    say(['refused', '']);
                    continue;
                }
                try {
                    Connection::default();
                    (new DistributedLock('order:1', connection: $connection))->acquire();
                    say(['accepted', '']);
                } catch (Throwable $caught) {
                    say([$caught::class, $caught->getMessage()]);
                }
                ini_restore($name);
            }
            PHP);
        foreach ($bad as $name => $values) {
            foreach ($values as $value) {
                $worker->say([$name, $value]);
                [$outcome, $message] = $worker->hear();
                self::assertContains($outcome, ['refused', \ValueError::class], "$name = '$value': $message");
                if ($outcome !== 'refused') {
                    self::assertStringContainsString($name, $message, "$name = '$value'");
                }
            }
        }
        $worker->say([null, null]);
        $worker->finish();
    }

    public function testABadSettingInPhpIniDoesNotKeepPhpFromStarting(): void
    {
        foreach (['redis_lease.ttl' => 'abc', 'redis_lease.dsn' => '"http://x"', 'redis_lease.spin' => '-5'] as $name => $value) {
            $process = PhpProcess::run('echo "runs";', [$name => $value]);
            self::assertSame(0, $process->wait(), "$name = $value");
            self::assertStringContainsString('runs', $process->output(), "$name = $value");
        }
    }

    /** @param array<string, string> $ini */
    private function workerWith(array $ini, string $snippet): Worker
    {
        return self::worker($snippet, [], $ini);
    }
}
