<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge;

use PDO;
use PDOException;
use RedisLease\Bridge\FencedTable;
use RedisLease\Tests\Bridge\Database\Database;
use RedisLease\Tests\Bridge\Database\Postgres;

final class FencedTableOnPostgresTest extends FencedTableTestCase
{
    protected static function startDatabase(): Database
    {
        return Postgres::start();
    }

    protected static function attributeSets(): array
    {
        return parent::attributeSets() + [
            'emulated' => [PDO::ATTR_EMULATE_PREPARES => true],
            'no prepares' => [PDO::PGSQL_ATTR_DISABLE_PREPARES => true],
        ];
    }

    public function testATableMayBeNamedWithItsSchema(): void
    {
        $this->observer->exec('CREATE SCHEMA IF NOT EXISTS shop');
        $this->createTable('shop.item', 'id INTEGER PRIMARY KEY, name VARCHAR(20), fence BIGINT');
        $items = new FencedTable($this->pdo, 'shop.item');

        $items->put(1, ['name' => 'a'], 5);
        $items->put(1, ['name' => 'b'], 6);
        self::assertTrue($items->update(1, ['name' => 'c'], 6));
        $late = self::assertStale(fn () => $items->delete(1, 5), 5, 6);

        self::assertSame('shop.item', $late->table);
        self::assertSame('c', $this->observer->query('SELECT name FROM shop.item')->fetchColumn());
    }

    public function testAStrictTransactionFailsRatherThanOverwriteWhatItHasNotSeen(): void
    {
        foreach (['REPEATABLE READ', 'SERIALIZABLE'] as $level) {
            foreach (['update', 'put'] as $method) {
                $this->observer->exec('DELETE FROM item');
                $this->insert(1, 'mine', 5);
                $this->pdo->exec("BEGIN ISOLATION LEVEL $level");
                $this->pdo->query('SELECT name FROM item')->fetchAll();
                $this->observer->exec("UPDATE item SET name = 'of its successor', fence = 7 WHERE id = 1");
                try {
                    $this->items()->$method(1, ['name' => 'late'], 5);
                    self::fail("$level: $method took a late write");
                } catch (PDOException $failure) {
                    self::assertSame('40001', $failure->errorInfo[0]);
                }
                $this->pdo->exec('ROLLBACK');
                self::assertSame(['of its successor', 7], $this->stored(1));
            }
        }
    }

    public function testAFenceThatDoesNotFitIsRefusedByTheDatabase(): void
    {
        $this->createTable('narrow', 'id INTEGER PRIMARY KEY, fence INTEGER');
        $this->observer->exec('INSERT INTO narrow VALUES (1, 5)');
        $narrow = new FencedTable($this->pdo, 'narrow');
        foreach ([fn () => $narrow->update(1, [], self::$aFence), fn () => $narrow->put(1, [], self::$aFence)] as $write) {
            try {
                $write();
                self::fail('the column is too narrow');
            } catch (PDOException $failure) {
                self::assertSame('22003', $failure->errorInfo[0]);
            }
        }
    }
}
