<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use RedisLease\Tests\Support\PhpProcess;
use RedisLease\Tests\Support\ServerTestCase;

/** A reader who copies an example into an empty file can run it. */
final class ReadmeTest extends ServerTestCase
{
    public function testTheFirstExampleOfTheReadmeRunsVerbatim(): void
    {
        $example = self::examples('README.md')[0];
        $main = ["new DistributedLock('order:42', ttl: 5.0)", 'acquire(wait: 0.5)', 'renew()', 'release()', 'finally'];
        foreach ($main as $part) {
            self::assertStringContainsString($part, $example);
        }
        $this->assertRuns($example);

        self::assertNull(self::stored('order:42'), 'the example gives its lock back');
    }

    public function testTheFirstExampleCopesWithAnotherOwner(): void
    {
        self::$server->command('SET', 'lock:order:42', 'another owner', 'PX', 60_000);

        $this->assertRuns(self::examples('README.md')[0]);

        self::assertSame('another owner', self::stored('order:42'));
    }

    public function testEveryExampleOfTheReadmeIsValidPhp(): void
    {
        foreach (self::examples('README.md') as $number => $example) {
            $process = PhpProcess::runArguments(['-l', PhpProcess::script($example)]);
            self::assertSame(0, $process->wait(), "example $number: " . $process->everything());
        }
    }

    private function assertRuns(string $example): void
    {
        self::assertStringStartsWith('<?php', $example, 'it has to run from an empty file');
        $process = PhpProcess::runFile(PhpProcess::script($example), ['redis_lease.dsn' => self::$server->dsn()]);

        self::assertSame('', $process->errors());
        self::assertSame(0, $process->wait(), $process->everything());
    }

    /** @return list<string> */
    private static function examples(string $file): array
    {
        $text = file_get_contents(dirname(__DIR__, 2) . "/$file");
        preg_match_all('/^```php\n(.*?)^```$/ms', $text, $found);
        self::assertNotSame([], $found[1], "$file has no example");

        return $found[1];
    }
}
