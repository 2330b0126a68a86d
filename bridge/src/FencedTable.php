<?php

declare(strict_types=1);

namespace RedisLease\Bridge;

use PDO;
use PDOException;
use RedisLease\Bridge\Table\Binding;
use RedisLease\Bridge\Table\Dialect;
use RedisLease\Bridge\Table\Statement;
use RuntimeException;
use Stringable;
use TypeError;
use UnexpectedValueException;
use ValueError;

/**
 * A table whose rows are written only under a fence at least as high as the one that wrote them last: a worker that
 * paused past its lease cannot overwrite the work of its successor.
 *
 *     // ALTER TABLE invoice ADD COLUMN fence BIGINT NULL
 *     $invoices = new FencedTable($pdo, 'invoice');
 *
 *     $lock = new DistributedLock('invoice:42');
 *     $lock->synchronized(fn () => $invoices->update(42, ['status' => 'paid'], $lock->fence()));
 *
 * Every write is one conditional statement, so the database decides. It runs on the caller's connection and within
 * the caller's transaction, if there is one: nothing here begins or ends a transaction or changes an attribute of the
 * PDO object, and everything works with whatever attributes it has. Errors of the database are thrown as
 * PDOException, in every error mode.
 *
 * All writers of a row have to go through such a guard, with fences of the same lock. A statement without the
 * condition is not refused.
 *
 * SQLite 3.24, MySQL 5.7, MariaDB 10.2, PostgreSQL 9.5, and newer.
 */
final class FencedTable
{
    /** How often a row may come or go between a statement and the look at what it met. */
    private const TRIES = 10;

    private readonly Dialect $dialect;
    private readonly string $quotedTable;
    /** @var non-empty-array<string, string> column => quoted */
    private readonly array $keys;
    private readonly string $quotedFence;
    private bool $fenceIsWide = false;

    /**
     * Asks the database nothing yet.
     *
     * @param PDO $pdo a connection to SQLite, MySQL, MariaDB or PostgreSQL
     * @param string $table the table's name, also as "schema.table". PostgreSQL tells upper from lower case here: a
     *     table that was created as Invoice, without quotes, is called invoice.
     * @param string|non-empty-list<string> $key the column that names a row, or several. The table needs a primary or
     *     unique key of exactly these columns.
     * @param string $fence the column for the fence, a 64-bit integer (BIGINT): a fence is about 1.8 × 10¹⁵. NULL in a
     *     row means that it was never written under a fence: any fence may.
     *
     * @throws ValueError when the driver is another one, or a name has other characters than letters, digits, _ and $
     */
    public function __construct(
        private readonly PDO $pdo,
        private readonly string $table,
        string|array $key = 'id',
        private readonly string $fence = 'fence',
    ) {
        $this->dialect = Dialect::of($pdo);
        $quote = $this->dialect->quote(...);
        $this->quotedTable = implode('.', array_map($quote, explode('.', $table)));
        $this->quotedFence = $quote($fence);
        $this->keys = array_combine((array) $key, array_map($quote, (array) $key));
        if ($this->keys === [] || $this->isReserved($fence, withFence: false)) {
            throw new ValueError('FencedTable: the key must have a column, and it must not be the one for the fence');
        }
    }

    /**
     * Updates the row, unless a higher fence has written it. The same fence may write as often as it likes.
     *
     * @param int|string|array<string, int|string> $key the row's key: its value, or column => value for each column
     *     of the key
     * @param array<string, null|bool|int|float|string|Stringable|resource> $values column => new value. A stream is
     *     read and bound as binary data. Empty: only the fence is raised, which keeps older owners out from then on.
     * @param int $fence the fence of the lease, DistributedLock::fence()
     *
     * @return bool true: written. False: there is no such row.
     *
     * @throws StaleFenceException when a higher fence has written the row. Nothing was written.
     * @throws PDOException when the database refused
     * @throws RuntimeException when the write was neither taken nor refused because a trigger or a view is in its
     *     way, or, on MySQL, when the fence's column has cut the number
     * @throws ValueError when the key, a column's name or the fence cannot be used
     * @throws TypeError when a value cannot be bound
     */
    public function update(int|string|array $key, array $values, int $fence): bool
    {
        self::checkFence($fence);
        $set = array_map(static fn (string $column): string => "$column = ?", [
            ...$this->columns($values),
            $this->quotedFence,
        ]);
        [$row, $rowBound] = $this->row($key);
        $sql = "UPDATE {$this->quotedTable} SET " . implode(', ', $set) . " WHERE $row AND {$this->mayWrite()}";
        $bound = [...Binding::of([...$values, $this->fence => $fence]), ...$rowBound, ...Binding::of([$fence])];

        $written = $this->decide($sql, $bound, $key, $fence);
        if ($written) {
            $this->checkThatTheFenceIsWide($key, $fence);
        }

        return $written;
    }

