<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Symfony;

use Psr\Log\NullLogger;
use RecursiveDirectoryIterator;
use RecursiveIteratorIterator;
use Redis;
use RedisLease\Bridge\LeaseFactory;
use RedisLease\Bridge\Symfony\LockFactory;
use RedisLease\Tests\Bridge\CommandLines;
use RedisLease\Tests\Bridge\Database\Needs;
use RedisLease\Tests\Support\Janitor;
use Symfony\Bundle\FrameworkBundle\Console\Application as Console;
use Symfony\Component\Config\Definition\Exception\InvalidConfigurationException;
use Symfony\Component\Console\Tester\ApplicationTester;
use Symfony\Component\Console\Tester\CommandTester;
use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\DependencyInjection\ContainerInterface;
use Symfony\Component\DependencyInjection\Definition;
use Symfony\Component\DependencyInjection\Exception\RuntimeException;
use Symfony\Component\Lock\LockFactory as SymfonyLockFactory;

/** A booted application with the bundle. */
final class BundleTest extends SymfonyTestCase
{
    use Handlers;

    public static function setUpBeforeClass(): void
    {
        Needs::library('php-symfony-framework-bundle', 'Symfony/Bundle/FrameworkBundle/autoload.php');
        Needs::library('php-symfony-console', 'Symfony/Component/Console/autoload.php');
        Needs::module('redis', 'php-redis');
        parent::setUpBeforeClass();
    }

    private function boot(array $framework = [], ?array $leases = null, bool $isFirst = false): Application
    {
        $leases = $leases === null ? null : $leases + ['dsn' => self::$server->dsn()];
        $socket = self::$server->socket();
        $kernel = new Application(Janitor::directory('.app'), $framework, $leases, $isFirst, static function ($container) use ($socket): void {
            $container->setDefinition('logger', new Definition(NullLogger::class));
            $client = new Definition(Redis::class);
            $container->setDefinition('app.redis', $client->addMethodCall('connect', [$socket]));
        });
        $kernel->boot();

        return $kernel;
    }

    private static function locksOnLeases(ContainerInterface $container, string $service = SymfonyLockFactory::class): bool
    {
        $lock = $container->get($service)->createLock('order:1', 5.0);
        self::assertTrue($lock->acquire());
        $isLease = self::stored('order:1') !== null;
        $lock->release();

        return $isLease;
    }

    public function testTheDefaultLockFactoryIsPutOnLeases(): void
    {
        foreach ([false, true] as $isFirst) {
            $container = $this->boot(['lock' => 'flock'], [], $isFirst)->getContainer();

            self::assertInstanceOf(LockFactory::class, $container->get(SymfonyLockFactory::class));
            foreach ([SymfonyLockFactory::class, 'lock.factory', 'lock.default.factory'] as $service) {
                self::assertTrue(self::locksOnLeases($container, $service), $service);
            }
        }
    }

    public function testItNeedsNoConfigurationOfTheFrameworks(): void
    {
        self::assertTrue(self::locksOnLeases($this->boot([], [])->getContainer()));
    }

    public function testWithoutConfigurationTheIniSettingsCount(): void
    {
        $before = ini_set('redis_lease.dsn', self::$server->dsn());
        try {
            self::assertTrue(self::locksOnLeases($this->boot()->getContainer()));
            self::assertTrue(self::locksOnLeases($this->boot([], ['dsn' => null, 'command_timeout' => 5.0])->getContainer()));
        } finally {
            ini_set('redis_lease.dsn', $before);
        }
    }

    public function testAnotherNameAddsAFactoryAndLeavesTheDefaultAlone(): void
    {
        $container = $this->boot(['lock' => 'flock'], ['lock' => 'orders'])->getContainer();

        self::assertTrue(self::locksOnLeases($container, 'lock.orders.factory'));
        self::assertTrue(self::locksOnLeases($container, SymfonyLockFactory::class . ' $ordersLockFactory'));
        self::assertFalse(self::locksOnLeases($container));
    }

