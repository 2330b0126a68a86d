<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Laravel;

use DistributedLock;
use Illuminate\Bus\UniqueLock;
use Illuminate\Console\Scheduling\CacheEventMutex;
use Illuminate\Console\Scheduling\CacheSchedulingMutex;
use Illuminate\Console\Scheduling\Event;
use Illuminate\Contracts\Console\Kernel;
use Illuminate\Foundation\Application;
use Illuminate\Queue\Middleware\WithoutOverlapping;
use Illuminate\Support\Facades\Cache;
use InvalidArgumentException;
use RedisLease\Bridge\Laravel\LeaseLock;
use RedisLease\Bridge\LeaseFactory;
use RedisLease\Tests\Bridge\CommandLines;
use RedisLease\Tests\Bridge\Database\Needs;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\PhpProcess;
use Symfony\Component\Console\Tester\CommandTester;

/** A booted application, which has found the package by itself. */
final class ApplicationTest extends LaravelTestCase
{
    public function testTheCachesLocksAreLeasesAndItsValuesAreNot(): void
    {
        $this->app();
        $lock = Cache::lock('order:1', 30);

        self::assertInstanceOf(LeaseLock::class, $lock);
        self::assertTrue($lock->get());
        self::assertSame($lock->owner(), self::stored('order:1'));
        self::assertIsInt($lock->fence());
        Cache::put('order:1', 'value', 60);
        self::assertSame('value', Cache::get('order:1'));
        self::assertSame('value', Cache::store('memory')->get('order:1'));
        self::assertTrue(Cache::restoreLock('order:1', $lock->owner())->release());
    }

    public function testTheSettingsReachTheLocks(): void
    {
        $app = $this->app(['prefix' => 'app:', 'ttl' => 7.0, 'connect_timeout' => 2, 'command_timeout' => '2.5']);
        self::assertTrue(Cache::lock('order:1', 30)->get());
        self::assertNotNull(self::$server->command('GET', 'app:order:1'));

        $lease = $app->make(LeaseFactory::class)->create('order:2');
        self::assertTrue($lease->acquire());
        self::assertLessThanOrEqual(7_000, self::$server->command('PTTL', 'app:order:2'));
    }

    public function testApplicationsThatShareARedisDoNotShareLocks(): void
    {
        $app = $this->app();
        $app->make('config')->set('cache.prefix', 'shop_cache');

        self::assertTrue(Cache::lock('order:1', 30)->get());

        self::assertNotNull(self::$server->command('GET', 'lock:shop_cache:order:1'));
    }

    public function testWithoutADsnTheIniSettingCounts(): void
    {
        $before = ini_set('redis_lease.dsn', self::$server->dsn());
        try {
            $app = $this->app(['dsn' => null]);
            self::assertTrue(Cache::lock('order:1', 30)->get());
            self::assertNotNull(self::stored('order:1'));
            self::assertInstanceOf(DistributedLock::class, $app->make(LeaseFactory::class)->create('x'));
        } finally {
            ini_set('redis_lease.dsn', $before);
        }
    }

    public function testAStoreWithoutAnotherForItsValuesIsRefused(): void
    {
        $this->app(stores: [
            'wrong' => ['driver' => 'redis_lease'],
            'handed on' => ['driver' => 'of another package', 'store' => 'wrong'],
            'round and round' => ['driver' => 'of another package', 'store' => 'round and round'],
            'failover' => ['driver' => 'failover', 'stores' => ['memory', 'wrong']],
        ]);
        foreach ([null, '', 'wrong', 'leases', 'handed on', 'failover', 'round and round'] as $values) {
            config(['cache.stores.wrong.store' => $values]);
            try {
                Cache::store('wrong');
                self::fail('nothing would keep the values');
            } catch (InvalidArgumentException $refusal) {
                // Of the last one Laravel itself knows that there is no such driver.
                $word = $values === 'round and round' ? 'Driver' : 'values';
                self::assertStringContainsString($word, $refusal->getMessage());
            }
        }
    }

    public function testSettingsOfTheEnvironmentAreStrings(): void
    {
        $strings = ['ttl' => '7', 'long_ttl' => '60', 'connect_timeout' => '', 'command_timeout' => '2'];
        $app = $this->app($strings + ['prefix' => 77]);
        self::assertTrue(Cache::lock('order:1')->get());
        self::assertLessThanOrEqual(60_000, self::$server->command('PTTL', '77order:1'));
        $lease = $app->make(LeaseFactory::class)->create('order:2');
        self::assertTrue($lease->acquire());
        self::assertLessThanOrEqual(7_000, self::$server->command('PTTL', '77order:2'));

        config(['cache.stores.other' => ['long_ttl' => 'a day'] + config('cache.stores.leases')]);
        $this->expectException(InvalidArgumentException::class);
        $this->expectExceptionMessage('long_ttl');
        Cache::store('other');
    }

