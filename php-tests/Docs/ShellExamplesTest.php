<?php

declare(strict_types=1);

namespace RedisLease\Tests\Docs;

use RedisLease\Tests\Bridge\Database\Needs;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\Markdown;
use RedisLease\Tests\Support\PhpProcess;
use RedisLease\Tests\Support\ServerTestCase;

/** The commands of the documentation: all are shell, and what can be run here is run, against a private server. */
final class ShellExamplesTest extends ServerTestCase
{
    /** What a line may begin with that is run. */
    private const RUN = ['redis-cli', 'php', 'grep', 'promtool', 'tools/lint', 'tools/phpunit', 'tools/test'];
    /** What builds, installs, or needs a project or an FPM of the reader's. */
    private const NOT_RUN = ['curl', 'make', 'sudo', 'composer', 'git', 'cargo', 'pie', 'cd', 'phpize', './configure'];

    public function testEveryBlockIsShellAndEveryCommandIsKnown(): void
    {
        foreach (self::lines() as $where => [$line, $words]) {
            self::assertSame([0, ''], self::bash(['-n', '-c', $line]), "$where: $line");
            foreach ($words as $word) {
                self::assertContains($word, [...self::RUN, ...self::NOT_RUN], "$where: $line");
                if (str_contains($word, '/') && $word !== './configure') {
                    self::assertFileExists(Markdown::root() . "/$word", $where);
                }
            }
        }
    }

    public function testEveryTargetOfMakeExists(): void
    {
        $makefile = (string) file_get_contents(Markdown::root() . '/Makefile');
        preg_match_all('/^([a-z-]+):.*## /m', $makefile, $targets);
        $named = 0;
        foreach (Markdown::pages() as $page) {
            // In prose it stands between backticks.
            $texts = [...$page->inlineCode(), ...array_column($page->blocks('sh'), 'code')];
            foreach (preg_grep('/(^|\s)make [a-z]/m', $texts) as $text) {
                preg_match_all('/(?:^|\s)make ([a-z-]+)/m', $text, $found);
                foreach ($found[1] as $target) {
                    self::assertContains($target, $targets[1], "{$page->file}: $text");
                    $named++;
                }
            }
        }
        self::assertGreaterThan(10, $named);
    }

    public function testWhatCanBeRunRuns(): void
    {
        $held = $this->heldLock('order:42');
        $run = [];
        foreach (self::lines() as $where => [$line, $words]) {
            if (array_diff($words, ['redis-cli', 'php', 'grep']) === []) {
                [$exit, $errors] = self::bash(['-euo', 'pipefail', '-c', $line], self::programs());
                self::assertSame([0, ''], [$exit, $errors], "$where: $line");
                $run[] = $words[0];
            }
        }
        self::assertContains('redis-cli', $run);
        self::assertContains('php', $run);
        self::assertTrue($held->isHeld());
    }

    public function testACommandThatIsWrongIsFound(): void
    {
        self::assertSame(2, self::bash(['-n', '-c', 'if true'])[0]);
        self::assertNotSame([0, ''], self::bash(['-c', 'redis-cli -x nonsense </dev/null'], self::programs()));
        self::assertNotSame([0, ''], self::bash(['-c', 'php -r "nothing();"'], self::programs()));
        self::assertSame(['redis-cli', 'grep', 'sudo'], self::words("redis-cli GET '|x' | grep -c 'a;b' && sudo it"));
    }

    /**
     * The lines of all blocks, with what follows a backslash at the end.
     *
     * @return array<string, array{string, list<string>}> by place: the line, and the program of each of its commands
     */
    private static function lines(): array
    {
        $lines = [];
        foreach (Markdown::pagesOfTheExtension() as $page) {
            foreach ($page->blocks('sh') as $block) {
                $code = preg_replace(['/\\\\\n\s*/', '/(^|\s)#.*$/m'], [' ', ''], $block['code']);
                foreach (array_filter(array_map(trim(...), explode("\n", $code))) as $number => $line) {
                    $lines["{$page->file}, line {$block['line']} + $number"] = [$line, self::words($line)];
                }
            }
        }
        self::assertNotSame([], $lines);

        return $lines;
    }

    /** @return list<string> */
    private static function words(string $line): array
    {
        $bare = preg_replace(["/'[^']*'/", '/"[^"]*"/'], "''", $line);
        $commands = preg_split('/\s*(?:&&|\|\||[|;])\s*/', $bare);

        // Settings before a command belong to it.
        return array_map(static fn (string $command) => explode(' ', preg_replace('/^(\w+=\S* )+/', '', $command))[0], $commands);
    }

    /** A folder with the programs as the reader has them: redis-cli finds the server, php has the extension. */
    private static function programs(): string
    {
        $folder = Janitor::directory('.bin');
        $interpreter = PhpProcess::interpreter(['redis_lease.dsn' => self::$server->dsn()], phpIni: true);
        $programs = ['php' => $interpreter, 'redis-cli' => [self::redisCli(), '-e', '-s', self::$server->socket()]];
        foreach ($programs as $name => $command) {
            file_put_contents("$folder/$name", "#!/bin/sh\nexec " . implode(' ', array_map(escapeshellarg(...), $command)) . ' "$@"' . "\n");
            chmod("$folder/$name", 0755);
        }

        return $folder;
    }

    private static function redisCli(): string
    {
        return Needs::program('redis-tools', '/usr/bin/redis-cli', '/usr/local/bin/redis-cli', '/usr/bin/valkey-cli');
    }

    /**
     * @param list<string> $arguments
     * @return array{int, string} the exit code, and what came on the standard error
     */
    private static function bash(array $arguments, string $programs = ''): array
    {
        $path = ($programs === '' ? '' : "$programs:") . getenv('PATH');
        $process = PhpProcess::startProgram(['env', '-C', Markdown::root(), "PATH=$path", 'bash', ...$arguments]);
        $process->closeInput();

        return [$process->wait(), $process->errors()];
    }
}
