<?php

declare(strict_types=1);

namespace RedisLease\Tests\Docs;

use RedisLease\Tests\Bridge\Database\Needs;
use RedisLease\Tests\Support\Markdown;
use RedisLease\Tests\Support\PhpProcess;
use RedisLease\Tests\Support\ServerTestCase;

/** A reader who copies an example of the documentation can run it. */
final class PhpExamplesTest extends ServerTestCase
{
    public function testEveryExampleRunsAndGivesItsLocksBack(): void
    {
        Needs::module('pdo_sqlite', 'php-sqlite3');
        $number = 0;
        foreach (Markdown::pagesOfTheExtension() as $page) {
            foreach ($page->blocks('php') as $block) {
                $this->assertRuns($block, "{$page->file}, line {$block['line']}");
                $number++;
            }
        }
        self::assertGreaterThan(20, $number);
    }

    /** Also in the branches that no run of it takes. */
    public function testEveryMethodThatAnExampleCallsOnALockExists(): void
    {
        $number = 0;
        foreach (Markdown::pagesOfTheExtension() as $page) {
            foreach ($page->blocks('php') as $block) {
                preg_match_all('/\$lock->(\w+)\(/', $block['code'], $calls);
                foreach ($calls[1] as $method) {
                    self::assertTrue(method_exists(\DistributedLock::class, $method), "{$page->file}, line {$block['line']}: $method()");
                    $number++;
                }
            }
        }
        self::assertGreaterThan(30, $number);
    }

    public function testAnExampleThatIsWrongIsFound(): void
    {
        foreach (['undefined();', 'echo $undefined;', 'echo 1', 'throw new Exception();'] as $code) {
            self::assertNotSame([0, ''], $this->outcome($code), $code);
        }
        self::assertSame([0, ''], $this->outcome('$lock->acquire();'));
    }

    /** @param array{code: string, prints: string|null} $block */
    private function assertRuns(array $block, string $where): void
    {
        self::$server->flush();
        [$exit, $errors, $output] = [...$this->outcome($block['code'], $process), $process->output()];
        self::assertSame([0, ''], [$exit, $errors], "$where: {$process->everything()}");
        if ($block['prints'] !== null) {
            self::assertSame($block['prints'], trim($output), $where);
        }
        self::assertSame([], self::$server->command('KEYS', 'lock:*'), "$where leaves a lock behind");
    }

    /** @return array{int, string} its exit code and what it wrote to the standard error */
    private function outcome(string $code, ?PhpProcess &$process = null): array
    {
        if (!str_starts_with($code, '<?php')) {
            $application = var_export(__DIR__ . '/application.php', true);
            $code = "<?php\nrequire $application;\n$code";
        }
        $interpreter = PhpProcess::interpreter(['redis_lease.dsn' => self::$server->dsn()], phpIni: true);
        $process = PhpProcess::startProgram([...$interpreter, PhpProcess::script($code)]);

        return [$process->wait(), $process->errors()];
    }
}
