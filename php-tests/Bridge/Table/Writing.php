<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Table;

use PDO;
use RedisLease\Bridge\FencedTable;

/** What a lease may write. */
trait Writing
{
    protected static int $aFence = 1_800_000_000_000_000;

    public function testARowIsUpdatedTogetherWithItsFence(): void
    {
        $this->insert(1, 'old', 5);
        $this->insert(2, 'other', 5);

        self::assertTrue($this->items()->update(1, ['name' => 'new'], self::$aFence));

        self::assertSame(['new', self::$aFence], $this->stored(1));
        self::assertSame(['other', 5], $this->stored(2), 'no other row is written');
    }

    public function testARowThatWasNeverWrittenUnderAFenceIsOpenToAny(): void
    {
        $this->insert(1, 'old', null);

        self::assertTrue($this->items()->update(1, ['name' => 'new'], 3));
        self::assertSame(['new', 3], $this->stored(1));
    }

    public function testOneLeaseWritesAsOftenAsItLikesAlsoWhatIsThereAlready(): void
    {
        $this->insert(1, 'old', 5);
        $items = $this->items();

        foreach (['a', 'a', 'b', 'b', 'b'] as $name) {
            self::assertTrue($items->update(1, ['name' => $name], 7));
            self::assertSame([$name, 7], $this->stored(1));
        }
        foreach (['b', 'c', 'c'] as $name) {
            $items->put(1, ['name' => $name], 7);
            self::assertSame([$name, 7], $this->stored(1));
        }
    }

    public function testPutInsertsWhatIsNotThereAndUpdatesWhatIs(): void
    {
        $items = $this->items();

        $items->put(1, ['name' => 'first', 'code' => 'x'], 5);
        self::assertSame(['first', 5], $this->stored(1));
        $items->put(1, ['name' => 'second'], 6);
        self::assertSame(['second', 6], $this->stored(1));
        self::assertSame('x', $this->observer->query('SELECT code FROM item')->fetchColumn(), 'what is not given stays');

        $this->insert(2, 'never fenced', null);
        $items->put(2, ['name' => 'fenced'], 1);
        self::assertSame(['fenced', 1], $this->stored(2));
    }

    public function testARowIsDeleted(): void
    {
        $this->insert(1, 'old', 5);
        $this->insert(2, 'other', 5);
        $this->insert(3, 'never fenced', null);

        self::assertTrue($this->items()->delete(1, 5));
        self::assertTrue($this->items()->delete(3, 1));

        self::assertNull($this->stored(1));
        self::assertSame(['other', 5], $this->stored(2));
        self::assertNull($this->stored(3));
    }

    public function testTheFenceAloneCanBeRaised(): void
    {
        $this->insert(1, 'old', 5);

        self::assertTrue($this->items()->update(1, [], 7));
        self::assertTrue($this->items()->update(1, [], 7));
        self::assertSame(['old', 7], $this->stored(1));

        $this->items()->put(2, [], 7);
        self::assertSame([null, 7], $this->stored(2));
    }

    public function testAMissingRowIsToldApartFromAStaleWrite(): void
    {
        $this->insert(1, 'other', 9);

        self::assertFalse($this->items()->update(2, ['name' => 'x'], 5));
        self::assertFalse($this->items()->delete(2, 5));
        self::assertNull($this->stored(2));
    }

    public function testAKeyMayHaveSeveralColumns(): void
    {
        $this->createTable('seat', 'hall VARCHAR(20), number INTEGER, guest VARCHAR(20), fence BIGINT, PRIMARY KEY (hall, number)');
        $seats = new FencedTable($this->pdo, 'seat', ['hall', 'number']);
        $guests = fn (): array => $this->observer->query('SELECT guest FROM seat ORDER BY hall, number')->fetchAll(PDO::FETCH_COLUMN);

        $seats->put(['hall' => 'a', 'number' => 1], ['guest' => 'Ann'], 5);
        $seats->put(['number' => 2, 'hall' => 'a'], ['guest' => 'Bob'], 6);
        self::assertTrue($seats->update(['number' => 1, 'hall' => 'a'], ['guest' => 'Cem'], 6));
        self::assertSame(['Cem', 'Bob'], $guests());
        self::assertFalse($seats->update(['hall' => 'b', 'number' => 1], ['guest' => 'Dan'], 6));

        $late = self::assertStale(fn () => $seats->put(['hall' => 'a', 'number' => 2], ['guest' => 'Eve'], 5), 5, 6);
        self::assertSame(['hall' => 'a', 'number' => 2], $late->key);
        self::assertStringContainsString('hall = a, number = 2', $late->getMessage());
        self::assertTrue($seats->delete(['hall' => 'a', 'number' => 1], 6));
        self::assertSame(['Bob'], $guests());
    }

