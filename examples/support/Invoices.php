<?php

declare(strict_types=1);

/**
 * A table in SQLite with one invoice, number 42, which says who has worked on it.
 */
final class Invoices
{
    /** @return string the file of a new database */
    public static function create(): string
    {
        $file = tempnam(sys_get_temp_dir(), 'late-writer-');
        $db = self::open($file);
        $db->exec('CREATE TABLE invoice (id INTEGER PRIMARY KEY, done_by TEXT, fence BIGINT NULL)');
        $db->exec("INSERT INTO invoice (id, done_by) VALUES (42, 'nobody')");

        return $file;
    }

    public static function open(string $file): PDO
    {
        return new PDO("sqlite:$file", options: [PDO::ATTR_TIMEOUT => 10]);
    }

    public static function doneBy(string $file): string
    {
        return self::open($file)->query('SELECT done_by FROM invoice WHERE id = 42')->fetchColumn();
    }
}
