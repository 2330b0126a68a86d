<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Database;

use PDO;
use RedisLease\Tests\Support\Janitor;

final class Sqlite implements Database
{
    private function __construct(private readonly string $directory)
    {
    }

    public static function start(): self
    {
        Needs::module('pdo_sqlite', 'php-sqlite3');
        $database = new self(Janitor::directory('.sqlite'));
        $database->connect()->exec('PRAGMA journal_mode = WAL');

        return $database;
    }

    public function stop(): void
    {
        Janitor::remove($this->directory);
    }

    public function dsn(): string
    {
        return "sqlite:{$this->directory}/db";
    }

    public function user(): ?string
    {
        return null;
    }

    public function quoted(string $name): string
    {
        return "\"$name\"";
    }

    public function binaryType(): string
    {
        return 'BLOB';
    }

    public function waitingQuery(): ?string
    {
        return null;
    }

    public function connect(array $attributes = []): PDO
    {
        return new PDO($this->dsn(), options: $attributes + [PDO::ATTR_TIMEOUT => 30]);
    }
}