    public function testAKeyMeansOneRowAlsoWhereTheDatabaseWouldConvertIt(): void
    {
        $this->createTable('product', 'sku VARCHAR(20) PRIMARY KEY, name VARCHAR(20), fence BIGINT');
        $this->observer->exec("INSERT INTO product (sku, name) VALUES ('5', 'five'), ('5abc', 'another'), ('05', 'a third')");
        $products = new FencedTable($this->pdo, 'product', 'sku');

        self::assertTrue($products->update(5, ['name' => 'new'], 7));
        $products->put(5, ['name' => 'newer'], 7);
        $names = $this->observer->query('SELECT sku, name FROM product')->fetchAll(PDO::FETCH_KEY_PAIR);
        self::assertEquals(['5' => 'newer', '5abc' => 'another', '05' => 'a third'], $names);

        // Neighbours that are one number to a float.
        foreach ([9_007_199_254_740_992, 9_007_199_254_740_993] as $id) {
            $this->insert($id, 'old', null);
        }
        self::assertTrue($this->items()->update(9_007_199_254_740_993, ['name' => 'new'], 7));
        $this->items()->put('9007199254740993', ['name' => 'newer'], 7);
        self::assertSame(['old', null], $this->stored(9_007_199_254_740_992));
        self::assertSame(['newer', 7], $this->stored(9_007_199_254_740_993));
    }

    public function testWordsOfTheLanguageAreNamesToo(): void
    {
        $order = self::$database->quoted('order');
        $columns = array_map(self::$database->quoted(...), ['key', 'group', 'select']);
        $this->createTable($order, "$columns[0] INTEGER PRIMARY KEY, $columns[1] VARCHAR(20), $columns[2] BIGINT");
        $orders = new FencedTable($this->pdo, 'order', key: 'key', fence: 'select');

        $orders->put(1, ['group' => 'a'], 5);
        self::assertTrue($orders->update(1, ['group' => 'b'], 6));
        self::assertStale(fn () => $orders->delete(1, 5), 5, 6);
        self::assertSame('b', $this->observer->query("SELECT $columns[1] FROM $order")->fetchColumn());
        self::assertTrue($orders->delete(1, 6));
    }

    public function testValuesArriveAsTheyWereGiven(): void
    {
        $binary = self::$database->binaryType();
        $this->createTable('thing', "id INTEGER PRIMARY KEY, text VARCHAR(200), amount DOUBLE PRECISION, whole BIGINT, flag BOOLEAN, data $binary, fence BIGINT");
        $things = new FencedTable($this->pdo, 'thing');
        $bytes = implode('', array_map(chr(...), range(0, 255)));
        $stream = static function () use ($bytes) {
            $stream = fopen('php://memory', 'r+');
            fwrite($stream, $bytes);
            rewind($stream);

            return $stream;
        };
        $text = new class () {
            public function __toString(): string
            {
                return "O'Brien \"\\\" `; -- ? :a €\u{1F600}";
            }
        };
        $values = fn (): array => [
            'text' => $text, 'amount' => 0.1 + 0.2, 'whole' => PHP_INT_MAX, 'flag' => true, 'data' => $stream(),
        ];

        $things->put(1, ['text' => null, 'amount' => null], 5);
        self::assertTrue($things->update(1, $values(), 6));
        $things->put(2, $values(), 6);
        $things->put(2, $values(), 7);

        $rows = $this->observer->query('SELECT text, amount, whole, flag, data FROM thing ORDER BY id')->fetchAll(PDO::FETCH_NUM);
        self::assertCount(2, $rows);
        foreach ($rows as $row) {
            self::assertSame((string) $text, $row[0]);
            self::assertSame(0.1 + 0.2, (float) $row[1]);
            self::assertSame(PHP_INT_MAX, (int) $row[2]);
            self::assertTrue((bool) $row[3]);
            self::assertSame($bytes, is_resource($row[4]) ? stream_get_contents($row[4]) : $row[4]);
        }
        self::assertTrue($things->update(1, ['whole' => 3.0, 'flag' => false, 'text' => null], 6));
        $row = $this->observer->query('SELECT text, whole, flag FROM thing WHERE id = 1')->fetch(PDO::FETCH_NUM);
        self::assertSame([null, 3, false], [$row[0], (int) $row[1], (bool) $row[2]]);
    }
}
