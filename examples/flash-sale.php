<?php

/*
 * One item in stock, fifty buyers at the same instant.
 *
 * Every buyer is a process of its own, as a PHP worker is. It looks whether the item is there, takes the payment
 * and books the sale. While one takes the payment, the others look. First without a lock, then with one.
 *
 *     make demo
 *     php examples/flash-sale.php     with the extension installed, and a Redis where redis_lease.dsn points
 */

declare(strict_types=1);

require __DIR__ . '/support/Shop.php';
require __DIR__ . '/support/Crowd.php';
require __DIR__ . '/support/Terminal.php';
require __DIR__ . '/support/Report.php';

const BUYERS = 50;

if (!extension_loaded('redis_lease')) {
    fwrite(STDERR, "The extension redis_lease is not loaded: use 'make demo', or 'make install' first.\n");
    exit(1);
}

$withoutLock = static function (int $buyer, string $database): Closure {
    $shop = new Shop($database);

    return static function () use ($shop, $buyer): string {
        if ($shop->stock() < 1) {
            return 'sold out';
        }
        $shop->takePayment();
        $shop->bookSale($buyer);

        return 'bought';
    };
};

$withLock = static function (int $buyer, string $database): Closure {
    $shop = new Shop($database);
    $lock = new DistributedLock('item:1', ttl: 5.0);
    $wait = $buyer % 3 === 0 ? 0.0 : 0.5;       // every third buyer does not queue

    return static function () use ($shop, $buyer, $lock, $wait): string {
        if (!$lock->acquire(wait: $wait)) {
            return 'contended';
        }
        try {
            if ($shop->stock() < 1) {
                return 'sold out';
            }
            $shop->takePayment();
            $shop->bookSale($buyer);

            return 'bought';
        } finally {
            $lock->release();
        }
    };
};

$sale = static function (Closure $buyer): array {
    $database = Shop::create(stock: 1);
    try {
        $answers = Crowd::rush(BUYERS, static fn (int $number): Closure => $buyer($number, $database));

        return [$answers, (new Shop($database))->stock()];
    } finally {
        Shop::remove($database);
    }
};

$report = new Report(new Terminal(STDOUT));
$report->opening(BUYERS, Shop::PAYMENT_SECONDS);

[$answers, $stock] = $sale($withoutLock);
$report->heading('Without a lock', 'look, take the payment, book the sale');
$report->result($answers, $stock);

[$answers, $stock] = $sale($withLock);
$report->heading('With a lock', "new DistributedLock('item:1', ttl: 5.0)->acquire(wait: 0.5), every third: 0.0");
$report->answers($answers);
$report->result($answers, $stock);

$outcomes = array_count_values(array_column($answers, 'outcome'));
$refusals = ($outcomes['contended'] ?? 0) + ($outcomes['sold out'] ?? 0);
$exactlyOne = ($outcomes['bought'] ?? 0) === 1 && $stock === 0 && $refusals === BUYERS - 1;
exit($exactlyOne ? 0 : 1);
