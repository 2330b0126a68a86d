<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge;

use PDO;
use PDOException;
use RedisLease\Bridge\FencedTable;
use RedisLease\Bridge\StaleFenceException;
use RedisLease\Tests\Bridge\Database\Database;
use RedisLease\Tests\Bridge\Database\MariaDb;
use RuntimeException;

/** MariaDB, through the driver that MySQL has too. */
final class FencedTableOnMariaDbTest extends FencedTableTestCase
{
    protected static function startDatabase(): Database
    {
        return MariaDb::start();
    }

    protected static function attributeSets(): array
    {
        return parent::attributeSets() + [
            'emulated' => [PDO::ATTR_EMULATE_PREPARES => true],
            'native' => [PDO::ATTR_EMULATE_PREPARES => false],
            'matched rows counted' => [PDO::MYSQL_ATTR_FOUND_ROWS => true],
            'matched rows counted, native' => [PDO::MYSQL_ATTR_FOUND_ROWS => true, PDO::ATTR_EMULATE_PREPARES => false],
            'unbuffered' => [PDO::MYSQL_ATTR_USE_BUFFERED_QUERY => false, PDO::ATTR_EMULATE_PREPARES => false],
            'quotes are names' => [PDO::MYSQL_ATTR_INIT_COMMAND => "SET SESSION sql_mode = 'ANSI_QUOTES,STRICT_ALL_TABLES'"],
            'simultaneous' => [PDO::MYSQL_ATTR_INIT_COMMAND => "SET SESSION sql_mode = 'SIMULTANEOUS_ASSIGNMENT'"],
            'read committed' => [PDO::MYSQL_ATTR_INIT_COMMAND => 'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED'],
        ];
    }

    /** MySQL outside of its strict mode would store 2147483647, under which every later fence may write. */
    public function testAColumnThatCutsTheFenceIsNamedAtTheFirstWrite(): void
    {
        foreach (['INT', 'INT UNSIGNED', 'FLOAT', 'DECIMAL(9)'] as $type) {
            $this->createTable('narrow', "id INT PRIMARY KEY, fence $type");
            $this->pdo->exec("SET SESSION sql_mode = ''");
            $writes = [
                fn (FencedTable $narrow) => $narrow->put(1, [], self::$aFence),
                fn (FencedTable $narrow) => $narrow->update(1, [], self::$aFence),
            ];
            foreach ($writes as $write) {
                $this->observer->exec('REPLACE INTO narrow VALUES (1, 5)');
                try {
                    $write(new FencedTable($this->pdo, 'narrow'));
                    self::fail("$type is too narrow");
                } catch (StaleFenceException $stale) {
                    self::assertSame('FLOAT', $type, 'a FLOAT may also have been rounded up: no write then');
                } catch (RuntimeException $failure) {
                    self::assertStringContainsString('BIGINT', $failure->getMessage(), $type);
                }
            }
        }
        $this->createTable('narrow', 'id INT PRIMARY KEY, fence INT');
        $this->observer->exec('INSERT INTO narrow VALUES (1, 5)');
        $this->pdo->exec("SET SESSION sql_mode = 'STRICT_ALL_TABLES'");
        $this->expectException(PDOException::class);
        (new FencedTable($this->pdo, 'narrow'))->update(1, [], self::$aFence);
    }

    public function testWhatARefusedPutLeavesAloneStaysAsItIsToTheLastBit(): void
    {
        $this->createTable('exact', 'id INT PRIMARY KEY, f FLOAT, d DOUBLE, b BIT(8), t TIMESTAMP(6) NULL, j JSON, fence BIGINT');
        $this->observer->exec("INSERT INTO exact VALUES (1, 0.123456789, 0.1e0 + 0.2e0, b'10000001', '2026-01-02 03:04:05.123456', '{\"a\": [1]}', 7)");
        $all = fn (): array => $this->observer->query('SELECT CAST(f AS DOUBLE), d, b + 0, t, j FROM exact')->fetch(PDO::FETCH_NUM);
        $before = $all();
        foreach ([true, false] as $emulated) {
            $this->pdo->setAttribute(PDO::ATTR_EMULATE_PREPARES, $emulated);
            $exact = new FencedTable($this->pdo, 'exact');
            $values = ['f' => '0.5', 'd' => 0.5, 'b' => 5, 't' => '2027-01-01', 'j' => '[]'];

            self::assertStale(fn () => $exact->put(1, $values, 6), 6, 7);

            self::assertSame($before, $all());
        }
    }

    public function testATriggerThatChangesEveryUpdatedRowDoesNotMakeARefusalLookLikeAWrite(): void
    {
        $this->createTable('watched', 'id INT PRIMARY KEY, name VARCHAR(20), seen INT DEFAULT 0, fence BIGINT');
        $this->observer->exec("INSERT INTO watched (id, name, fence) VALUES (1, 'of its successor', 7)");
        $this->observer->exec('CREATE TRIGGER watch BEFORE UPDATE ON watched FOR EACH ROW SET NEW.seen = OLD.seen + 1');
        $watched = new FencedTable($this->pdo, 'watched');

        self::assertStale(fn () => $watched->put(1, ['name' => 'late'], 6), 6, 7);
        self::assertStale(fn () => $watched->update(1, ['name' => 'late'], 6), 6, 7);

        self::assertSame('of its successor', $this->observer->query('SELECT name FROM watched')->fetchColumn());
    }

    /** MariaDB's own defence, on by default from 11.6. */
    public function testWhereMariaDbRefusesWhatATransactionHasNotSeenThatIsThrown(): void
    {
        foreach (['update', 'put', 'delete'] as $method) {
            $this->observer->exec("REPLACE INTO item (id, name, fence) VALUES (1, 'mine', 5)");
            $this->pdo->exec('SET SESSION innodb_snapshot_isolation = ON');
            $this->pdo->beginTransaction();
            $this->pdo->query('SELECT name FROM item')->fetchAll();
            $this->observer->exec("UPDATE item SET name = 'of its successor', fence = 7 WHERE id = 1");
            try {
                $method === 'delete' ? $this->items()->delete(1, 5) : $this->items()->$method(1, ['name' => 'late'], 5);
                self::fail("$method took a late write");
            } catch (PDOException $failure) {
                self::assertSame(1020, $failure->errorInfo[1]);
            }
            $this->pdo->rollBack();
            self::assertSame(['of its successor', 7], $this->stored(1));
        }
    }

    public function testATableWithoutTransactionsIsGuardedToo(): void
    {
        $this->observer->exec('DROP TABLE IF EXISTS plain');
        $this->observer->exec('CREATE TABLE plain (id INT PRIMARY KEY, name VARCHAR(20), fence BIGINT) ENGINE = MyISAM');
        $plain = new FencedTable($this->pdo, 'plain');

        $plain->put(1, ['name' => 'a'], 7);
        self::assertTrue($plain->update(1, ['name' => 'a'], 7));
        self::assertStale(fn () => $plain->put(1, ['name' => 'late'], 6), 6, 7);
        self::assertStale(fn () => $plain->update(1, ['name' => 'late'], 6), 6, 7);
    }
}
