<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Database;

final class Postgres extends Server
{
    protected static function need(): void
    {
        Needs::module('pdo_pgsql', 'php-pgsql');
        self::program('postgres');
    }

    protected function initialise(): void
    {
        self::run([
            self::program('initdb'), '-D', $this->data(), '-U', 'tester', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync',
        ]);
    }

    protected function command(): array
    {
        $settings = ['listen_addresses' => '', 'unix_socket_directories' => $this->directory, 'fsync' => 'off'];
        $command = [self::program('postgres'), '-D', $this->data()];
        foreach ($settings as $name => $value) {
            array_push($command, '-c', "$name=$value");
        }

        return $command;
    }

    protected function stopSignal(): int
    {
        return SIGINT;
    }

    public function dsn(): string
    {
        return "pgsql:host={$this->directory};dbname=postgres";
    }

    public function user(): ?string
    {
        return 'tester';
    }

    public function quoted(string $name): string
    {
        return "\"$name\"";
    }

    public function binaryType(): string
    {
        return 'BYTEA';
    }

    public function waitingQuery(): ?string
    {
        return 'SELECT count(*) FROM pg_locks WHERE NOT granted';
    }

    private function data(): string
    {
        return $this->directory . '/data';
    }

    /** Debian puts the server's programs aside, by version. */
    private static function program(string $name): string
    {
        return Needs::program('postgresql', "/usr/lib/postgresql/*/bin/$name", "/usr/local/bin/$name", "/usr/bin/$name");
    }
}
