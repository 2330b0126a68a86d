<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge;

use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\PhpProcess;
use RedisLease\Tests\Support\ServerTestCase;

/** The example of the page on workers that serve many requests, in a FrankenPHP that serves three. */
final class WorkersPageTest extends ServerTestCase
{
    private const FRANKENPHP = <<<'PHP'
        namespace App {
            final class Kept { public static array $leases = []; }
            function handle($leases): void
            {
                Kept::$leases[] = $lease = $leases->create('order:42', 30.0);
                echo $lease->acquire() ? "Acquired.\n" : "Somebody else has it.\n";
            }
        }
        namespace {
            function frankenphp_handle_request(callable $handle): bool
            {
                static $requests = 0;
                $handle();

                return ++$requests < 3;
            }
        }
        PHP;

    public function testTheExampleServesRequestsAndLeavesNoLockBehind(): void
    {
        $page = file_get_contents(dirname(__DIR__, 2) . '/bridge/WORKERS.md');
        self::assertSame(1, preg_match_all("/^```php\n(.*?)^```$/ms", $page, $examples));
        $directory = Janitor::directory('.project');
        mkdir("$directory/vendor");
        $autoload = var_export(dirname(__DIR__, 2) . '/bridge/autoload.php', true);
        file_put_contents("$directory/vendor/autoload.php", "<?php\nnamespace { require $autoload; }\n" . self::FRANKENPHP);
        file_put_contents("$directory/example.php", $examples[1][0]);

        $interpreter = PhpProcess::interpreter(['redis_lease.dsn' => self::$server->dsn()]);
        $process = PhpProcess::startProgram(['env', '-C', $directory, ...$interpreter, 'example.php']);

        self::assertSame(0, $process->wait(), $process->everything());
        self::assertSame([str_repeat("Acquired.\n", 3), ''], [$process->output(), $process->errors()]);
        self::assertNull(self::stored('order:42'));
    }
}
