<?php

declare(strict_types=1);

namespace RedisLease\Tests\Unit;

use ArgumentCountError;
use Error;
use RedisLease\Connection;
use TypeError;
use ValueError;

final class ConnectionArgumentsTest extends ArgumentTestCase
{
    private const ARGUMENT = 'RedisLease\Connection::__construct(): Argument ';
    private const SECRET = 'hunter2';

    public function testTheFormsOfTheDocumentationAreTaken(): void
    {
        $good = [
            'redis://127.0.0.1', 'redis://localhost:6380', 'redis://[::1]:6380/15', 'redis://:pass@host',
            'redis://user:pass@host:1/0', 'redis://host:65535', 'valkey://host', 'unix:///run/redis.sock',
            'unix:///run/redis.sock?db=3&user=u&pass=p', 'unix:///run/a%20b.sock', '  redis://host  ',
        ];
        foreach ($good as $dsn) {
            self::assertAccepted(static fn ($call) => $call::construct(Connection::class, [$dsn]), $dsn);
        }
    }

    public function testAMalformedDsnIsRefusedAndItsPasswordNeverRepeated(): void
    {
        $secret = self::SECRET;
        $bad = [
            '', ' ', 'localhost', 'localhost:6379', "default:$secret@host", 'http://host', '://host', 'redis:/host',
            'redis://', "redis://:$secret@", 'redis://:6379', 'redis://host:0', 'redis://host:70000', 'redis://host:-1',
            'redis://host:port', "redis://user:$secret@host:70000", 'redis://host/one', 'redis://host/-1',
            'redis://host/1/2', 'redis://host/99999999999', "redis://:$secret%@host", "redis://:$secret%4@host",
            "redis://:$secret%zz@host", "redis://:$secret#@host", "redis://:$secret/@host", "redis://:$secret?@host",
            "redis://:$secret:$secret/x@host", 'redis://host?timeout=1', 'redis://ho st', "redis://:$secret x@host",
            "redis://host\0", "redis://\xff", "redis://:$secret\xff@host", 'unix://', 'unix:///',
            'unix://relative.sock', 'unix:///s?db=one', 'unix:///s?db=-1', 'unix:///s?nonsense=1',
            "unix:///s?pass=$secret&pass=$secret", "unix:///s?pass=$secret#", "unix:///s?pass=$secret%",
            "unix:///s?pass=x&$secret", "unix:///s?pass=x&$secret=1", "user:$secret://x@host",
            "redis://:$secret@host:port", str_repeat('redis://', 10000),
        ];
        foreach ($bad as $dsn) {
            $shown = json_encode(substr($dsn, 0, 60), JSON_INVALID_UTF8_SUBSTITUTE);
            foreach (self::MODES as $call) {
                try {
                    $call::construct(Connection::class, [$dsn]);
                    self::fail("$shown was accepted");
                } catch (Error $refusal) {
                    self::assertStringStartsWith(self::ARGUMENT . '#1 ($dsn) ', $refusal->getMessage(), $shown);
                    self::assertStringNotContainsString($secret, $refusal->getMessage(), $shown);
                    self::assertLessThan(400, strlen($refusal->getMessage()), $shown);
                    self::assertInstanceOf(ValueError::class, $refusal, $shown);
                }
            }
        }
    }

    public function testTheMessageNamesThePartThatIsWrong(): void
    {
        $parts = [
            'http://host' => '/redis:\/\//', 'redis://host:0' => '/port/', 'redis://host:70000' => '/port/',
            'redis://host/one' => '/database/', 'redis://:a%zz@host' => '/%/', 'redis://' => '/host/',
            'redis://one redis://two' => '/even number/', 'redis://one redis://two redis://one:6379' => '/twice/',
            'redis+sentinel://host' => '/name of the primary/', 'redis+cluster://host/1' => '/database/',
            'redis+cluster://a redis://b redis://c' => '/single servers/', 'redis://a?wait_replicas=-1' => '/wait_replicas/',
            'unix://' => '/path/', 'unix:///s?nonsense=1' => '/option/', 'unix:///s?db=one' => '/database/',
        ];
        foreach ($parts as $dsn => $part) {
            try {
                new Connection($dsn);
                self::fail("$dsn was accepted");
            } catch (ValueError $refusal) {
                self::assertMatchesRegularExpression($part, $refusal->getMessage(), $dsn);
            }
        }
    }

    public function testTheTimeoutsAreFinitePositiveNumbers(): void
    {
        $arguments = [
            'connectTimeout' => [2, static fn ($value) => ['redis://h', $value]],
            'commandTimeout' => [3, static fn ($value) => ['redis://h', null, $value]],
        ];
        foreach ($arguments as $name => [$number, $list]) {
            $with = static fn ($value) => static fn ($call) => $call::construct(Connection::class, $list($value));
            foreach ([0, -1, -0.5, NAN, INF, -INF, 1e300] as $value) {
                self::assertRefused(
                    ValueError::class,
                    self::ARGUMENT . "#$number (\$$name) must be ",
                    $with($value),
                    "$name " . var_export($value, true),
                );
            }
            foreach (['abc', [], ''] as $value) {
                self::assertRefused(
                    TypeError::class,
                    self::ARGUMENT . "#$number (\$$name) must be of type ?float, ",
                    $with($value),
                    "$name " . var_export($value, true),
                );
            }
            self::assertRefused(TypeError::class, self::ARGUMENT . "#$number (\$$name)", $with('0.5'), $name, ['strict']);
            self::assertAccepted($with('0.5'), "$name '0.5'", ['weak']);
            foreach ([null, 0.05, 1, 30.0] as $value) {
                self::assertAccepted($with($value), "$name " . var_export($value, true));
            }
        }
    }

    public function testThePrefixIsAnyByteString(): void
    {
        foreach (['', "\0\xff", '{', 'app:{x}:', null] as $prefix) {
            self::assertAccepted(
                static fn ($call) => $call::construct(Connection::class, ['redis://h', null, null, $prefix]),
                'the prefix ' . bin2hex((string) $prefix),
            );
        }
        self::assertRefused(
            TypeError::class,
            self::ARGUMENT . '#4 ($prefix) must be of type ?string, array given',
            static fn ($call) => $call::construct(Connection::class, ['redis://h', null, null, []]),
            'an array as prefix',
        );
    }

    public function testTheNumberAndTheTypeOfArgumentsAreChecked(): void
    {
        self::assertRefused(
            ArgumentCountError::class,
            'RedisLease\Connection::__construct() expects at least 1 argument, 0 given',
            static fn ($call) => $call::construct(Connection::class, []),
            'no DSN',
        );
        self::assertRefused(
            TypeError::class,
            self::ARGUMENT . '#1 ($dsn) must be of type string, array given',
            static fn ($call) => $call::construct(Connection::class, [[]]),
            'an array as DSN',
        );
        foreach (['ping', 'close'] as $method) {
            self::assertRefused(
                ArgumentCountError::class,
                "RedisLease\\Connection::$method() expects exactly 0 arguments, 1 given",
                static fn ($call) => $call::method(new Connection('redis://h'), $method, [1]),
                $method,
            );
        }
        self::assertRefused(
            ArgumentCountError::class,
            'RedisLease\Connection::default() expects exactly 0 arguments, 1 given',
            static fn ($call) => $call::method(Connection::class, 'default', [1]),
            'default',
        );
    }
}
