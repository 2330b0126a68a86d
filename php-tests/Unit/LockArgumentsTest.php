<?php

declare(strict_types=1);

namespace RedisLease\Tests\Unit;

use ArgumentCountError;
use DistributedLock;
use Error;
use RedisLease\ConnectionException;
use stdClass;
use TypeError;
use ValueError;

final class LockArgumentsTest extends ArgumentTestCase
{
    private const NEW = 'DistributedLock::__construct(): ';
    private const RESTORE = 'DistributedLock::restore(): ';

    public function testTheResourceIsAnyByteStringUpTo64KiB(): void
    {
        $good = ["\0", "\xff\xfe", '0', ' ', '{', '}', '{}', '{a}b', 'a{b', str_repeat('x', 65536)];
        foreach ($good as $name) {
            self::assertAccepted(
                static fn ($call) => $call::construct(DistributedLock::class, [$name]),
                'the name ' . bin2hex(substr($name, 0, 20)),
            );
            self::assertSame($name, (new DistributedLock($name))->resource());
        }
        foreach (['' => 'must not be empty', str_repeat('x', 65537) => 'must be at most 65536 bytes'] as $name => $why) {
            self::assertRefused(
                ValueError::class,
                self::NEW . "Argument #1 (\$resource) $why",
                static fn ($call) => $call::construct(DistributedLock::class, [$name]),
                'a name of ' . strlen((string) $name) . ' bytes',
            );
            self::assertRefused(
                ValueError::class,
                self::RESTORE . "Argument #1 (\$resource) $why",
                static fn ($call) => $call::method(DistributedLock::class, 'restore', [$name, 'token']),
                'restoring a name of ' . strlen((string) $name) . ' bytes',
            );
        }
    }

    public function testTheResourceHasToBeAString(): void
    {
        $prefix = self::NEW . 'Argument #1 ($resource) must be of type string, ';
        foreach (['array' => [], 'stdClass' => new stdClass()] as $type => $value) {
            self::assertRefused(
                TypeError::class,
                $prefix . "$type given",
                static fn ($call) => $call::construct(DistributedLock::class, [$value]),
                $type,
            );
        }
        foreach (['int' => 42, 'float' => 4.5, 'bool' => true] as $type => $value) {
            self::assertRefused(
                TypeError::class,
                $prefix,
                static fn ($call) => $call::construct(DistributedLock::class, [$value]),
                $type,
                ['strict'],
            );
            self::assertAccepted(
                static fn ($call) => self::assertSame(
                    (string) $value,
                    $call::construct(DistributedLock::class, [$value])->resource(),
                ),
                $type,
                ['weak'],
            );
        }
    }

    public function testNullIsNoResource(): void
    {
        $call = static fn ($call) => $call::construct(DistributedLock::class, [null]);

        $refusal = self::NEW . 'Argument #1 ($resource) must be of type string, null given';
        self::assertRefused(TypeError::class, $refusal, $call, 'null', ['strict']);
        $deprecations = self::deprecationsOf(static fn () => self::assertRefused(
            ValueError::class,
            self::NEW . 'Argument #1 ($resource) must not be empty',
            $call,
            'null',
            ['weak'],
        ));
        self::assertCount(1, $deprecations);
        self::assertStringContainsString('#1 ($resource) of type string is deprecated', $deprecations[0]);
    }

    public function testTheTtlLiesBetweenTenMillisecondsAndOneYear(): void
    {
        $calls = [
            [
                self::NEW . 'Argument #2 ($ttl)',
                static fn ($ttl) => static fn ($call) => $call::construct(DistributedLock::class, ['a', $ttl]),
            ],
            [
                self::RESTORE . 'Argument #3 ($ttl)',
                static fn ($ttl) => static fn ($call) => $call::method(DistributedLock::class, 'restore', ['a', 't', $ttl]),
            ],
            [
                'DistributedLock::renew(): Argument #1 ($ttl)',
                static fn ($ttl) => static fn ($call) => $call::method(self::lock(), 'renew', [$ttl]),
            ],
        ];
        $bad = [
            0, 0.0, -0.0, -1, -1.0, 0.0004, 0.00999, NAN, INF, -INF, 1e300, -1e300, 31_536_000.001, PHP_INT_MAX, PHP_FLOAT_MIN,
        ];
        foreach ($calls as [$argument, $with]) {
            foreach ($bad as $ttl) {
                self::assertRefused(
                    ValueError::class,
                    "$argument must be between 0.01 and 31536000 seconds",
                    $with($ttl),
                    "$argument " . var_export($ttl, true),
                );
            }
            foreach ([0.01, 1, 0.5, 31_536_000, 31_536_000.0, null] as $ttl) {
                self::assertAccepted($with($ttl), "$argument " . var_export($ttl, true));
            }
        }
    }

