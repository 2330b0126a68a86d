<?php

declare(strict_types=1);

namespace RedisLease\Tests\Docs;

use RedisLease\Connection;
use RedisLease\Tests\Bridge\Database\Needs;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\Markdown;
use RedisLease\Tests\Support\PhpProcess;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\ServerTestCase;
use Symfony\Component\Yaml\Yaml;

/** Blocks of the documentation that are neither PHP nor shell: settings, scripts, pictures. And the DSNs. */
final class BlocksTest extends ServerTestCase
{
    public function testNoBlockIsInALanguageThatNoTestKnows(): void
    {
        foreach (Markdown::pagesOfTheExtension() as $page) {
            foreach ($page->blocks() as ['language' => $language, 'line' => $line]) {
                $known = ['php', 'sh', 'ini', 'conf', 'lua', 'yaml', 'mermaid'];
                self::assertContains($language, $known, "{$page->file}, line $line");
            }
            self::assertSame(2 * count($page->blocks()), substr_count($page->text, '```'), $page->file);
        }
    }

    public function testPhpKnowsEverySettingOfAnIniBlock(): void
    {
        foreach (self::blocks('ini') as $where => $code) {
            $file = Janitor::path('.ini');
            file_put_contents($file, $code);
            $process = PhpProcess::startProgram([
                PHP_BINARY, '-n', '-c', $file, '-d', 'extension=' . PhpProcess::extension(), '-d', 'display_errors=stderr',
                '-r', 'echo json_encode(ini_get_all(null, false));',
            ]);
            self::assertSame([0, ''], [$process->wait(), $process->errors()], $where);
            $set = json_decode($process->output(), true);
            $settings = parse_ini_string($code, false, INI_SCANNER_RAW);
            self::assertNotSame([], $settings, $where);
            foreach ($settings as $name => $value) {
                self::assertArrayHasKey($name, $set, "$where: there is no setting $name");
                self::assertSame($value, $set[$name], "$where: $name");
            }
        }
    }

    public function testRedisTakesEverySettingOfAConfBlock(): void
    {
        foreach (self::blocks('conf') as $where => $code) {
            $settings = [];
            foreach (explode("\n", trim($code)) as $line) {
                [$name, $settings[$name]] = explode(' ', $line, 2);
            }
            $server = RedisServer::start(settings: $settings);
            foreach ($settings as $name => $value) {
                self::assertSame([$name, $value], $server->command('CONFIG', 'GET', $name), $where);
            }
            $server->stop();
        }
    }

    public function testTheScriptsAreThoseThatAreSent(): void
    {
        $shown = Markdown::page('docs/protocol.md')->examples('lua');
        $files = array_map(file_get_contents(...), glob(Markdown::root() . '/src/store/scripts/*.lua'));
        sort($shown);
        sort($files);

        self::assertSame($files, $shown, 'docs/protocol.md shows each file of src/store/scripts, as it is');
    }

    public function testYamlIsWellFormed(): void
    {
        Needs::library('php-symfony-yaml', 'Symfony/Component/Yaml/autoload.php');
        foreach (self::blocks('yaml') as $where => $code) {
            self::assertIsArray(Yaml::parse($code), $where);
        }
    }

    /** What is in quotation marks in a picture is a path, and what it holds. */
    public function testThePicturesShowPathsThatExist(): void
    {
        foreach (self::blocks('mermaid') as $where => $code) {
            self::assertSame(1, preg_match('/^(flowchart|sequenceDiagram)/', $code), $where);
            preg_match_all('~["(\s]([a-z][\w.-]*/[\w./-]*)~', $code, $paths);
            self::assertNotSame([], $paths[1], $where);
            foreach ($paths[1] as $path) {
                self::assertFileExists(Markdown::root() . "/$path", $where);
            }
        }
    }

    public function testEveryDsnIsOne(): void
    {
        $number = 0;
        foreach (Markdown::pages() as $page) {
            $dsns = preg_grep('~^(redis|valkey|unix)[a-z+]*://~', $page->inlineCode());
            foreach (preg_grep('/[…\[]|^[^:]*:\/\/$/u', $dsns, PREG_GREP_INVERT) as $dsn) {
                // Refused with a ValueError if it is none.
                new Connection($dsn);
                $number++;
            }
        }
        self::assertGreaterThan(15, $number);
    }

    /** @return array<string, string> the code by place */
    private static function blocks(string $language): array
    {
        $blocks = [];
        foreach (Markdown::pagesOfTheExtension() as $page) {
            foreach ($page->blocks($language) as $block) {
                $blocks["{$page->file}, line {$block['line']}"] = $block['code'];
            }
        }
        self::assertNotSame([], $blocks, $language);

        return $blocks;
    }
}
