<?php

declare(strict_types=1);

namespace RedisLease\Tests\Unit;

use DistributedLock;
use PHPUnit\Framework\TestCase;
use RedisLease\Connection;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\StrictCalls;
use RedisLease\Tests\Support\WeakCalls;
use Throwable;

/** Calls with good and bad arguments, in both of PHP's modes, without any server. */
abstract class ArgumentTestCase extends TestCase
{
    protected const MODES = ['weak' => WeakCalls::class, 'strict' => StrictCalls::class];

    /**
     * The call has to throw exactly this class, with a message that begins so, in both modes unless
     * one is named.
     */
    protected static function assertRefused(
        string $class,
        string $message,
        callable $call,
        string $what,
        array $modes = ['weak', 'strict'],
    ): void {
        foreach ($modes as $mode) {
            try {
                $call(self::MODES[$mode]);
            } catch (Throwable $caught) {
                self::assertSame($class, $caught::class, "$what in $mode mode: {$caught->getMessage()}");
                self::assertStringStartsWith($message, $caught->getMessage(), "$what in $mode mode");
                continue;
            }
            self::fail("$what in $mode mode was accepted");
        }
    }

    protected static function assertAccepted(callable $call, string $what, array $modes = ['weak', 'strict']): void
    {
        foreach ($modes as $mode) {
            $refusal = null;
            try {
                $call(self::MODES[$mode]);
            } catch (Throwable $caught) {
                $refusal = $caught::class . ': ' . $caught->getMessage();
            }
            self::assertNull($refusal, "$what in $mode mode");
        }
    }

    /** A connection that nobody answers: it is enough for everything that is refused before sending. */
    protected static function nobody(): Connection
    {
        return new Connection('unix://' . Janitor::path('.nobody'));
    }

    protected static function lock(): DistributedLock
    {
        return new DistributedLock('order:1', 5.0, connection: self::nobody());
    }

    /**
     * Runs the action and gives the deprecations it raised.
     *
     * @return list<string>
     */
    protected static function deprecationsOf(callable $action): array
    {
        $messages = [];
        set_error_handler(static function (int $level, string $message) use (&$messages): bool {
            $messages[] = $message;

            return true;
        }, E_DEPRECATED);
        try {
            $action();
        } finally {
            restore_error_handler();
        }

        return $messages;
    }
}
