<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use PHPUnit\Framework\TestCase;
use RedisLease\Tests\Support\PhpProcess;

/** Loading the extension is not noticed. */
final class LoadingTest extends TestCase
{
    public function testPhpWithTheExtensionIsQuiet(): void
    {
        $process = PhpProcess::runArguments(['-r', '']);

        self::assertSame(0, $process->wait());
        self::assertSame('', $process->output() . $process->errors());
    }

    public function testTheExtensionDescribesItself(): void
    {
        $process = PhpProcess::runArguments(['--ri', 'redis_lease']);

        self::assertSame(0, $process->wait());
        self::assertSame('', $process->errors());
        self::assertMatchesRegularExpression('/version.*\d+\.\d+\.\d+/i', $process->output());
        self::assertStringContainsString('redis_lease.ttl => 10', $process->output());
    }

    public function testItHasAVersionAndIsListed(): void
    {
        self::assertMatchesRegularExpression('/^\d+\.\d+\.\d+/', (string) phpversion('redis_lease'));
        $process = PhpProcess::runArguments(['-m']);
        self::assertStringContainsString("\nredis_lease\n", $process->output());
        self::assertSame('', $process->errors());
    }

    public function testItGetsAlongWithTheExtensionsOfPhpIni(): void
    {
        $listed = shell_exec(escapeshellarg(PHP_BINARY) . ' -m');
        if (str_contains($listed, 'redis_lease')) {
            self::markTestSkipped('php.ini loads an installed redis_lease already');
        }
        $command = sprintf('%s -d extension=%s -m 2>&1', escapeshellarg(PHP_BINARY), escapeshellarg(PhpProcess::extension()));
        $with = shell_exec($command);

        $added = array_diff(explode("\n", $with), explode("\n", $listed));
        self::assertSame(['redis_lease'], array_values($added));
    }

    public function testLoadingOpensNothingAndStartsNoThread(): void
    {
        if (!is_dir('/proc/self/fd')) {
            self::markTestSkipped('there is no /proc here');
        }
        $code = 'echo count(scandir("/proc/self/fd")), " ", count(scandir("/proc/self/task"));';
        $without = PhpProcess::runArguments(['-r', $code], [], false)->output();
        $with = PhpProcess::runArguments(['-r', $code])->output();

        self::assertSame($without, $with);
    }

    public function testAClosedStandardErrorIsNoReasonToCrash(): void
    {
        $code = '$l = new DistributedLock("a", connection: new RedisLease\\Connection("unix:///no/such.sock"));'
            . 'try { $l->acquire(); } catch (RedisLease\\ConnectionException $e) { exit(7); }';
        $command = implode(' ', array_map(escapeshellarg(...), [...PhpProcess::interpreter(), '-r', $code]));
        exec("$command >&- 2>&- <&-", $lines, $exitCode);

        self::assertSame(7, $exitCode);
    }
}
