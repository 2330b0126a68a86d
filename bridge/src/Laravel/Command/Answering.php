<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Laravel\Command;

use Illuminate\Console\Command;
use Illuminate\Contracts\Debug\ExceptionHandler;
use RedisLease\Bridge\Inspect\Answer;
use Symfony\Component\Console\Input\InputInterface;
use Symfony\Component\Console\Output\ConsoleOutputInterface;
use Symfony\Component\Console\Output\OutputInterface;
use Throwable;

/**
 * A command whose exit code is an answer.
 *
 * @internal
 */
abstract class Answering extends Command
{
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
}
