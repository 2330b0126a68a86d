<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Table;

use PDO;
use ValueError;

/**
 * The SQL in which the databases differ: quoting, insert-or-update, and how to look at a row as it is now.
 *
 * @internal
 */
enum Dialect: string
{
    case SQLite = 'sqlite';
    case MySQL = 'mysql';
    case PostgreSQL = 'pgsql';

    public static function of(PDO $pdo): self
    {
        $driver = (string) $pdo->getAttribute(PDO::ATTR_DRIVER_NAME);

        return self::tryFrom($driver) ?? throw new ValueError(
            "FencedTable::__construct(): Argument #1 (\$pdo) must be of the driver sqlite, mysql or pgsql, $driver given",
        );
    }

    /**
     * A name as it stands in SQL. One with quotes, dots or placeholders in it is refused, so that nothing depends on
     * how a driver, or a connection's character set, reads it.
     */
    public function quote(string $name): string
    {
        if (preg_match('/^[\p{L}_][\p{L}\p{M}\p{N}_$]*$/uD', $name) !== 1) {
            $shown = json_encode($name, JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_INVALID_UTF8_SUBSTITUTE);
            throw new ValueError("FencedTable: a name must be of letters, digits, _ and \$, and not begin with a digit, $shown given");
        }

        // SQLite takes an unknown name in double quotes for a string, in backticks it does not.
        return $this === self::PostgreSQL ? "\"$name\"" : "`$name`";
    }

    /**
     * One statement that inserts the row, or updates it under the condition. All names come quoted.
     *
     * @param non-empty-list<string> $keys
     * @param list<string> $values
     */
    public function put(string $table, array $keys, array $values, string $fence): string
    {
        $columns = [...$keys, ...$values, $fence];
        $names = implode(', ', $columns);
        $places = implode(', ', array_fill(0, count($columns), '?'));
        $set = static fn (callable $value): string => implode(', ', array_map(
            static fn (string $column): string => "$column = " . $value($column),
            [...$values, $fence],
        ));

        if ($this !== self::MySQL) {
            $stored = $this->quote('stored');
            $new = $set(static fn (string $column): string => "excluded.$column");
            $conflict = implode(', ', $keys);

            return "INSERT INTO $table AS $stored ($names) VALUES ($places) ON CONFLICT ($conflict) DO UPDATE SET $new "
                . "WHERE $stored.$fence IS NULL OR $stored.$fence <= excluded.$fence";
        }

        // Any unique key of the table leads to the update, so the condition asks for the row's own too. VALUES() is
        // deprecated in MySQL 8, and the only way that MariaDB has as well. It has the type of the column: a bound
        // value would turn a FLOAT that is to stay as it is into a string and back.
        $own = implode(' AND ', array_map(static fn (string $key): string => "$key = VALUES($key)", $keys));
        $condition = "$own AND ($fence IS NULL OR $fence <= VALUES($fence))";
        $new = $set(static fn (string $column): string => "IF($condition, VALUES($column), $column)");

        return "INSERT INTO $table ($names) VALUES ($places) ON DUPLICATE KEY UPDATE $new";
    }

    /**
     * Whether the count of a put() tells if it wrote. MySQL counts changes, or matches, as the connection was
     * opened, and what a trigger changed in a row that was to stay as it is.
     */
    public function countsPuts(): bool
    {
        return $this !== self::MySQL;
    }

    /** Whether a column may store a lower number than it was given, without an error: MySQL, outside of its strict mode. */
    public function cutsNumbers(): bool
    {
        return $this === self::MySQL;
    }

    /** What makes a SELECT see the row as it is now: in MySQL, a transaction's plain one shows how it once was. */
    public function currentRead(): string
    {
        return $this === self::MySQL ? ' FOR UPDATE' : '';
    }

    /** What an integer is bound as to find a key: MySQL would find '5abc' in a text column when asked for 5. */
    public function integerKeyType(): int
    {
        return $this === self::MySQL ? PDO::PARAM_STR : PDO::PARAM_INT;
    }
}
