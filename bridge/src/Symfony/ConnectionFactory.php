<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Symfony;

use RedisLease\Connection;

/**
 * Makes the connection from the bundle's settings. What they leave out is asked of php.ini when the connection is made,
 * of the PHP that makes it: the one that compiled the container may have another, and a DSN can be a secret.
 *
 * @internal
 */
final class ConnectionFactory
{
    public static function create(
        ?string $dsn,
        ?float $connectTimeout,
        ?float $commandTimeout,
        ?string $prefix,
    ): Connection {
        return [$dsn, $connectTimeout, $commandTimeout, $prefix] === [null, null, null, null]
            ? Connection::default()
            : new Connection($dsn ?? (string) ini_get('redis_lease.dsn'), $connectTimeout, $commandTimeout, $prefix);
    }
}
