<?php

namespace RedisLease\Tests\Support;

/** Calls in PHP's weak mode: this file must not declare strict_types. StrictCalls is its twin. */
final class WeakCalls
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
