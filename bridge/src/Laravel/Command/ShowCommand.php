<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Laravel\Command;

use Illuminate\Console\Command;
use RedisLease\Bridge\Laravel\Leases;

/** php artisan lease:show */
final class ShowCommand extends Command
{
    protected $signature = 'lease:show
        {name : The lock, without prefix}
        {--store= : The cache store, if several have leases}';

    protected $description = 'Show who has a lease';

    /** Exit code 1 when it is free. */
    public function handle(Leases $leases): int
    {
        $lease = $leases->inspector($this->option('store'))->show((string) $this->argument('name'));
        if ($lease === null) {
            $this->line('It is free.');

            return self::FAILURE;
        }
        $this->table(['Lock', 'Owner', 'Fence', 'TTL'], [$lease->row()]);

        return self::SUCCESS;
    }
}
