<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Table;

use PDO;
use RedisLease\Bridge\FencedTable;
use TypeError;
use ValueError;

/** What the guard refuses before it asks the database. */
trait Arguments
{
    public function testNamesThatCouldMeanSomethingElseAreRefused(): void
    {
        $this->insert(1, 'old', null);
        $names = [
            '', ' ', '1', 'a b', 'a-b', 'a"b', 'a`b', "a'b", 'a;b', 'a?', ':a', 'a.b.', '.a', 'a--', 'a/*', 'a\\', "a\0", "a\n",
            "\xff", 'id = 1 OR id', 'name" = \'x\', "name',
        ];
        foreach ($names as $name) {
            $uses = [
                fn () => new FencedTable($this->pdo, $name),
                fn () => new FencedTable($this->pdo, 'item', $name),
                fn () => new FencedTable($this->pdo, 'item', fence: $name),
                fn () => $this->items()->update(1, [$name => 'new'], 5),
                fn () => $this->items()->put(1, [$name => 'new'], 5),
            ];
            foreach ($uses as $number => $use) {
                self::assertRefused($use, ValueError::class, 'name', json_encode($name, JSON_INVALID_UTF8_SUBSTITUTE) . " in use $number");
            }
        }
        self::assertSame(['old', null], $this->stored(1));
    }

    public function testNamesInAnyScriptAreAccepted(): void
    {
        $table = self::$database->quoted('größe');
        $this->createTable($table, 'id INTEGER PRIMARY KEY, ' . self::$database->quoted('价格_1$') . ' INTEGER, fence BIGINT');
        $prices = new FencedTable($this->pdo, 'größe');

        $prices->put(1, ['价格_1$' => 12], 5);

        self::assertTrue($prices->update(1, ['价格_1$' => 13], 5));
        self::assertEquals(13, $this->observer->query('SELECT ' . self::$database->quoted('价格_1$') . " FROM $table")->fetchColumn());
    }

    public function testOnlyAFenceIsAFence(): void
    {
        $this->insert(1, 'old', null);
        foreach ([0, -1, PHP_INT_MIN] as $fence) {
            $writes = [
                fn () => $this->items()->update(1, ['name' => 'new'], $fence),
                fn () => $this->items()->put(1, ['name' => 'new'], $fence),
                fn () => $this->items()->delete(1, $fence),
            ];
            foreach ($writes as $write) {
                self::assertRefused($write, ValueError::class, '$fence', "fence $fence");
            }
        }
        self::assertSame(['old', null], $this->stored(1));
    }

    public function testAKeyHasAValueForEachOfItsColumnsAndNoOther(): void
    {
        $seats = new FencedTable($this->pdo, 'seat', ['hall', 'number']);
        foreach ([1, 'a', [], ['hall' => 'a'], ['hall' => 'a', 'number' => 1, 'id' => 1], ['hall' => 'a', 'Number' => 1], ['a', 1]] as $key) {
            self::assertRefused(fn () => $seats->update($key, [], 5), ValueError::class, 'hall, number', json_encode($key));
        }
        foreach ([null, 1.5, true, []] as $value) {
            self::assertRefused(fn () => $this->items()->delete(['id' => $value], 5), TypeError::class, 'id', json_encode($value));
        }
    }

    public function testTheGuardsOwnColumnsAreNotTheCallersToWrite(): void
    {
        foreach (['id', 'ID', 'fence', 'Fence'] as $column) {
            self::assertRefused(fn () => $this->items()->update(1, [$column => 9], 5), ValueError::class, $column, $column);
            self::assertRefused(fn () => $this->items()->put(1, [$column => 9], 5), ValueError::class, $column, $column);
        }
        self::assertRefused(fn () => new FencedTable($this->pdo, 'item', 'id', 'ID'), ValueError::class, 'fence', 'one column');
        self::assertRefused(fn () => new FencedTable($this->pdo, 'item', []), ValueError::class, 'key', 'no key');
    }

    public function testAValueThatCannotBeBoundIsNamed(): void
    {
        foreach ([[], new \stdClass(), new \DateTimeImmutable()] as $value) {
            self::assertRefused(fn () => $this->items()->update(1, ['name' => $value], 5), TypeError::class, 'name', get_debug_type($value));
        }
    }

    public function testAnotherDriverIsRefused(): void
    {
        $other = new class () extends PDO {
            public function __construct()
            {
            }

            public function getAttribute(int $attribute): mixed
            {
                return 'oci';
            }
        };

        self::assertRefused(fn () => new FencedTable($other, 'item'), ValueError::class, 'oci given', 'the driver');
    }

    /** @param class-string<\Throwable> $class */
    private static function assertRefused(callable $use, string $class, string $word, string $what): void
    {
        try {
            $use();
        } catch (\Throwable $refusal) {
            self::assertInstanceOf($class, $refusal, "$what: " . $refusal->getMessage());
            self::assertStringContainsString($word, $refusal->getMessage(), $what);

            return;
        }
        self::fail("$what was not refused");
    }
}