    public function testTheRepositoryHasItsNameAndItsConfiguration(): void
    {
        $this->app(stores: ['quiet' => ['events' => false] + self::stores()['leases']]);
        if (!method_exists(Cache::store('memory'), 'getName')) {
            self::markTestSkipped('A repository has a configuration from Laravel 11 on.');
        }
        self::assertSame(['memory', 'leases', 'quiet'], array_map(
            static fn (string $name): ?string => Cache::store($name)->getName(),
            ['memory', 'leases', 'quiet'],
        ));
        self::assertNotNull(Cache::store('leases')->getEventDispatcher());
        self::assertNull(Cache::store('quiet')->getEventDispatcher());
        self::assertSame('leases', Cache::store('leases')->tags('t')->getName());
        self::assertSame('ondemand', Cache::build(['long_ttl' => 5] + self::stores()['leases'])->getName());
    }

    public function testLeasesOfTheFactoryAreThoseOfTheDefaultStore(): void
    {
        $app = $this->app(stores: ['second' => ['prefix' => 'second:'] + self::stores()['leases']]);
        foreach (['second' => 'second:', 'leases' => 'lock:', 'memory' => 'second:'] as $default => $prefix) {
            config(['cache.default' => $default]);
            $lease = $app->make(LeaseFactory::class)->create("of $default");
            self::assertTrue($lease->acquire());
            self::assertNotNull(self::$server->command('GET', "{$prefix}of $default"), $default);
        }
    }

    public function testAUniqueJobIsLockedUntilItIsDone(): void
    {
        $app = $this->app();
        $job = new class {
            public string $uniqueId = '7';
            public int $uniqueFor = 60;
        };
        $unique = new UniqueLock($app->make('cache')->store());

        self::assertTrue($unique->acquire($job));
        gc_collect_cycles();
        self::assertFalse((new UniqueLock($app->make('cache')->store()))->acquire($job));
        if (method_exists($unique, 'release')) {
            $unique->release($job);
            self::assertTrue($unique->acquire($job));
        }
    }

    public function testAJobDoesNotOverlapAnother(): void
    {
        $this->app();
        $job = new class {
            public ?int $releasedFor = null;

            public function release(int $seconds): void
            {
                $this->releasedFor = $seconds;
            }
        };
        $middleware = (new WithoutOverlapping('report'))->expireAfter(60)->releaseAfter(5);
        $ran = $middleware->handle($job, function (object $job) use ($middleware): string {
            $middleware->handle($job, fn () => self::fail('it overlaps'));

            return 'ran';
        });

        self::assertContains($ran, ['ran', null]);
        self::assertSame(5, $job->releasedFor);
        self::assertSame(0, self::$server->command('EXISTS', 'lock:' . $middleware->getLockKey($job)));
    }

    public function testTheSchedulersMutexesExclude(): void
    {
        $app = $this->app();
        $event = new Event(new CacheEventMutex($app->make('cache')), 'php -v');
        $event->expiresAt = 10;
        foreach ([1, 2] as $round) {
            $mutex = new CacheEventMutex($app->make('cache'));
            self::assertFalse($mutex->exists($event));
            self::assertTrue($mutex->create($event));
            self::assertFalse((new CacheEventMutex($app->make('cache')))->create($event), "round $round");
            self::assertTrue($mutex->exists($event));
            $mutex->forget($event);
        }
        $oneServer = new CacheSchedulingMutex($app->make('cache'));
        self::assertTrue($oneServer->create($event, new \DateTimeImmutable('2026-01-01 00:00')));
        self::assertFalse($oneServer->create($event, new \DateTimeImmutable('2026-01-01 00:00')));
    }

    private function appWithAClient(): Application
    {
        Needs::module('redis', 'php-redis');

        return $this->app(['client' => 'leases'], ['redis' => [
            'client' => 'phpredis',
            'options' => ['prefix' => 'laravel_database_'],
            'leases' => ['host' => self::$server->socket(), 'port' => 0],
        ]]);
    }

    public function testNamesAreShownAsTheyAreEvenWhereTheyLookLikeMarkup(): void
    {
        $kernel = $this->appWithAClient()->make(Kernel::class);
        foreach (CommandLines::NAMES as $name) {
            Cache::lock($name, 30)->get();
        }
        self::assertSame(0, $kernel->call('lease:list'));
        $list = $kernel->output();
        $release = new CommandTester($kernel->all()['lease:release']);
        foreach (CommandLines::NAMES as $name) {
            $release->setInputs(['no']);
            self::assertSame(1, $release->execute(['name' => $name]));
            self::assertStringContainsString("on $name? ", preg_replace('/\s+/', ' ', $release->getDisplay()));
            self::assertStringContainsString(" $name ", $list);
            self::assertSame(0, $kernel->call('lease:show', ['name' => $name]));
            self::assertStringContainsString(" $name ", $kernel->output());
        }
    }