    public function testTheTtlHasToBeANumber(): void
    {
        $with = static fn ($ttl) => static fn ($call) => $call::construct(DistributedLock::class, ['a', $ttl]);
        $type = self::NEW . 'Argument #2 ($ttl) must be of type ?float, ';
        foreach (['5.0', ' 5', '5e0', true] as $value) {
            self::assertAccepted($with($value), var_export($value, true), ['weak']);
            self::assertRefused(TypeError::class, $type, $with($value), var_export($value, true), ['strict']);
        }
        foreach (['abc', '', '5 s', [], new stdClass()] as $value) {
            self::assertRefused(TypeError::class, $type, $with($value), var_export($value, true));
        }
        self::assertRefused(ValueError::class, self::NEW . 'Argument #2 ($ttl)', $with('0'), "'0'", ['weak']);
        self::assertRefused(ValueError::class, self::NEW . 'Argument #2 ($ttl)', $with('1e300'), "'1e300'", ['weak']);
    }

    public function testTheWaitIsAFiniteNumberOfSecondsFromZero(): void
    {
        $calls = [
            [
                'DistributedLock::acquire(): Argument #1 ($wait)',
                static fn ($wait) => static fn ($call) => $call::method(self::lock(), 'acquire', [$wait]),
            ],
            ['DistributedLock::synchronized(): Argument #2 ($wait)', static fn ($wait) => static fn ($call) => $call::method(
                self::lock(),
                'synchronized',
                [static fn () => self::fail('called back'), $wait],
            )],
        ];
        foreach ($calls as [$argument, $with]) {
            foreach ([-1, -0.001, NAN, INF, -INF] as $wait) {
                self::assertRefused(
                    ValueError::class,
                    "$argument must be a finite number of seconds, 0 or greater",
                    $with($wait),
                    "$argument " . var_export($wait, true),
                );
            }
            foreach (['abc', [], new stdClass()] as $wait) {
                self::assertRefused(TypeError::class, "$argument must be of type float, ", $with($wait), var_export($wait, true));
            }
            $type = "$argument must be of type float, ";
            self::assertRefused(TypeError::class, $type . 'string given', $with('0.0'), "'0.0'", ['strict']);
            self::assertRefused(TypeError::class, $type . 'null given', $with(null), 'null', ['strict']);
            foreach ([0, 0.0, -0.0, 0.001] as $wait) {
                self::assertTried($with($wait), "$argument " . var_export($wait, true));
            }
            self::assertTried($with('0.0'), "'0.0'", ['weak']);
            $deprecations = self::deprecationsOf(static fn () => self::assertTried($with(null), 'null', ['weak']));
            self::assertCount(1, $deprecations);
            self::assertStringContainsString('($wait) of type float is deprecated', $deprecations[0]);
        }
    }

    public function testTheConnectionHasToBeOne(): void
    {
        foreach (['stdClass' => new stdClass(), 'string' => 'redis://127.0.0.1', 'array' => []] as $type => $value) {
            self::assertRefused(
                TypeError::class,
                self::NEW . "Argument #4 (\$connection) must be of type ?RedisLease\\Connection, $type given",
                static fn ($call) => $call::construct(DistributedLock::class, ['a', 5.0, false, $value]),
                $type,
            );
            self::assertRefused(
                TypeError::class,
                self::RESTORE . "Argument #4 (\$connection) must be of type ?RedisLease\\Connection, $type given",
                static fn ($call) => $call::method(DistributedLock::class, 'restore', ['a', 'token', 5.0, $value]),
                $type,
            );
        }
    }

