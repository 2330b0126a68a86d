<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Symfony;

/** A kernel brings handlers for errors and exceptions, and leaves them: a test takes them away again. */
trait Handlers
{
    /** @var array{callable|null, callable|null} */
    private array $handlers;

    protected function setUp(): void
    {
        parent::setUp();
        $this->handlers = self::handlers();
    }

    protected function tearDown(): void
    {
        while (self::handlers()[0] !== $this->handlers[0]) {
            restore_error_handler();
        }
        while (self::handlers()[1] !== $this->handlers[1]) {
            restore_exception_handler();
        }
    }

    /** @return array{callable|null, callable|null} */
    private static function handlers(): array
    {
        $handlers = [set_error_handler(null), set_exception_handler(null)];
        restore_error_handler();
        restore_exception_handler();

        return $handlers;
    }
}
