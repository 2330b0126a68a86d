<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge;

use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\PhpProcess;
use RedisLease\Tests\Support\ServerTestCase;

/** The example of the page on workers that serve many requests, with a server that sends three. */
final class WorkersPageTest extends ServerTestCase
{
    private const APPLICATION = <<<'PHP'
        namespace App;

        final class Worker
        {
            private array $requests = ['first', 'second', 'third'];

            public function waitRequest(): ?string { return array_shift($this->requests); }
            public function respond(string $response): void { echo $response; }
        }
        final class Kept { public static array $leases = []; }

        function worker(): Worker { return new Worker(); }
        function handle(string $request, $leases): string
        {
            Kept::$leases[] = $lease = $leases->create('order:42', 30.0);

            return $lease->acquire() ? "The $request one has it.\n" : "Somebody else has it.\n";
        }
        PHP;

    public function testTheExampleServesRequestsAndLeavesNoLockBehind(): void
    {
        $page = file_get_contents(dirname(__DIR__, 2) . '/bridge/WORKERS.md');
        self::assertSame(1, preg_match_all("/^```php\n(.*?)^```$/ms", $page, $examples));
        $directory = Janitor::directory('.project');
        mkdir("$directory/vendor");
        $autoload = var_export(dirname(__DIR__, 2) . '/bridge/autoload.php', true);
        file_put_contents("$directory/vendor/autoload.php", "<?php require $autoload; require __DIR__ . '/app.php';");
        file_put_contents("$directory/vendor/app.php", "<?php\n" . self::APPLICATION);
        file_put_contents("$directory/example.php", $examples[1][0]);

        $interpreter = PhpProcess::interpreter(['redis_lease.dsn' => self::$server->dsn()]);
        $process = PhpProcess::startProgram(['env', '-C', $directory, ...$interpreter, 'example.php']);

        self::assertSame(0, $process->wait(), $process->everything());
        $expected = "The first one has it.\nThe second one has it.\nThe third one has it.\n";
        self::assertSame([$expected, ''], [$process->output(), $process->errors()]);
        self::assertNull(self::stored('order:42'));
    }
}
