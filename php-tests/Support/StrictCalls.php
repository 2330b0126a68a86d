<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

/** Calls in PHP's strict mode. WeakCalls is its twin. */
final class StrictCalls
{
    public static function construct(string $class, array $arguments): object
    {
        return new $class(...$arguments);
    }

    public static function method(object|string $target, string $method, array $arguments): mixed
    {
        return is_string($target) ? $target::$method(...$arguments) : $target->$method(...$arguments);
    }
}
