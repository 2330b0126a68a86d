<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Symfony;

use App\Export;
use App\Invoices;
use App\Payments;
use PDO;
use RedisLease\Bridge\StaleFenceException;
use RedisLease\Bridge\Symfony\RedisLeaseBundle;
use RedisLease\Tests\Bridge\Database\Needs;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\Markdown;
use RedisLease\Tests\Support\PhpProcess;
use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\DependencyInjection\ContainerInterface;
use Symfony\Component\DependencyInjection\Definition;
use Symfony\Component\Lock\Exception\LockConflictedException;

/** The examples of the README's section on Symfony do in an application what they say. */
final class SymfonyReadmeTest extends SymfonyTestCase
{
    use Handlers;

    private static ?ContainerInterface $container = null;
    private static PDO $pdo;

    public static function setUpBeforeClass(): void
    {
        Needs::library('php-symfony-framework-bundle', 'Symfony/Bundle/FrameworkBundle/autoload.php');
        Needs::library('php-symfony-console', 'Symfony/Component/Console/autoload.php');
        Needs::library('php-symfony-yaml', 'Symfony/Component/Yaml/autoload.php');
        Needs::module('pdo_sqlite', 'php-sqlite3');
        parent::setUpBeforeClass();
        self::$pdo = new PDO('sqlite::memory:');
    }

    public static function tearDownAfterClass(): void
    {
        self::$container = null;
        unset($_ENV['REDIS_LEASE_DSN']);
        parent::tearDownAfterClass();
    }

    /** The application as a reader of the README has it. */
    private function service(string $class): object
    {
        return (self::$container ??= $this->boot())->get($class);
    }

    private function boot(): ContainerInterface
    {
        $directory = Janitor::directory('.app');
        mkdir("$directory/config");
        foreach ([1 => 'Invoices', 2 => 'Payments', 3 => 'Export'] as $number => $class) {
            file_put_contents("$directory/$class.php", self::example('php', $number));
            require_once "$directory/$class.php";
        }
        file_put_contents("$directory/config/bundles.php", self::example('php', 0));
        self::assertSame([RedisLeaseBundle::class => ['all' => true]], require "$directory/config/bundles.php");
        file_put_contents("$directory/config/redis_lease.yaml", self::example('yaml', 0));

        $_ENV['REDIS_LEASE_DSN'] = self::$server->dsn();
        $application = new Application($directory, services: static function (ContainerBuilder $container): void {
            $container->setDefinition(PDO::class, (new Definition(PDO::class))->setSynthetic(true)->setPublic(true));
            foreach ([Invoices::class, Payments::class, Export::class] as $class) {
                $container->setDefinition($class, (new Definition($class))->setAutowired(true)->setPublic(true));
            }
        }, file: "$directory/config/redis_lease.yaml");
        $application->boot();
        $application->getContainer()->set(PDO::class, self::$pdo);

        return $application->getContainer();
    }

    private static function example(string $language, int $number): string
    {
        return Markdown::page('bridge/README.md')->section('Symfony')->examples($language)[$number];
    }

    public function testAServiceTakesALockOfTheFramework(): void
    {
        $invoices = $this->service(Invoices::class);
        self::assertSame('Paid.', $invoices->pay(42));
        self::assertNull(self::stored('invoice:42'));

        $other = $this->heldLock('invoice:42');
        self::assertSame('Somebody else is working on it.', $invoices->pay(42));
        self::assertTrue($other->isHeld());
    }

    public function testAWriteUnderTheFenceIsRefusedWhenItIsLate(): void
    {
        self::$pdo->exec('CREATE TABLE invoice (id INTEGER PRIMARY KEY, status TEXT, fence BIGINT)');
        self::$pdo->exec("INSERT INTO invoice VALUES (42, 'new', NULL)");
        $payments = $this->service(Payments::class);
        $payments->pay(42);
        self::assertSame('paid', self::$pdo->query('SELECT status FROM invoice')->fetchColumn());

        self::$pdo->exec('UPDATE invoice SET fence = 9000000000000000');
        $this->expectException(StaleFenceException::class);
        $payments->pay(42);
    }

    public function testALockGoesFromTheRequestToTheJob(): void
    {
        $export = $this->service(Export::class);
        $key = $export->request();
        self::assertNotNull(self::stored('export'));
        self::assertNull($export->request(), 'one is under way');

        $export->run($key);
        self::assertNull(self::stored('export'));

        $this->expectException(LockConflictedException::class);
        $export->run($key);
    }

    public function testWithoutTheBundleItRunsAsAScript(): void
    {
        $directory = Janitor::directory('.project');
        mkdir("$directory/vendor");
        $autoload = var_export(dirname(__DIR__, 3) . '/bridge/autoload.php', true);
        file_put_contents(
            "$directory/vendor/autoload.php",
            "<?php require $autoload; require 'Symfony/Component/Lock/autoload.php';",
        );
        $example = self::example('php', 4);
        $here = str_replace("'redis://127.0.0.1'", var_export(self::$server->dsn(), true), $example);
        self::assertNotSame($example, $here);
        file_put_contents("$directory/example.php", $here);
        foreach (["Acquired.\n" => null, "Somebody else has it.\n" => $this->lock('order:42')] as $expected => $lock) {
            $lock?->acquire();
            $interpreter = PhpProcess::interpreter(phpIni: true);
            $process = PhpProcess::startProgram(['env', '-C', $directory, ...$interpreter, 'example.php']);
            self::assertSame(0, $process->wait(), $process->everything());
            self::assertSame([$expected, ''], [$process->output(), $process->errors()]);
        }
    }
}
