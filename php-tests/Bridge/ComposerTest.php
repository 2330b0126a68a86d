<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge;

use PHPUnit\Framework\TestCase;

/** What the package says of itself to Composer, and the README of how to get it. */
final class ComposerTest extends TestCase
{
    private const BRIDGE = __DIR__ . '/../../bridge';

    /** @return array<string, mixed> */
    private static function package(): array
    {
        return json_decode(file_get_contents(self::BRIDGE . '/composer.json'), true, flags: JSON_THROW_ON_ERROR);
    }

    public function testTheReadmeInstallsItFromACheckout(): void
    {
        $readme = file_get_contents(self::BRIDGE . '/README.md');
        $lines = '/^composer config repositories\.\w+ path (\S+)\ncomposer require (\S+):@dev$/m';
        self::assertSame(1, preg_match($lines, $readme, $found));
        self::assertSame(basename(realpath(self::BRIDGE)), basename($found[1]));
        self::assertSame(self::package()['name'], $found[2]);
    }

    public function testItConflictsWithWhatTheReadmeDoesNotName(): void
    {
        $readme = file_get_contents(self::BRIDGE . '/README.md');
        $oldest = [
            'symfony/lock' => '/^Lock (\d+\.\d+), /m',
            'symfony/framework-bundle' => '/^Lock (\d+\.\d+), /m',
            'laravel/framework' => '/^Laravel (\d+) to /m',
            'illuminate/cache' => '/^Laravel (\d+) to /m',
            'predis/predis' => '/Predis (\d+\.\d+) and newer/',
        ];
        $conflicts = self::package()['conflict'];
        foreach ($oldest as $package => $pattern) {
            self::assertSame(1, preg_match($pattern, $readme, $found), $package);
            $version = str_contains($found[1], '.') ? $found[1] : "$found[1].0";
            self::assertSame("<$version", $conflicts[$package] ?? null, $package);
        }
        self::assertCount(count($oldest), $conflicts);
    }

    public function testItSuggestsWhatEachCommandNeeds(): void
    {
        $suggestions = self::package()['suggest'];
        foreach (glob(self::BRIDGE . '/src/Symfony/Command/*Command.php') as $file) {
            $command = 'lease:' . strtolower(basename($file, 'Command.php'));
            self::assertStringContainsString($command, $suggestions['symfony/console']);
        }
        self::assertArrayHasKey('ext-mbstring', $suggestions);
    }
}