    public function testItCanLeaveTheLocksAlone(): void
    {
        self::assertFalse(self::locksOnLeases($this->boot(['lock' => 'flock'], ['lock' => false])->getContainer()));
    }

    public function testTheSettingsReachTheLocks(): void
    {
        $container = $this->boot([], ['prefix' => 'app:', 'lock_ttl' => 20, 'longest_wait' => 0.05, 'ttl' => 7.0])->getContainer();

        $lock = $container->get('lock.factory')->createLock('order:1', null);
        self::assertTrue($lock->acquire());
        $ttl = self::$server->command('PTTL', 'app:order:1');
        self::assertGreaterThan(10_000, $ttl);
        self::assertLessThanOrEqual(20_000, $ttl);
        $other = $container->get('lock.factory')->createLock('order:1');
        self::assertConflict(fn () => $other->acquire(true));

        $lease = $container->get(LeaseFactory::class)->create('order:2');
        self::assertTrue($lease->acquire());
        self::assertLessThanOrEqual(7_000, self::$server->command('PTTL', 'app:order:2'));
        $restored = $container->get(LeaseFactory::class)->restore('order:2', $lease->detach());
        self::assertTrue($restored->release());
    }

    public function testTheCommandsListShowAndRelease(): void
    {
        $console = new Console($this->boot([], ['client' => 'app.redis']));
        $run = static function (string $name, array $input = []) use ($console): array {
            $tester = new CommandTester($console->find($name));
            $code = $tester->execute($input, ['interactive' => false]);

            return [$code, $tester->getDisplay()];
        };
        self::assertSame([0, "No leases.\n"], $run('lease:list'));
        $lock = $this->heldLock('order:1');
        $other = $this->heldLock('invoice:1');

        [$code, $list] = $run('lease:list');
        self::assertSame(0, $code);
        self::assertMatchesRegularExpression("/order:1 +{$lock->token()} +{$lock->fence()} +\d+\.\d s/", $list);
        self::assertStringContainsString($other->token(), $list);
        self::assertStringNotContainsString($other->token(), $run('lease:list', ['beginning' => 'order:'])[1]);

        [$code, $shown] = $run('lease:show', ['resource' => 'order:1']);
        self::assertSame(0, $code);
        self::assertStringContainsString("{$lock->token()}   {$lock->fence()}", $shown);
        self::assertSame([1, "It is free.\n"], $run('lease:show', ['resource' => 'order:2']));
        [$code, $top] = $run('lease:top', ['beginning' => 'order:', '--once' => true]);
        self::assertSame(0, $code);
        self::assertMatchesRegularExpression("/1 lock held, 0 of .*\norder:1 +{$lock->token()} +{$lock->fence()} /s", $top);

        self::assertSame(1, $run('lease:release', ['resource' => 'order:1'])[0], 'nobody has said yes');
        self::assertSame(1, $run('lease:release', ['resource' => 'order:1', '--owner' => $other->token()])[0]);
        self::assertSame($lock->token(), self::stored('order:1'));
        self::assertSame([0, "It was removed.\n"], $run('lease:release', ['resource' => 'order:1', '--force' => true]));
        self::assertNull(self::stored('order:1'));
        self::assertSame(0, $run('lease:release', ['resource' => 'invoice:1', '--owner' => $other->token()])[0]);
        self::assertNull(self::stored('invoice:1'));
    }

    /** @return array{int, string, string} exit code, output, errors */
    private static function console(Application $kernel, string ...$words): array
    {
        $console = new Console($kernel);
        $console->setAutoExit(false);
        $tester = new ApplicationTester($console);
        $input = ['command' => array_shift($words), '--no-interaction' => true];
        foreach ($words as $word) {
            [$name, $value] = [...explode('=', $word, 2), true];
            $input[$name] = $value;
        }
        $code = $tester->run($input, ['capture_stderr_separately' => true]);

        return [$code, $tester->getDisplay(), preg_replace('/\s+/', ' ', $tester->getErrorOutput())];
    }

