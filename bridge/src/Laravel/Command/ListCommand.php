<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Laravel\Command;

use Illuminate\Console\Command;
use RedisLease\Bridge\Inspect\Markup;
use RedisLease\Bridge\Laravel\Leases;

/** php artisan lease:list */
final class ListCommand extends Command
{
    protected $signature = 'lease:list
        {beginning? : Only locks whose names begin so}
        {--store= : The cache store, if several have leases}';

    protected $description = 'List the leases, with owner, fence and TTL';

    public function handle(Leases $leases): int
    {
        $rows = [];
        foreach ($leases->inspector($this->option('store'))->list((string) $this->argument('beginning')) as $lease) {
            $rows[] = Markup::row($lease);
        }
        sort($rows);
        $rows === [] ? $this->line('No leases.') : $this->table(['Lock', 'Owner', 'Fence', 'TTL'], $rows);

        return self::SUCCESS;
    }
}
