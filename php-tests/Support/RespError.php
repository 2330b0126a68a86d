<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

/** An error reply of the server, as it was sent. */
final class RespError extends \RuntimeException
{
}
