<?php

/*
 * What the examples of the documentation take for granted: an application, with its database, its queue and
 * the functions that do its work. They note nothing and do nothing: what an example shows is the lock around them.
 */

declare(strict_types=1);

if (extension_loaded('pdo_sqlite')) {
    $pdo = new PDO('sqlite::memory:');
    $pdo->exec(<<<'SQL'
        CREATE TABLE ticket (seat TEXT PRIMARY KEY, buyer TEXT);
        CREATE TABLE stock (item TEXT PRIMARY KEY, count INTEGER);
        INSERT INTO stock VALUES ('phone', 1);
        CREATE TABLE page (id INTEGER PRIMARY KEY, text TEXT, version INTEGER);
        INSERT INTO page VALUES (1, 'Once upon a time.', 1);
        CREATE TABLE invoice (id INTEGER PRIMARY KEY, status TEXT, fence INTEGER);
        INSERT INTO invoice VALUES (42, 'new', NULL);
        CREATE TABLE charge (id INTEGER PRIMARY KEY, receipt TEXT);
        SQL);
}
$lock = new DistributedLock('order:42', ttl: 5.0);
$jobs = [['customer' => 7]];

function ship(int $order, int $fence): string
{
    return "shipped $order";
}

function buildInvoice(int $id): string
{
    return "invoice $id";
}

function send(string $invoice, int $fence): void
{
}

/** @return list<string> */
function rows(): array
{
    return ['one', 'two'];
}

function import(string $row, int $fence): void
{
}

/** @return list<string> */
function buildReport(int $year, int $fence): array
{
    return ["report $year"];
}

function charge(int $account, int $fence): void
{
}

function pay(int $order, string $idempotencyKey): string
{
    return "receipt of $idempotencyKey";
}

function updateIndex(): void
{
}

function export(int $customer, int $fence): void
{
}

function enqueue(string $job, array $data = [], int $delay = 0): void
{
    $GLOBALS['jobs'][] = $data;
}

/** @return array{customer: int, token?: string} */
function dequeue(): array
{
    return array_pop($GLOBALS['jobs']);
}
