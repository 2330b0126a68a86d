<?php

declare(strict_types=1);

/**
 * A shop with one article in SQLite. It checks first and acts afterwards, and between the two something slow
 * happens outside the database: what a row lock or a conditional UPDATE alone would not cover.
 */
final class Shop
{
    public const PAYMENT_SECONDS = 0.02;

    private readonly PDO $db;

    public function __construct(string $file)
    {
        $this->db = new PDO("sqlite:$file", options: [PDO::ATTR_TIMEOUT => 10]);
    }

    /** @return string the file of a new database */
    public static function create(int $stock): string
    {
        $file = tempnam(sys_get_temp_dir(), 'flash-sale-');
        $db = new PDO("sqlite:$file");
        $db->exec('PRAGMA journal_mode = WAL');
        $db->exec('CREATE TABLE item (stock INTEGER NOT NULL); CREATE TABLE sale (buyer INTEGER NOT NULL)');
        $db->exec("INSERT INTO item VALUES ($stock)");

        return $file;
    }

    public static function remove(string $file): void
    {
        foreach (['', '-wal', '-shm'] as $suffix) {
            if (is_file($file . $suffix)) {
                unlink($file . $suffix);
            }
        }
    }

    public function stock(): int
    {
        return (int) $this->db->query('SELECT stock FROM item')->fetchColumn();
    }

    public function takePayment(): void
    {
        usleep((int) (self::PAYMENT_SECONDS * 1e6));
    }

    public function bookSale(int $buyer): void
    {
        $this->db->exec('BEGIN IMMEDIATE');
        $this->db->exec('UPDATE item SET stock = stock - 1');
        $this->db->exec("INSERT INTO sale VALUES ($buyer)");
        $this->db->exec('COMMIT');
    }
}
