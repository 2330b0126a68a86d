<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Database;

use PDO;

/** A private database of one kind, for one test class. */
interface Database
{
    public static function start(): self;

    public function stop(): void;

    public function dsn(): string;

    public function user(): ?string;

    /** A name as it stands in SQL. */
    public function quoted(string $name): string;

    /** The type of a column for binary data. */
    public function binaryType(): string;

    /** A query that gives the number of sessions which wait for a lock; null where it cannot be asked. */
    public function waitingQuery(): ?string;

    /** @param array<int, mixed> $attributes */
    public function connect(array $attributes = []): PDO;
}
