<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use RedisLease\Tests\Support\PhpProcess;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\ServerTestCase;

/** A password never shows in messages, dumps, phpinfo or traces. */
final class SecretsTest extends ServerTestCase
{
    private const SECRET = 'hunter2secret';

    protected static function startServer(): RedisServer
    {
        return RedisServer::start(tcp: true, password: self::SECRET);
    }

    public function testAPasswordShowsInNoDumpOfAnyObject(): void
    {
        $dump = $this->outputOf(<<<'PHP'
            foreach ($dsns as $dsn) {
                $connection = new RedisLease\Connection($dsn);
                $lock = new DistributedLock('order:1', 5.0, connection: $connection);
                $lock->acquire();
                foreach ([$connection, $lock] as $object) {
                    var_dump($object);
                    print_r($object);
                    var_export($object);
                    echo json_encode($object), json_encode((array) $object), json_encode(get_object_vars($object));
                    echo (string) new ReflectionObject($object);
                }
                print_r($connection->ping());
                $lock->release();
            }
            PHP);
        self::assertStringContainsString('127.0.0.1', $dump);
    }

    public function testAPasswordShowsInNoMessageAndNoTrace(): void
    {
        $wrong = [
            'redis://:SECRET@127.0.0.1:1', 'redis://user:SECRET@127.0.0.1:1/3', 'unix:///no/such.sock?pass=SECRET',
            'redis://:SECRET@no-such-host.invalid', 'redis://:SECRET@127.0.0.1:PORT/999', 'redis://other:SECRET@127.0.0.1:PORT',
            'unix://SOCKET?user=other&pass=SECRET', 'redis://:SECRET@host:port', 'redis://:SECRET%@host',
            'rediss://:SECRET@127.0.0.1', 'redis://:SECRET@one redis://:SECRET@two',
            'redis+sentinel://:SECRET@one/master', 'SECRET', 'default:SECRET@127.0.0.1',
        ];
        $replace = [
            'SECRET' => self::SECRET, 'PORT' => (string) self::$server->port(), 'SOCKET' => self::$server->socket(),
        ];
        $dsns = array_map(static fn ($dsn) => strtr($dsn, $replace), $wrong);
        $shown = $this->outputOf('$wrong = ' . var_export($dsns, true) . <<<'PHP'
            ;
            function connect(#[SensitiveParameter] string $dsn): RedisLease\Connection
            {
                return new RedisLease\Connection($dsn, 0.3, 0.3);
            }
            $caught = 0;
            foreach ($wrong as $dsn) {
                try {
                    (new DistributedLock('order:1', 5.0, connection: connect($dsn)))->acquire();
                } catch (Throwable $failure) {
                    $caught++;
                    echo $failure, $failure->getTraceAsString();
                    print_r($failure->getTrace());
                    var_dump($failure);
                }
                try {
                    print_r(connect($dsn)->ping());
                } catch (Throwable $failure) {
                    echo $failure;
                }
            }
            foreach (['@host:port', '@127.0.0.1:1'] as $rest) {
                if (@ini_set('redis_lease.dsn', 'redis://:' . $secret . $rest) === false) {
                    echo error_get_last()['message'];
                    continue;
                }
                try {
                    (new DistributedLock('order:1'))->acquire();
                } catch (Throwable $failure) {
                    echo $failure;
                    print_r($failure->getTrace());
                }
            }
            echo "caught $caught of ", count($wrong);
            PHP);
        self::assertStringContainsString('caught ' . count($wrong) . ' of ' . count($wrong), $shown);
    }

    public function testAPasswordShowsInNoUncaughtException(): void
    {
        $process = PhpProcess::run(
            "new RedisLease\\Connection('redis://:" . self::SECRET . "@host:port');",
            ['zend.exception_ignore_args' => '0'],
        );

        self::assertSame(255, $process->wait());
        self::assertStringContainsString('SensitiveParameterValue', $process->errors());
        self::assertNoSecret($process->everything());
    }

    public function testAPasswordShowsNowhereInPhpinfo(): void
    {
        $dsns = ['redis://:SECRET@127.0.0.1', 'unix:///s?pass=SECRET', 'unix:///s?user=u&pass=SECRET', 'SECRET'];
        $change = 'ini_set("redis_lease.dsn", ini_get("redis_lease.dsn") . "x"); phpinfo();';
        foreach (str_replace('SECRET', self::SECRET, $dsns) as $dsn) {
            foreach ([['--ri', 'redis_lease'], ['-i'], ['-r', $change]] as $arguments) {
                $process = PhpProcess::runArguments($arguments, ['redis_lease.dsn' => "\"$dsn\""]);
                $shown = $process->output();

                self::assertStringContainsString('redis_lease.prefix', $shown, implode(' ', $arguments));
                self::assertStringContainsString('redis_lease.dsn', $shown, implode(' ', $arguments));
                // php itself shows its command line where it has one.
                $shown = preg_replace('/^.*(\$_SERVER|\$argv|argv).*$/m', '', $shown);
                self::assertNoSecret($shown, implode(' ', $arguments) . " with $dsn");
            }
        }
    }

    /** Runs the code with $secret and $dsns; asserts that its output holds no password. */
    private function outputOf(string $code): string
    {
        $dsns = [self::$server->dsn(), self::$server->tcpDsn(), self::$server->tcpDsn('default:' . self::SECRET)];
        $prepare = '$secret = ' . var_export(self::SECRET, true) . ";\n\$dsns = " . var_export($dsns, true) . ";\n";
        $process = PhpProcess::run(
            $prepare . $code,
            ['zend.exception_ignore_args' => '0', 'zend.exception_string_param_max_len' => '1000000'],
        );
        self::assertSame(0, $process->wait(), $process->everything());
        self::assertSame('', $process->errors());
        self::assertNoSecret($process->output());

        return $process->output();
    }

    /** Dumps are long: a failure shows the place alone. */
    private static function assertNoSecret(string $shown, string $what = ''): void
    {
        $at = strpos($shown, self::SECRET);
        self::assertFalse($at, $what . ' … ' . substr($shown, max(0, (int) $at - 200), 300) . ' …');
    }
}
