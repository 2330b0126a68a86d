<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Table;

use PDO;
use PDOException;
use PDOStatement;
use ReflectionProperty;

/**
 * Runs one statement on the caller's connection, the same whatever its attributes are. A failure is always thrown,
 * also where the error mode would keep it silent: a write that failed must not pass for one that was done.
 *
 * @internal
 */
final class Statement
{
    /**
     * @param list<array{mixed, int}> $bound values with their PDO::PARAM_*
     *
     * @return int how many rows the database counted
     */
    public static function count(PDO $pdo, string $sql, array $bound): int
    {
        $statement = self::execute($pdo, $sql, $bound);
        $count = $statement->rowCount();
        $statement->closeCursor();

        return $count;
    }

    /**
     * @param list<array{mixed, int}> $bound
     *
     * @return list<mixed>|null the first row, or null where there is none
     */
    public static function row(PDO $pdo, string $sql, array $bound): ?array
    {
        $statement = self::execute($pdo, $sql, $bound);
        $row = $statement->fetch(PDO::FETCH_NUM);
        // Or one that is not buffered would be in the way of the caller's next statement.
        $statement->closeCursor();

        return $row === false ? null : $row;
    }

    /** @param list<array{mixed, int}> $bound */
    private static function execute(PDO $pdo, string $sql, array $bound): PDOStatement
    {
        $statement = $pdo->prepare($sql);
        if ($statement === false) {
            throw self::failure($pdo->errorInfo());
        }
        foreach ($bound as $index => [$value, $type]) {
            $statement->bindValue($index + 1, $value, $type);
        }
        if (!$statement->execute()) {
            throw self::failure($statement->errorInfo());
        }

        return $statement;
    }

    /**
     * What PDO would have thrown.
     *
     * @param array{0: string|null, 1?: int|string|null, 2?: string|null} $errorInfo
     */
    private static function failure(array $errorInfo): PDOException
    {
        [$state, $code, $text] = $errorInfo + [null, null, null];
        $failure = new PDOException("SQLSTATE[$state]: $code $text");
        $failure->errorInfo = $errorInfo;
        (new ReflectionProperty(PDOException::class, 'code'))->setValue($failure, $state);

        return $failure;
    }
}
