<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Table;

use PDOException;
use RedisLease\Bridge\FencedTable;
use RedisLease\LeaseException;
use RuntimeException;
use Throwable;

/** What a lease may not write any more, and what the database does not want. */
trait Refusals
{
    public function testALateUpdateIsRefusedAndSaysWhatItMet(): void
    {
        $this->insert(1, 'of its successor', self::$aFence + 1);

        $late = self::assertStale(
            fn () => $this->items()->update(1, ['name' => 'late'], self::$aFence),
            self::$aFence,
            self::$aFence + 1,
        );

        self::assertSame(['of its successor', self::$aFence + 1], $this->stored(1));
        self::assertInstanceOf(LeaseException::class, $late);
        self::assertSame(['item', 1], [$late->table, $late->key]);
        self::assertSame(
            'table item, row 1: fence 1800000000000000 is stale, fence 1800000000000001 has written since',
            $late->getMessage(),
        );
    }

    public function testALatePutIsRefused(): void
    {
        $this->insert(1, 'of its successor', 7);

        self::assertStale(fn () => $this->items()->put(1, ['name' => 'late'], 6), 6, 7);
        self::assertStale(fn () => $this->items()->put(1, [], 6), 6, 7);

        self::assertSame(['of its successor', 7], $this->stored(1));
    }

    public function testALateDeletionIsRefused(): void
    {
        $this->insert(1, 'of its successor', 7);

        self::assertStale(fn () => $this->items()->delete(1, 6), 6, 7);

        self::assertSame(['of its successor', 7], $this->stored(1));
    }

    public function testALateWriteIsRefusedThoughItsValuesAreThereAlready(): void
    {
        $this->insert(1, 'same', 7);

        self::assertStale(fn () => $this->items()->update(1, ['name' => 'same'], 6), 6, 7);
        self::assertStale(fn () => $this->items()->put(1, ['name' => 'same'], 6), 6, 7);
    }

    public function testAnotherUniqueKeyNeverLeadsToAnotherRow(): void
    {
        $this->insert(1, 'one', 5, code: 'x');
        $this->insert(2, 'two', 5);
        foreach ([2, 3] as $id) {
            try {
                $this->items()->put($id, ['name' => 'new', 'code' => 'x'], 9);
                self::fail('the code is taken');
            } catch (RuntimeException $refusal) {
                self::assertStringContainsStringIgnoringCase('unique', $this->reason($refusal));
            }
            self::assertSame(['one', 5], $this->stored(1));
        }
        self::assertSame(['two', 5], $this->stored(2));
        self::assertNull($this->stored(3));
    }

    private function reason(Throwable $refusal): string
    {
        return $refusal instanceof PDOException && str_starts_with((string) $refusal->errorInfo[0], '23')
            ? 'unique: ' . $refusal->getMessage()
            : $refusal->getMessage();
    }

    public function testAFenceThatIsNoNumberIsNamedAsTheFault(): void
    {
        $this->createTable('wrong', 'id INTEGER PRIMARY KEY, name VARCHAR(20), fence VARCHAR(20)');
        $this->observer->exec("INSERT INTO wrong VALUES (1, 'old', '9zzz')");
        $table = new FencedTable($this->pdo, 'wrong');
        try {
            $table->delete(1, 5);
            self::fail('nobody knows whether this is a late write');
        } catch (RuntimeException $refusal) {
            self::assertMatchesRegularExpression('/BIGINT|operator does not exist/', $refusal->getMessage());
        }
        self::assertSame('old', $this->observer->query('SELECT name FROM wrong')->fetchColumn());
    }
}