    public function testTheTokenToRestoreIsNotEmpty(): void
    {
        self::assertRefused(
            ValueError::class,
            self::RESTORE . 'Argument #2 ($token) must not be empty',
            static fn ($call) => $call::method(DistributedLock::class, 'restore', ['a', '']),
            'an empty token',
        );
        self::assertRefused(
            TypeError::class,
            self::RESTORE . 'Argument #2 ($token) must be of type string, array given',
            static fn ($call) => $call::method(DistributedLock::class, 'restore', ['a', []]),
            'an array as token',
        );
    }

    public function testTheCriticalSectionHasToBeCallable(): void
    {
        foreach (['no_such_function', [], 42, [DistributedLock::class, 'noSuchMethod']] as $value) {
            self::assertRefused(
                TypeError::class,
                'DistributedLock::synchronized(): Argument #1 ($criticalSection) must be a valid callback, ',
                static fn ($call) => $call::method(self::lock(), 'synchronized', [$value]),
                json_encode($value),
            );
        }
    }

    public function testAbortOnLossIsRefusedWithoutTheRenewalThatItNeeds(): void
    {
        foreach (self::MODES as $call) {
            foreach ([['autoRenew' => true], ['autoRenew' => true, 'abortOnLoss' => true]] as $arguments) {
                $lock = $call::construct(DistributedLock::class, ['resource' => 'a'] + $arguments);
                self::assertFalse($lock->isHeld());
            }
        }
        self::assertRefused(
            ValueError::class,
            'DistributedLock::__construct(): Argument #5 ($abortOnLoss) must be false unless argument #3 ($autoRenew) is true',
            static fn ($call) => $call::construct(DistributedLock::class, ['resource' => 'a', 'abortOnLoss' => true]),
            'abortOnLoss alone',
        );
    }

    public function testTheNumberOfArgumentsIsChecked(): void
    {
        $none = ['release', 'isHeld', 'remaining', 'loss', 'fence', 'token', 'resource', 'detach', 'owner', 'forceRelease'];
        foreach ($none as $method) {
            self::assertRefused(
                ArgumentCountError::class,
                "DistributedLock::$method() expects exactly 0 arguments, 1 given",
                static fn ($call) => $call::method(self::lock(), $method, [1]),
                $method,
            );
        }
        foreach (['acquire', 'renew'] as $method) {
            self::assertRefused(
                ArgumentCountError::class,
                "DistributedLock::$method() expects at most 1 argument, 2 given",
                static fn ($call) => $call::method(self::lock(), $method, [1.0, 2]),
                $method,
            );
        }
        self::assertRefused(
            ArgumentCountError::class,
            'DistributedLock::__construct() expects at least 1 argument, 0 given',
            static fn ($call) => $call::construct(DistributedLock::class, []),
            'no resource',
        );
        self::assertRefused(
            ArgumentCountError::class,
            'DistributedLock::synchronized() expects at least 1 argument, 0 given',
            static fn ($call) => $call::method(self::lock(), 'synchronized', []),
            'no callback',
        );
        self::assertRefused(
            ArgumentCountError::class,
            'DistributedLock::restore() expects at least 2 arguments, 1 given',
            static fn ($call) => $call::method(DistributedLock::class, 'restore', ['a']),
            'no token',
        );
    }

    public function testArgumentsCanBeNamed(): void
    {
        self::assertAccepted(
            static fn ($call) => $call::construct(
                DistributedLock::class,
                ['ttl' => 5.0, 'connection' => self::nobody(), 'resource' => 'a'],
            ),
            'names in any order',
        );
        self::assertRefused(
            Error::class,
            'Unknown named parameter $timeout',
            static fn ($call) => $call::construct(DistributedLock::class, ['resource' => 'a', 'timeout' => 5.0]),
            'an unknown name',
        );
    }

    /** Nobody answers, so an argument that is taken ends in this exception. */
    private static function assertTried(callable $call, string $what, array $modes = ['weak', 'strict']): void
    {
        self::assertRefused(ConnectionException::class, 'Lock "order:1": ', $call, $what, $modes);
    }
}
