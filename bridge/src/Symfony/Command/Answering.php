<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Symfony\Command;

use RedisLease\Bridge\Inspect\Answer;
use Symfony\Component\Console\Command\Command;
use Symfony\Component\Console\Exception\RuntimeException;
use Symfony\Component\Console\Input\InputInterface;
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
            // The console ends with the code of the exception, if it has one.
            throw new RuntimeException("No answer: {$trouble->getMessage()}", Answer::NONE, $trouble);
        }
    }
}
