<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Laravel\Command;

use Illuminate\Console\Command;
use Illuminate\Contracts\Debug\ExceptionHandler;
use RedisLease\Bridge\Inspect\Answer;
use RedisLease\Bridge\Inspect\Markup;
use RedisLease\Bridge\Laravel\Leases;
use Symfony\Component\Console\Input\InputInterface;
use Symfony\Component\Console\Output\ConsoleOutputInterface;
use Symfony\Component\Console\Output\OutputInterface;
use Throwable;

/** php artisan lease:show */
final class ShowCommand extends Command
{
    protected $signature = 'lease:show
        {name : The lock, without prefix}
        {--store= : The cache store, if several have leases}';

    protected $description = 'Show who has a lease';

    /** Exit code 2 and the message where there is no answer. Here, so that a missing argument is among it. */
    public function run(InputInterface $input, OutputInterface $output): int
    {
        try {
            return parent::run($input, $output);
        } catch (Throwable $trouble) {
            $trouble = Answer::trouble($trouble);
            // As artisan would, which ends with 1 whatever it was.
            $this->laravel->make(ExceptionHandler::class)->report($trouble);
            $errors = $output instanceof ConsoleOutputInterface ? $output->getErrorOutput() : $output;
            $this->getApplication()->renderThrowable($trouble, $errors);

            return Answer::NONE;
        }
    }

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
