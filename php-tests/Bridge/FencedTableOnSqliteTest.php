<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge;

use PDO;
use PDOException;
use RedisLease\Bridge\FencedTable;
use RedisLease\Tests\Bridge\Database\Database;
use RedisLease\Tests\Bridge\Database\Sqlite;
use RuntimeException;

final class FencedTableOnSqliteTest extends FencedTableTestCase
{
    protected static function startDatabase(): Database
    {
        return Sqlite::start();
    }

    public function testAMisspeltFenceColumnIsAnErrorAndNotAString(): void
    {
        $this->insert(1, 'old', 5);
        $misspelt = new FencedTable($this->pdo, 'item', fence: 'fenze');
        foreach ([fn () => $misspelt->delete(1, 9), fn () => $misspelt->delete(2, 9), fn () => $misspelt->update(1, [], 9)] as $write) {
            try {
                $write();
                self::fail('there is no such column');
            } catch (PDOException $failure) {
                self::assertStringContainsString('fenze', $failure->getMessage());
            }
        }
        self::assertSame(['old', 5], $this->stored(1));
    }

    public function testAWriteThatTheTableSwallowsIsNotTakenForOneThatWasDone(): void
    {
        $this->insert(1, 'never fenced', null);
        $this->insert(2, 'fenced', 5);
        $this->observer->exec('DROP VIEW IF EXISTS swallowing');
        $this->observer->exec('CREATE VIEW swallowing AS SELECT * FROM item');
        foreach (['UPDATE', 'DELETE'] as $verb) {
            $this->observer->exec("CREATE TRIGGER swallow_$verb INSTEAD OF $verb ON swallowing BEGIN SELECT 1; END");
        }
        foreach ([PDO::NULL_NATURAL, PDO::NULL_TO_STRING] as $nulls) {
            $this->pdo->setAttribute(PDO::ATTR_ORACLE_NULLS, $nulls);
            $swallowing = new FencedTable($this->pdo, 'swallowing');
            foreach ([1, 2] as $id) {
                foreach ([fn () => $swallowing->update($id, ['name' => 'new'], 9), fn () => $swallowing->delete($id, 9)] as $write) {
                    try {
                        $write();
                        self::fail('nothing was written');
                    } catch (RuntimeException $failure) {
                        self::assertStringContainsString('neither', $failure->getMessage());
                    }
                }
            }
            self::assertStale(fn () => $swallowing->update(2, ['name' => 'late'], 4), 4, 5);
        }
        self::assertSame(['fenced', 5], $this->stored(2));
    }
}
