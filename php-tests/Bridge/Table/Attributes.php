<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Table;

use PDO;
use PDOException;
use RedisLease\Bridge\FencedTable;

/** The connection is the caller's, with whatever attributes it has. */
trait Attributes
{
    /** @return array<string, array<int, mixed>> */
    protected static function attributeSets(): array
    {
        return [
            'silent' => [PDO::ATTR_ERRMODE => PDO::ERRMODE_SILENT],
            'warning' => [PDO::ATTR_ERRMODE => PDO::ERRMODE_WARNING],
            'exception' => [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION],
            'upper case' => [PDO::ATTR_CASE => PDO::CASE_UPPER, PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_ASSOC],
            'objects' => [PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_OBJ],
            'strings' => [PDO::ATTR_STRINGIFY_FETCHES => true],
            'null is empty' => [PDO::ATTR_ORACLE_NULLS => PDO::NULL_TO_STRING],
            'empty is null' => [PDO::ATTR_ORACLE_NULLS => PDO::NULL_EMPTY_STRING],
            'statement class' => [PDO::ATTR_STATEMENT_CLASS => [StatementOfTheCaller::class]],
        ];
    }

    public function testEveryAttributeOfTheConnectionIsBorneAndLeftAlone(): void
    {
        foreach (static::attributeSets() as $name => $attributes) {
            $this->observer->exec('DELETE FROM item');
            $this->pdo = self::$database->connect($attributes);
            $before = $this->attributesNow();
            $items = $this->items();

            $this->insert(1, 'old', null);
            self::assertFalse($items->update(2, ['name' => 'x'], 5), $name);
            self::assertTrue($items->update(1, ['name' => 'a'], 5), $name);
            self::assertTrue($items->update(1, ['name' => 'a'], 5), $name);
            self::assertStale(fn () => $items->update(1, ['name' => 'late'], 4), 4, 5);
            $items->put(1, ['name' => 'a'], 5);
            $items->put(1, ['name' => 'b'], 5);
            self::assertStale(fn () => $items->put(1, ['name' => 'late'], 4), 4, 5);
            $items->put(3, ['name' => 'c'], 5);
            self::assertStale(fn () => $items->put(3, ['name' => 'c'], 4), 4, 5);
            self::assertStale(fn () => $items->delete(3, 4), 4, 5);
            self::assertTrue($items->delete(3, 5), $name);
            self::assertFalse($items->delete(3, 5), $name);

            self::assertSame(['b', 5], $this->stored(1), $name);
            self::assertNull($this->stored(3), $name);
            self::assertSame($before, $this->attributesNow(), $name);
            self::assertFalse($this->pdo->inTransaction());
        }
    }

    public function testAFailureOfTheDatabaseIsThrownInEveryErrorMode(): void
    {
        foreach ([PDO::ERRMODE_SILENT, PDO::ERRMODE_WARNING, PDO::ERRMODE_EXCEPTION] as $mode) {
            $this->pdo->setAttribute(PDO::ATTR_ERRMODE, $mode);
            $missing = new FencedTable($this->pdo, 'missing');
            foreach ([fn () => $missing->update(1, [], 5), fn () => $missing->put(1, [], 5), fn () => $missing->delete(1, 5)] as $write) {
                set_error_handler(static fn (): bool => true);
                try {
                    $write();
                    self::fail("mode $mode: there is no such table");
                } catch (PDOException $failure) {
                    self::assertStringContainsString('missing', $failure->getMessage());
                    self::assertSame($failure->errorInfo[0], $failure->getCode());
                    self::assertMatchesRegularExpression('/^(42S02|42P01|HY000)$/', $failure->getCode());
                } finally {
                    restore_error_handler();
                }
            }
        }
    }

    /** @return array<int, mixed> */
    private function attributesNow(): array
    {
        $values = [];
        foreach ([PDO::ATTR_ERRMODE, PDO::ATTR_CASE, PDO::ATTR_ORACLE_NULLS, PDO::ATTR_DEFAULT_FETCH_MODE, PDO::ATTR_STATEMENT_CLASS] as $attribute) {
            $values[$attribute] = $this->pdo->getAttribute($attribute);
        }
        foreach ([PDO::ATTR_EMULATE_PREPARES, PDO::ATTR_STRINGIFY_FETCHES, PDO::ATTR_AUTOCOMMIT] as $attribute) {
            try {
                $values[$attribute] = @$this->pdo->getAttribute($attribute);
            } catch (PDOException) {
                // Not every driver tells it.
            }
        }

        return $values;
    }
}
