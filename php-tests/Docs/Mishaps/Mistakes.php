<?php

declare(strict_types=1);

namespace RedisLease\Tests\Docs\Mishaps;

use DistributedLock;
use RedisLease\Connection;
use RedisLease\Tests\Support\PhpProcess;

/** What is said of arguments, settings and calls that make no sense. */
final class Mistakes
{
    /** @return list<string> */
    public static function values(): array
    {
        $mistakes = [
            static fn () => new DistributedLock(''),
            static fn () => new DistributedLock('a', 0.0),
            static fn () => (new DistributedLock('a'))->acquire(INF),
            static fn () => new DistributedLock('a', abortOnLoss: true),
            static fn () => DistributedLock::restore('a', 'reserved:b'),
            static fn () => new Connection('http://a'),
            static fn () => new Connection('redis://:pass/word@a'),
            static fn () => new Connection('redis://user:pass/word@a'),
            static fn () => new Connection('redis://secret@a'),
            static fn () => new Connection('redis://a?db=3'),
            static fn () => new Connection('redis://a redis://b'),
            static fn () => new Connection('redis://a redis://b redis://a'),
        ];

        return [
            ...array_map(Told::by(...), $mistakes),
            self::outputOf('(new DistributedLock("a"))->acquire();', ['redis_lease.dsn' => '"redis://secret@a"']),
            self::outputOf('', ['redis_lease.ttl' => '0']),
            self::outputOf('', ['redis_lease.metrics_prefixes' => '"' . implode(' ', range(1, 33)) . '"']),
        ];
    }

    /** @return list<string> */
    public static function ofPrograms(): array
    {
        return [
            self::outputOf('new DistributedLock("a");', extension: false),
            self::outputOf('serialize(new DistributedLock("a"));'),
            self::outputOf('clone new DistributedLock("a");'),
            self::outputOf('RedisLease\\Metrics::snapshot();', ['redis_lease.metrics' => '0']),
            self::outputOf('$lock = new DistributedLock("a"); $lock->__construct("b");'),
        ];
    }

    /** @param array<string, string> $ini */
    private static function outputOf(string $code, array $ini = [], bool $extension = true): string
    {
        return PhpProcess::run($code, $ini, $extension)->errors();
    }
}