    public function testTheCommandsListShowAndRelease(): void
    {
        $app = $this->appWithAClient();
        $app->make('config')->set('cache.prefix', 'shop_cache');
        $kernel = $app->make(Kernel::class);
        $run = static function (string $name, array $input = []) use ($kernel): array {
            return [$kernel->call($name, $input + ['--no-interaction' => true]), $kernel->output()];
        };
        self::assertSame([0, "No leases.\n"], $run('lease:list'));
        [$lock, $other] = [Cache::lock('order:1', 30), Cache::lock('invoice:1', 30)];
        $lock->get();
        $other->get();

        [$code, $list] = $run('lease:list');
        self::assertSame(0, $code);
        self::assertMatchesRegularExpression("/order:1 +\| {$lock->owner()} +\| {$lock->fence()} +\| \d+\.\d s/", $list);
        self::assertStringContainsString($other->owner(), $list);
        self::assertStringNotContainsString($other->owner(), $run('lease:list', ['beginning' => 'order:'])[1]);

        self::assertStringContainsString((string) $lock->fence(), $run('lease:show', ['name' => 'order:1'])[1]);
        self::assertSame([1, "It is free.\n"], $run('lease:show', ['name' => 'order:2', '--store' => 'leases']));
        [$code, $top] = $run('lease:top', ['beginning' => 'order:', '--once' => true]);
        self::assertSame(0, $code);
        self::assertMatchesRegularExpression("/1 lock held, 0 of .*\norder:1 +{$lock->owner()} +{$lock->fence()} /s", $top);

        self::assertSame(1, $run('lease:release', ['name' => 'order:1'])[0], 'nobody has said yes');
        self::assertSame(1, $run('lease:release', ['name' => 'order:1', '--owner' => $other->owner()])[0]);
        self::assertTrue($lock->refresh());
        self::assertSame([0, "It was removed.\n"], $run('lease:release', ['name' => 'order:1', '--force' => true]));
        self::assertFalse($lock->refresh());
        self::assertSame(0, $run('lease:release', ['name' => 'invoice:1', '--owner' => $other->owner()])[0]);

        $this->expectException(InvalidArgumentException::class);
        $run('lease:list', ['--store' => 'memory']);
    }

    /** @return array{int, string, string} exit code, output, errors */
    private function artisan(array $leases, string ...$words): array
    {
        $directory = Janitor::directory('.app');
        $this->app($leases, directory: $directory);
        file_put_contents("$directory/schedule.php", '<?php return static fn () => null;');
        $interpreter = PhpProcess::interpreter(phpIni: true);
        $script = [...$interpreter, __DIR__ . '/artisan.php', ...$words, '--no-interaction'];
        $process = PhpProcess::startProgram(['env', "ARTISAN_DIRECTORY=$directory", ...$script]);
        $code = $process->wait();

        return [$code, $process->output(), preg_replace('/\s+/', ' ', $process->errors())];
    }

    public function testTroubleHasAnotherExitCodeThanAFreeLock(): void
    {
        $away = ['dsn' => 'unix:///no/such/socket', 'connect_timeout' => 0.2];
        foreach ([['lease:show', 'x'], ['lease:release', 'x', '--force']] as $words) {
            [$code, $output, $errors] = $this->artisan($away, ...$words);
            self::assertSame([2, ''], [$code, $output], $words[0]);
            self::assertStringContainsString('/no/such/socket', $errors, $words[0]);
            [$code, , $errors] = $this->artisan([], ...$words);
            self::assertSame([1, ''], [$code, $errors], $words[0]);
        }
        $wrong = [
            'The name of the lock must not be empty' => ['lease:show', ''],
            'The option --owner must not be empty' => ['lease:release', 'x', '--owner='],
            'The option --owner must not begin with' => ['lease:release', 'x', '--owner=reserved:x'],
            'Not enough arguments' => ['lease:show'],
            'the cache store memory' => ['lease:show', 'x', '--store=memory'],
        ];
        foreach ($wrong as $message => $words) {
            [$code, , $errors] = $this->artisan([], ...$words);
            self::assertSame(2, $code, "$message: $errors");
            self::assertStringContainsString($message, $errors);
        }
    }

    /** Laravel makes the default cache store for the sake of some commands, whichever runs. */
    public function testArtisanWorksWhereTheDsnIsWrong(): void
    {
        foreach ([['list'], ['config:clear'], ['lease:show', '--help']] as $words) {
            [$code, $output, $errors] = $this->artisan(['dsn' => 'bogus'], ...$words);
            self::assertSame([0, ''], [$code, $errors], implode(' ', $words) . $output);
        }
        [$code, , $errors] = $this->artisan(['dsn' => 'bogus'], 'lease:show', 'x');
        self::assertSame(2, $code);
        self::assertMatchesRegularExpression('/DSN/i', $errors);
        self::assertTrue(Cache::put('value', 1), 'values need no lock');
    }

    public function testTheCommandLinesOfTheReadmeAreKnown(): void
    {
        $commands = $this->app()->make(Kernel::class)->all();
        CommandLines::check('php artisan', static fn (string $name) => $commands[$name]);
    }
}
