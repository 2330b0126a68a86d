<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Table;

use PDO;
use PDOException;
use RedisLease\Bridge\StaleFenceException;
use RedisLease\Tests\Bridge\Database\Sqlite;
use RedisLease\Tests\Support\Worker;

use function RedisLease\Tests\Support\eventually;

/** The transaction is the caller's, and so is its end. */
trait Transactions
{
    public function testTheCallersTransactionTakesTheWriteBack(): void
    {
        $this->insert(1, 'old', 5);
        $this->pdo->beginTransaction();
        self::assertTrue($this->items()->update(1, ['name' => 'new'], 7));
        $this->items()->put(2, ['name' => 'new'], 7);
        self::assertTrue($this->pdo->inTransaction());
        $this->pdo->rollBack();

        self::assertSame(['old', 5], $this->stored(1));
        self::assertNull($this->stored(2));
        self::assertTrue($this->items()->update(1, ['name' => 'of a lower fence'], 6), 'nothing of fence 7 is left');
    }

    public function testTheCallersTransactionGoesOnAfterARefusal(): void
    {
        $this->insert(1, 'of its successor', 7);
        $this->insert(2, 'old', null);
        $this->pdo->beginTransaction();
        $this->pdo->exec("UPDATE item SET name = 'other work' WHERE id = 2");
        self::assertStale(fn () => $this->items()->update(1, ['name' => 'late'], 6), 6, 7);
        self::assertStale(fn () => $this->items()->put(1, ['name' => 'late'], 6), 6, 7);
        self::assertStale(fn () => $this->items()->delete(1, 6), 6, 7);
        self::assertFalse($this->items()->update(3, ['name' => 'x'], 6));
        $this->pdo->commit();

        self::assertSame(['of its successor', 7], $this->stored(1));
        self::assertSame(['other work', null], $this->stored(2));
    }

    public function testALateWriteInATransactionThatBeganBeforeItsSuccessorsIsRefused(): void
    {
        $this->insert(1, 'mine', 5);
        foreach (['update', 'put'] as $method) {
            foreach (['mine', 'late'] as $name) {
                $this->observer->exec("UPDATE item SET name = 'mine', fence = 5 WHERE id = 1");
                $this->pdo->beginTransaction();
                // The transaction sees the table as of now: under the caller's own fence.
                self::assertSame('mine', $this->pdo->query('SELECT name FROM item WHERE id = 1')->fetchAll(PDO::FETCH_COLUMN)[0]);
                $this->observer->exec("UPDATE item SET name = 'of its successor', fence = 7 WHERE id = 1");
                try {
                    $this->items()->$method(1, ['name' => $name], 5);
                    self::fail("$method took a late write");
                } catch (StaleFenceException $stale) {
                    self::assertSame(7, $stale->storedFence);
                } catch (PDOException $busy) {
                    // SQLite refuses any write of a transaction that has read what is no longer so.
                    self::assertInstanceOf(Sqlite::class, self::$database, $busy->getMessage());
                }
                $this->pdo->rollBack();
                self::assertSame(['of its successor', 7], $this->stored(1));
            }
        }
    }

    public function testALateWriterThatWaitsForItsSuccessorsTransactionIsRefusedWhenThatCommits(): void
    {
        $this->insert(1, 'old', 5);
        foreach (['update', 'put', 'delete'] as $number => $method) {
            [$late, $successor] = [10 * $number + 6, 10 * $number + 7];
            $worker = $this->lateWriter($method, $late);
            $this->pdo->beginTransaction();
            self::assertTrue($this->items()->update(1, ['name' => "successor of $method"], $successor));
            $this->letWait($worker);
            $this->pdo->commit();

            self::assertSame($successor, $worker->hear(30.0), $method);
            $worker->finish();
            self::assertSame(["successor of $method", $successor], $this->stored(1));
        }
    }

    public function testALateWriterThatWaitsForATransactionWritesWhenThatIsTakenBack(): void
    {
        $this->insert(1, 'old', 5);
        $worker = $this->lateWriter('update', 6);
        $this->pdo->beginTransaction();
        self::assertTrue($this->items()->update(1, ['name' => 'taken back'], 7));
        $this->letWait($worker);
        $this->pdo->rollBack();

        self::assertSame('written', $worker->hear(30.0));
        $worker->finish();
        self::assertSame(['late', 6], $this->stored(1));
    }

    /** A process that writes item 1 when told to, and says 'written' or the fence that refused it. */
    private function lateWriter(string $method, int $fence): Worker
    {
        return $this->writer(<<<'PHP'
            say('ready');
            hear();
            try {
                $args['method'] === 'delete' ? $items->delete(1, $args['fence']) : $items->{$args['method']}(1, ['name' => 'late'], $args['fence']);
                say('written');
            } catch (RedisLease\Bridge\StaleFenceException $stale) {
                say($stale->storedFence);
            }
            PHP, compact('method', 'fence'));
    }

    private function letWait(Worker $worker): void
    {
        $worker->hear();
        $worker->say('go');
        $query = self::$database->waitingQuery();
        if ($query !== null) {
            eventually(fn () => (int) $this->observer->query($query)->fetchColumn() > 0, 'the late writer waits', 30.0);
        }
    }

    /**
     * A process whose snippet finds $items, its own guarded table.
     *
     * @param array<string, mixed> $args
     */
    private function writer(string $snippet, array $args = []): Worker
    {
        $prepare = <<<'PHP'
            require $args['bridge'];
            $pdo = new PDO($args['dsn'], $args['user'], null, [PDO::ATTR_TIMEOUT => 30]);
            $items = new RedisLease\Bridge\FencedTable($pdo, 'item');

            PHP;
        $args += [
            'bridge' => dirname(__DIR__, 3) . '/bridge/autoload.php',
            'dsn' => self::$database->dsn(),
            'user' => self::$database->user(),
        ];

        return Worker::start($prepare . $snippet, $args, phpIni: true);
    }
}
