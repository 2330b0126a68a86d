<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use RedisLease\Tests\Support\Markdown;
use RedisLease\Tests\Support\PhpProcess;
use RedisLease\Tests\Support\ServerTestCase;

/** The first example is what a stranger runs first. That all of them run is a test of the documentation's. */
final class ReadmeTest extends ServerTestCase
{
    public function testTheFirstExampleOfTheReadmeRunsVerbatim(): void
    {
        $example = self::firstExample();
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

        $this->assertRuns(self::firstExample());

        self::assertSame('another owner', self::stored('order:42'));
    }

    private function assertRuns(string $example): void
    {
        self::assertStringStartsWith('<?php', $example, 'it has to run from an empty file');
        $process = PhpProcess::runFile(PhpProcess::script($example), ['redis_lease.dsn' => self::$server->dsn()]);

        self::assertSame('', $process->errors());
        self::assertSame(0, $process->wait(), $process->everything());
    }

    private static function firstExample(): string
    {
        return Markdown::page('README.md')->examples()[0];
    }
}
