<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Database;

use PDO;

final class MariaDb extends Server
{
    protected static function need(): void
    {
        Needs::module('pdo_mysql', 'php-mysql');
        self::program('mariadbd');
    }

    protected function initialise(): void
    {
        self::run([
            self::program('mariadb-install-db'), '--no-defaults', '--skip-name-resolve', '--datadir=' . $this->data(),
            '--auth-root-authentication-method=normal', '--innodb-log-file-size=8M', '--innodb-flush-log-at-trx-commit=0',
        ]);
    }

    protected function command(): array
    {
        return [
            self::program('mariadbd'), '--no-defaults', '--datadir=' . $this->data(), '--socket=' . $this->socket(),
            '--skip-networking', '--pid-file=' . $this->directory . '/pid', '--tmpdir=' . $this->directory,
            '--innodb-log-file-size=8M', '--innodb-flush-log-at-trx-commit=0', '--innodb-buffer-pool-size=32M',
            // As in MySQL, and in MariaDB before 11.6.
            '--loose-innodb-snapshot-isolation=OFF',
        ];
    }

    protected function prepare(PDO $pdo): void
    {
        $pdo->exec('ALTER DATABASE test CHARACTER SET utf8mb4');
    }

    protected function stopSignal(): int
    {
        return SIGTERM;
    }

    public function dsn(): string
    {
        return 'mysql:unix_socket=' . $this->socket() . ';dbname=test;charset=utf8mb4';
    }

    public function user(): ?string
    {
        return 'root';
    }

    public function quoted(string $name): string
    {
        return "`$name`";
    }

    public function binaryType(): string
    {
        return 'BLOB';
    }

    public function waitingQuery(): ?string
    {
        // Not INNODB_TRX, which is not brought up to date while it is being asked again and again.
        return "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'INNODB_ROW_LOCK_CURRENT_WAITS'";
    }

    private function data(): string
    {
        return $this->directory . '/data';
    }

    private function socket(): string
    {
        return $this->directory . '/s';
    }

    private static function program(string $name): string
    {
        return Needs::program(
            'mariadb-server-core mariadb-client-core',
            "/usr/sbin/$name",
            "/usr/bin/$name",
            "/usr/local/sbin/$name",
            "/usr/local/bin/$name",
        );
    }
}
