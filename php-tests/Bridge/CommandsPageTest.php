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
        // What the commands say: the tests of the frameworks hold them to it.
        $cases = [[0, '| order:42 |', ''], [1, 'It is free.', "Nobody is at it.\n"], [2, '', ''], [1, 'No such command.', '']];
        foreach ($cases as [$code, $words, $expected]) {
            $console = "[ \"\$*\" = 'lease:show order:42' ] || exit 3\necho '$words'\nexit $code\n";
            file_put_contents("$directory/bin/console", "#!/bin/sh\n$console");
            chmod("$directory/bin/console", 0700);
            $process = PhpProcess::startProgram(['env', '-C', $directory, 'sh', '-c', $blocks[0]['code']]);
            self::assertSame(0, $process->wait());
            self::assertSame([$expected, ''], [$process->output(), $process->errors()], "$code: $words");
        }
    }
}