    /**
     * Inserts the row, or updates it unless a higher fence has written it.
     *
     * @param int|string|array<string, int|string> $key as in update()
     * @param array<string, null|bool|int|float|string|Stringable|resource> $values as in update()
     * @param int $fence as in update()
     *
     * @throws StaleFenceException when a higher fence has written the row. Nothing was written, or, outside of a
     *     transaction on MySQL, it was overwritten at once.
     * @throws PDOException when the database refused, also because of another unique key of the table
     * @throws RuntimeException as in update(); on MySQL also because of another unique key of the table
     * @throws ValueError as in update()
     * @throws TypeError as in update()
     */
    public function put(int|string|array $key, array $values, int $fence): void
    {
        self::checkFence($fence);
        $columns = $this->columns($values);
        [, $rowBound] = $this->row($key);
        $sql = $this->dialect->put($this->quotedTable, array_values($this->keys), $columns, $this->quotedFence);
        $bound = [...$rowBound, ...Binding::of([...$values, $this->fence => $fence])];

        for ($try = 0; $try < self::TRIES; $try++) {
            if ($this->decide($sql, $bound, $key, $fence, $this->dialect->countsPuts())) {
                return;
            }
            // It was there, and was deleted before it could be looked at.
        }
        throw $this->notTaken();
    }

    /**
     * Deletes the row, unless a higher fence has written it.
     *
     * The row's fence goes with it: a late put() of an older owner would insert it again. Where that would do harm,
     * mark the row as deleted with update(), and delete it later.
     *
     * @param int|string|array<string, int|string> $key as in update()
     * @param int $fence as in update()
     *
     * @return bool true: deleted. False: there is no such row.
     *
     * @throws StaleFenceException when a higher fence has written the row. Nothing was deleted.
     * @throws PDOException when the database refused
     * @throws RuntimeException when the row was neither deleted nor kept from it because a trigger or a view is in
     *     the way
     * @throws ValueError when the key or the fence cannot be used
     */
    public function delete(int|string|array $key, int $fence): bool
    {
        self::checkFence($fence);
        [$row, $rowBound] = $this->row($key);
        $sql = "DELETE FROM {$this->quotedTable} WHERE $row AND {$this->mayWrite()}";

        return $this->decide($sql, [...$rowBound, ...Binding::of([$fence])], $key, $fence);
    }

    private function mayWrite(): string
    {
        return "({$this->quotedFence} IS NULL OR {$this->quotedFence} <= ?)";
    }

    /**
     * Runs the statement and, if it wrote nothing, finds out why. Fences only rise, so what is seen afterwards tells
     * what it met: a higher one refused it.
     *
     * @param list<array{mixed, int}> $bound
     * @param bool $counts whether the statement's count tells if it wrote
     *
     * @return bool true: written. False: there is no such row.
     */
    private function decide(string $sql, array $bound, int|string|array $key, int $fence, bool $counts = true): bool
    {
        $wasOurs = false;
        for ($try = 0; $try < self::TRIES; $try++) {
            if (Statement::count($this->pdo, $sql, $bound) > 0 && $counts) {
                return true;
            }
            [$isThere, $stored] = $this->look($key);
            if (!$isThere) {
                return false;
            }
            if ($stored > $fence) {
                throw new StaleFenceException($this->table, $key, $fence, $stored);
            }
            // MySQL counts the rows that changed: one that had these values already is not among them. It was there,
            // under our fence, before the statement and after it: so the statement has met it.
            $isOurs = $stored === $fence;
            if ($isOurs && ($wasOurs || !$counts)) {
                return true;
            }
            $wasOurs = $isOurs;
            // Or the row came between the statement and the look.
        }
        throw $this->notTaken();
    }

