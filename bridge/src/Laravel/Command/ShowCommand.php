<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Laravel\Command;

use RedisLease\Bridge\Inspect\Answer;
use RedisLease\Bridge\Inspect\Markup;
use RedisLease\Bridge\Laravel\Leases;

/** php artisan lease:show */
final class ShowCommand extends Answering
{
    protected $signature = 'lease:show
        {name : The lock, without prefix}
        {--store= : The cache store, if several have leases}';

    protected $description = 'Show who has a lease';

    /** Exit code 1 when it is free. */
    public function handle(Leases $leases): int
    {
        $finding = $leases->inspector($this->option('store'))->look((string) $this->argument('name'));
        $finding->lease === null
            ? $this->line('It is free.')
            : $this->table(['Lock', 'Owner', 'Fence', 'TTL'], [Markup::row($finding->lease)]);
        if ($finding->doubt !== null) {
            $this->line(Markup::escape($finding->doubt));
        }

        return $finding->lease === null ? Answer::NO : Answer::YES;
    }
}
