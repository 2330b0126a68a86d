<?php

declare(strict_types=1);

namespace RedisLease\Tests\Docs;

use PHPUnit\Framework\TestCase;
use RedisLease\Tests\Support\Markdown;
use RedisLease\Tests\Support\PhpProcess;

/** Whoever looks for a setting finds the same ones with the same defaults, wherever they are listed. */
final class SettingsTest extends TestCase
{
    public function testTheReferenceListsThem(): void
    {
        $listed = [];
        foreach (Markdown::page('docs/reference.md')->section('Settings')->rows() as [$name, $default]) {
            $listed[trim($name, '`')] = $default === '' ? '' : trim($default, '`');
        }
        self::assertSame(self::sorted(self::settings()), self::sorted($listed));
    }

    public function testPhpinfoAndPhpRiListThemWithTheirValues(): void
    {
        // The section shows where the default server is, instead of the DSN, which may hold a password.
        $expected = self::sorted(['redis_lease.dsn' => '127.0.0.1:6379'] + self::settings());
        foreach ([['--ri', 'redis_lease'], ['-r', 'phpinfo(INFO_MODULES);']] as $arguments) {
            $text = PhpProcess::runArguments($arguments)->output();
            preg_match_all('/^(redis_lease\.\w+) => ?(.*)$/m', $text, $found);
            $shown = array_combine($found[1], array_map(trim(...), $found[2]));
            self::assertSame($expected, self::sorted($shown), implode(' ', $arguments));
        }
    }

    public function testTheInstalledIniFileHasEachAsAComment(): void
    {
        $file = (string) file_get_contents(Markdown::root() . '/tools/redis_lease.ini');
        preg_match_all('/^;(redis_lease\.\w+) = (.*)$/m', $file, $found);
        $values = array_map(static fn (string $value) => trim($value, '"'), $found[2]);
        self::assertSame(self::sorted(self::settings()), self::sorted(array_combine($found[1], $values)));
    }

    public function testEverySettingThatIsNamedAnywhereExists(): void
    {
        $named = [];
        $stubs = [...glob(Markdown::root() . '/stubs/*.php'), ...glob(Markdown::root() . '/stubs/*/*.php')];
        $texts = array_map(static fn (Markdown $page) => $page->text, Markdown::pages());
        foreach ([...$texts, ...array_map(file_get_contents(...), $stubs)] as $text) {
            preg_match_all('/redis_lease\.([a-z_]+)\b(?!\.|\()/', $text, $found);
            $named = [...$named, ...$found[1]];
        }
        // The ends of file names.
        $named = array_diff(array_unique($named), ['so', 'ini', 'yaml']);
        $settings = array_map(static fn (string $name) => substr($name, 12), array_keys(self::settings()));
        self::assertSame([], array_values(array_diff($named, $settings)));
        self::assertSame([], array_values(array_diff($settings, $named)));
    }

    /** @return array<string, string> the settings that the extension has, and their defaults */
    private static function settings(): array
    {
        $process = PhpProcess::run('echo json_encode(ini_get_all("redis_lease", false));');

        return array_map(strval(...), json_decode($process->output(), true));
    }

    /**
     * @param array<string, string> $values
     * @return array<string, string>
     */
    private static function sorted(array $values): array
    {
        ksort($values);

        return $values;
    }
}
