<?php

/*
 * What an application's artisan is: ARTISAN_DIRECTORY names a directory that application.php has prepared, with
 * schedule.php in it. ARTISAN_NOW is the time, if it is set.
 */

declare(strict_types=1);

use Illuminate\Console\Scheduling\Schedule;
use Illuminate\Contracts\Console\Kernel;
use Illuminate\Support\Carbon;
use Symfony\Component\Console\Input\ArgvInput;
use Symfony\Component\Console\Output\ConsoleOutput;

error_reporting(E_ALL & ~E_DEPRECATED);
[$directory, $stores] = [getenv('ARTISAN_DIRECTORY'), []];
define('ARTISAN_BINARY', __FILE__);

$app = require __DIR__ . '/application.php';
if (getenv('ARTISAN_NOW') !== false) {
    Carbon::setTestNow(getenv('ARTISAN_NOW'));
}
$kernel = $app->make(Kernel::class);
(require "$directory/schedule.php")($app->make(Schedule::class));
$input = new ArgvInput();
$status = $kernel->handle($input, new ConsoleOutput());
$kernel->terminate($input, $status);

exit($status);
