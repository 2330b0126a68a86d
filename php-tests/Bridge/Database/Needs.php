<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Database;

use PHPUnit\Framework\Assert;
use PHPUnit\Framework\AssertionFailedError;

/** What must be installed: where it is not, a test fails and says how to bring it. */
final class Needs
{
    public static function module(string $module, string $package): void
    {
        if (extension_loaded($module)) {
            return;
        }
        if (getenv('REDIS_LEASE_BARE_PHP') !== false) {
            Assert::markTestSkipped("this PHP was built without $module");
        }
        throw new AssertionFailedError("PHP's extension $module is missing: apt-get install $package");
    }

    /** A PHP library that Debian has a package of; the file, which loads it, is on PHP's include path. */
    public static function library(string $package, string $file): void
    {
        if (stream_resolve_include_path($file) === false) {
            throw new AssertionFailedError("$file is missing: apt-get install $package");
        }
        require_once $file;
    }

    /** The path of a program, of the newest version where there are several. */
    public static function program(string $package, string ...$patterns): string
    {
        $found = array_merge(...array_map(static fn (string $pattern): array => glob($pattern) ?: [], $patterns));
        natsort($found);

        return end($found) ?: throw new AssertionFailedError("$patterns[0] is missing: apt-get install $package");
    }
}
