<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge;

use PDO;
use PHPUnit\Framework\TestCase;
use RedisLease\Bridge\FencedTable;
use RedisLease\Tests\Bridge\Database\Database;

/**
 * What a caller may demand of a table behind the guard, whatever the database. A database's test class says how to
 * start it; the demands are the traits. The rows are looked at through a connection of their own.
 */
abstract class FencedTableTestCase extends TestCase
{
    use StaleWrites;

    use Table\Writing;
    use Table\Refusals;
    use Table\Arguments;
    use Table\Attributes;
    use Table\Transactions;
    use Table\Races;

    protected static ?Database $database = null;

    /** The test's view of the database, behind the guard's back. */
    protected PDO $observer;

    /** The caller's own connection, which the guard is given. */
    protected PDO $pdo;

    abstract protected static function startDatabase(): Database;

    public static function setUpBeforeClass(): void
    {
        self::$database = static::startDatabase();
    }

    public static function tearDownAfterClass(): void
    {
        self::$database?->stop();
        self::$database = null;
    }

    protected function setUp(): void
    {
        $this->observer = self::$database->connect();
        $this->pdo = self::$database->connect();
        $this->createTable('item', 'id BIGINT PRIMARY KEY, name VARCHAR(100), code VARCHAR(100) UNIQUE, fence BIGINT');
    }

    protected function tearDown(): void
    {
        unset($this->pdo, $this->observer);
    }

    protected function createTable(string $name, string $columns): void
    {
        $this->observer->exec("DROP TABLE IF EXISTS $name");
        $this->observer->exec("CREATE TABLE $name ($columns)");
    }

    protected function items(): FencedTable
    {
        return new FencedTable($this->pdo, 'item');
    }

    protected function insert(int $id, string $name, ?int $fence, ?string $code = null): void
    {
        $this->observer->prepare('INSERT INTO item (id, name, fence, code) VALUES (?, ?, ?, ?)')
            ->execute([$id, $name, $fence, $code]);
    }

    /** @return array{string|null, int|null}|null what item $id holds: name and fence */
    protected function stored(int $id): ?array
    {
        $statement = $this->observer->prepare('SELECT name, fence FROM item WHERE id = ?');
        $statement->execute([$id]);
        $row = $statement->fetch(PDO::FETCH_NUM);
        $statement->closeCursor();

        return $row === false ? null : [$row[0], $row[1] === null ? null : (int) $row[1]];
    }
}
