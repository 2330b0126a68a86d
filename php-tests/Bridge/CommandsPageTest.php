<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge;

use PHPUnit\Framework\TestCase;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\Markdown;
use RedisLease\Tests\Support\PhpProcess;

/** The script of bridge/COMMANDS.md starts nothing but on a free lock. The codes themselves are tested by framework. */
final class CommandsPageTest extends TestCase
{
    public function testTheScriptTellsAFreeLockFromTrouble(): void
    {
        $blocks = Markdown::page('bridge/COMMANDS.md')->blocks('sh');
        self::assertCount(1, $blocks);
        $directory = Janitor::directory('.project');
        mkdir("$directory/bin");
        foreach ([0 => '', 1 => "Nobody is at it.\n", 2 => '', 255 => ''] as $code => $expected) {
            file_put_contents("$directory/bin/console", "#!/bin/sh\necho \"\$@\"\nexit $code\n");
            chmod("$directory/bin/console", 0700);
            $process = PhpProcess::startProgram(['env', '-C', $directory, 'sh', '-c', $blocks[0]['code']]);
            $process->wait();
            self::assertSame([$expected, ''], [$process->output(), $process->errors()], "code $code");
        }
    }
}
