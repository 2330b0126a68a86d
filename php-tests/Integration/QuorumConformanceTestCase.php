<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use RedisLease\Tests\Support\RedisServer;

/** Independent servers, all of them well. */
abstract class QuorumConformanceTestCase extends StoreConformanceTestCase
{
    protected const NODES = 3;

    protected static function startServers(): array
    {
        return array_map(static fn () => RedisServer::start(), range(1, static::NODES));
    }

    protected static function dsn(): string
    {
        return implode(' ', array_map(static fn (RedisServer $server) => $server->dsn(), self::$servers));
    }

    protected function setUp(): void
    {
        parent::setUp();
        $this->settle();
    }

    /** A call ends when a majority has answered. A ping awaits every node, behind all else on the same links. */
    protected function settle(): void
    {
        foreach ($this->connection()->ping() as $node => $answer) {
            self::assertIsFloat($answer, $node);
        }
    }
}