    /** @return array{bool, int|null} whether the row is there, and its fence as it is now */
    private function look(int|string|array $key): array
    {
        [$row, $bound] = $this->row($key);
        $sql = "SELECT {$this->quotedFence} FROM {$this->quotedTable} WHERE $row" . $this->dialect->currentRead();
        $found = Statement::row($this->pdo, $sql, $bound);
        $fence = $found[0] ?? null;

        return match (true) {
            $found === null => [false, null],
            // PDO::ATTR_ORACLE_NULLS makes '' of null.
            $fence === null || $fence === '' => [true, null],
            is_int($fence) || (is_string($fence) && preg_match('/^-?\d+$/D', $fence) === 1) => [true, (int) $fence],
            default => throw $this->narrow('something else'),
        };
    }

    /** A column that stores a lower number than it was given, without a word, would let every late write pass. */
    private function checkThatTheFenceIsWide(int|string|array $key, int $fence): void
    {
        if ($this->fenceIsWide || !$this->dialect->cutsNumbers()) {
            return;
        }
        [$isThere, $stored] = $this->look($key);
        if ($isThere && $stored < $fence) {
            throw $this->narrow("$stored instead of $fence");
        }
        $this->fenceIsWide = $isThere;
    }

    private function narrow(string $stored): UnexpectedValueException
    {
        return new UnexpectedValueException(
            "Table {$this->table}: the column {$this->fence} must be a 64-bit integer (BIGINT), it holds $stored",
        );
    }

    private function notTaken(): RuntimeException
    {
        return new RuntimeException(
            "Table {$this->table}: the row was neither written nor has it a higher fence. Another unique key, a trigger or "
            . "a view is in the way, or the column {$this->fence} is no 64-bit integer (BIGINT)",
        );
    }

    /** @return array{string, list<array{mixed, int}>} the condition that finds the row, and what it binds */
    private function row(int|string|array $key): array
    {
        $given = is_array($key) ? $key : [array_key_first($this->keys) => $key];
        if (count($given) !== count($this->keys) || array_diff_key($this->keys, $given) !== []) {
            $columns = implode(', ', array_keys($this->keys));
            throw new ValueError("FencedTable: Argument #1 (\$key) must give a value for each of $columns");
        }
        $bound = [];
        foreach ($this->keys as $column => $quoted) {
            $value = $given[$column];
            if (!is_int($value) && !is_string($value)) {
                $type = get_debug_type($value);
                throw new TypeError("FencedTable: Argument #1 (\$key) must hold int and string, $column is of type $type");
            }
            $bound[] = [$value, is_int($value) ? $this->dialect->integerKeyType() : PDO::PARAM_STR];
        }
        $equal = array_map(static fn (string $quoted): string => "$quoted = ?", $this->keys);

        return [implode(' AND ', $equal), $bound];
    }

    /**
     * @param array<string, mixed> $values
     *
     * @return list<string> their columns, quoted
     */
    private function columns(array $values): array
    {
        $columns = array_map(strval(...), array_keys($values));
        foreach ($columns as $column) {
            if ($this->isReserved($column)) {
                throw new ValueError("FencedTable: Argument #2 (\$values) must not have $column, the guard writes it");
            }
        }

        return array_map($this->dialect->quote(...), $columns);
    }

    private function isReserved(string $column, bool $withFence = true): bool
    {
        $reserved = [...array_keys($this->keys), ...($withFence ? [$this->fence] : [])];

        return in_array(strtolower($column), array_map(strtolower(...), $reserved), true);
    }

    private static function checkFence(int $fence): void
    {
        if ($fence < 1) {
            throw new ValueError("FencedTable: Argument (\$fence) must be the fence of a lease, $fence given");
        }
    }
}