    public function testTroubleHasAnotherExitCodeThanAFreeLock(): void
    {
        $away = $this->boot([], ['dsn' => 'unix:///no/such/socket', 'connect_timeout' => 0.2]);
        foreach ([['lease:show', 'resource=x'], ['lease:release', 'resource=x', '--force']] as $words) {
            [$code, $output, $errors] = self::console($away, ...$words);
            self::assertSame([2, ''], [$code, $output], $words[0]);
            self::assertStringContainsString('/no/such/socket', $errors, $words[0]);
        }
        $kernel = $this->boot([], []);
        foreach ([['lease:show', 'resource=x'], ['lease:release', 'resource=x', '--force']] as $words) {
            self::assertSame([1, ''], [self::console($kernel, ...$words)[0], self::console($kernel, ...$words)[2]]);
        }
        $wrong = [
            'The name of the lock must not be empty' => ['lease:show', 'resource='],
            'The option --owner must not be empty' => ['lease:release', 'resource=x', '--owner='],
            'The option --owner must not begin with' => ['lease:release', 'resource=x', '--owner=reserved:x'],
            'The option --owner must be at most' => ['lease:release', 'resource=x', '--owner=' . str_repeat('x', 256)],
            'Not enough arguments' => ['lease:show'],
        ];
        foreach ($wrong as $message => $words) {
            [$code, , $errors] = self::console($kernel, ...$words);
            self::assertSame(2, $code, $message);
            self::assertStringContainsString($message, $errors);
        }
    }

    public function testTheConsoleListsItsCommandsWhereTheDsnIsMissingOrWrong(): void
    {
        foreach (['%env(NO_SUCH_DSN)%', 'bogus', ''] as $dsn) {
            $kernel = $this->boot([], ['dsn' => $dsn, 'client' => 'app.redis']);
            [$code, $list] = self::console($kernel, 'list');
            self::assertSame(0, $code, $dsn);
            self::assertStringContainsString('lease:release', $list);
            self::assertSame(0, self::console($kernel, 'lease:top', '--help')[0], $dsn);
            [$code, , $errors] = self::console($kernel, 'lease:show', 'resource=x');
            self::assertSame(2, $code, $dsn);
            self::assertMatchesRegularExpression('/NO_SUCH_DSN|DSN|dsn/', $errors);
        }
    }

    public function testTheDsnOfPhpIniIsAskedForAtRunTime(): void
    {
        $settings = ['dsn' => null, 'command_timeout' => 5.0];
        $boot = static function (string $directory) use ($settings): Application {
            $kernel = new Application($directory, [], $settings);
            $kernel->boot();

            return $kernel;
        };
        $directory = Janitor::directory('.app');
        $before = ini_set('redis_lease.dsn', 'redis://:geheim@127.0.0.1:1');
        try {
            $boot($directory);
            $files = new RecursiveIteratorIterator(new RecursiveDirectoryIterator("$directory/cache"));
            $compiled = 0;
            foreach ($files as $file) {
                $text = $file->isFile() ? file_get_contents($file->getPathname()) : '';
                self::assertStringNotContainsString('geheim', $text, $file->getPathname());
                $compiled += substr_count($text, 'redis_lease.connection');
            }
            self::assertGreaterThan(0, $compiled);
            ini_set('redis_lease.dsn', self::$server->dsn());
            self::assertTrue(self::locksOnLeases($boot($directory)->getContainer()));
        } finally {
            ini_set('redis_lease.dsn', $before);
        }
    }

