<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Laravel\Command;

use Illuminate\Console\Command;
use RedisLease\Bridge\Inspect\Top;
use RedisLease\Bridge\Laravel\Leases;
use Symfony\Component\Console\Output\OutputInterface;

/** php artisan lease:top */
final class TopCommand extends Command
{
    protected $signature = 'lease:top
        {beginning? : Only locks whose names begin so}
        {--once : Look only once}
        {--interval=2 : Seconds between two looks}
        {--limit=20 : How many locks to show}
        {--metrics= : URL of the page that Prometheus reads, for the rates}
        {--store= : The cache store, if several have leases}';

    protected $description = 'Show the leases as they come and go, the hottest first, until it is stopped';

    public function handle(Leases $leases): int
    {
        $inspector = $leases->inspector($this->option('store'));
        $top = new Top($inspector, (string) $this->argument('beginning'), $this->option('metrics'));
        $top->show(
            fn (string $text) => $this->output->writeln($text, OutputInterface::OUTPUT_RAW),
            (string) $this->option('interval'),
            (string) $this->option('limit'),
            (bool) $this->option('once'),
            $this->output->isDecorated(),
        );

        return self::SUCCESS;
    }
}
