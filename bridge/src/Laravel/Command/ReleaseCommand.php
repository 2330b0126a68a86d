<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Laravel\Command;

use RedisLease\Bridge\Inspect\Answer;
use RedisLease\Bridge\Inspect\Lease;
use RedisLease\Bridge\Inspect\Markup;
use RedisLease\Bridge\Laravel\Leases;

/** php artisan lease:release */
final class ReleaseCommand extends Answering
{
    protected $signature = 'lease:release
        {name : The lock, without prefix}
        {--owner= : Only if this owner has it}
        {--force : Do not ask}
        {--store= : The cache store, if several have leases}';

    protected $description = 'Remove a lease, while its owner may be at work';

    /** Exit code 1 when nothing was removed. */
    public function handle(Leases $leases): int
    {
        [$name, $owner] = [(string) $this->argument('name'), $this->option('owner')];
        $shown = Markup::escape(Lease::printable($name));
        $question = "Remove the lease on $shown? Its owner is not asked, and may be at work.";
        // Where nobody can be asked the answer is no.
        if ($owner === null && !$this->option('force') && !$this->confirm($question)) {
            $this->line('Nothing was removed.');

            return Answer::NO;
        }
        $isRemoved = $leases->inspector($this->option('store'))->release($name, $owner);
        $this->line($isRemoved ? 'It was removed.' : 'Nothing was removed: it is free, or another owner has it.');

        return $isRemoved ? Answer::YES : Answer::NO;
    }
}