    public function testAnotherNamesFactoryIsATargetAsTheFrameworksIs(): void
    {
        $services = static fn (ContainerBuilder $container): Definition => $container->setDefinition(
            Orders::class,
            (new Definition(Orders::class))->setAutowired(true)->setPublic(true),
        );
        $isTheTarget = static function (array $locks, string|false $lock) use ($services): bool {
            $leases = ['dsn' => self::$server->dsn(), 'lock' => $lock];
            $kernel = new Application(Janitor::directory('.app'), ['lock' => $locks], $leases, services: $services);
            try {
                $kernel->boot();
            } catch (RuntimeException) {
                return false;
            }
            $container = $kernel->getContainer();

            return $container->get(Orders::class)->locks === $container->get('lock.orders.factory');
        };
        $ofFramework = $isTheTarget(['default' => 'flock', 'orders' => 'flock'], false);

        self::assertSame($ofFramework, $isTheTarget(['default' => 'flock'], 'orders'));
    }

    public function testASettingThatCannotBeIsRefusedByItsName(): void
    {
        $wrong = [
            'redis_lease.lock_ttl must be between 0.01 and 31536000 seconds, 0 given' => ['lock_ttl' => 0],
            'redis_lease.ttl must be between 0.01 and 31536000 seconds, -1 given' => ['ttl' => -1],
            'redis_lease.longest_wait must be between 0 and 31536000 seconds, -1 given' => ['longest_wait' => -1.0],
            'redis_lease.connect_timeout must be between 0.001 and 3600 seconds, 0 given' => ['connect_timeout' => 0.0],
            'redis_lease.command_timeout must be between 0.001 and 3600 seconds, INF given' => ['command_timeout' => INF],
        ];
        foreach ([true, '', 5, '%env(LOCKS)%', 'a%env(LOCKS)%'] as $lock) {
            $wrong[var_export($lock, true)] = ['lock' => $lock];
        }
        foreach ($wrong as $message => $settings) {
            try {
                $this->boot([], $settings);
                self::fail($message);
            } catch (InvalidConfigurationException $refusal) {
                $message = isset($settings['lock']) ? 'redis_lease.lock must be the name' : $message;
                self::assertStringContainsString($message, $refusal->getMessage());
            }
        }
    }

    public function testTimesMayComeFromTheEnvironment(): void
    {
        $_ENV['LOCK_SECONDS'] = '20';
        try {
            $times = array_fill_keys(['ttl', 'lock_ttl', 'longest_wait', 'connect_timeout'], '%env(float:LOCK_SECONDS)%');
            $container = $this->boot([], $times)->getContainer();
            self::assertTrue($container->get('lock.factory')->createLock('order:1', null)->acquire());
            self::assertTrue($container->get(LeaseFactory::class)->create('order:2')->acquire());
        } finally {
            unset($_ENV['LOCK_SECONDS']);
        }
    }

    public function testNamesAreShownAsTheyAreEvenWhereTheyLookLikeMarkup(): void
    {
        $console = new Console($this->boot([], ['client' => 'app.redis']));
        foreach (CommandLines::NAMES as $name) {
            $this->heldLock($name)->detach();
        }
        $list = new CommandTester($console->find('lease:list'));
        self::assertSame(0, $list->execute([]));
        $show = new CommandTester($console->find('lease:show'));
        $release = new CommandTester($console->find('lease:release'));
        foreach (CommandLines::NAMES as $name) {
            self::assertStringContainsString(" $name ", $list->getDisplay());
            self::assertSame(0, $show->execute(['resource' => $name]));
            self::assertStringContainsString(" $name ", $show->getDisplay());
            $release->setInputs(['no']);
            self::assertSame(1, $release->execute(['resource' => $name]));
            // The question is broken into lines.
            $asked = preg_replace('/\s+/', ' ', $release->getDisplay());
            self::assertStringContainsString("on $name? ", $asked);
        }
    }

    public function testTheCommandLinesOfTheReadmeAreKnown(): void
    {
        $console = new Console($this->boot([], []));
        CommandLines::check('bin/console', static fn (string $name) => $console->find($name));
    }
}
