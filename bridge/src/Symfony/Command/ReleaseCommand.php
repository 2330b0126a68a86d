<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Symfony\Command;

use Closure;
use RedisLease\Bridge\Inspect\Answer;
use RedisLease\Bridge\Inspect\Inspector;
use RedisLease\Bridge\Inspect\Lease;
use RedisLease\Bridge\Inspect\Markup;
use Symfony\Component\Console\Input\InputArgument;
use Symfony\Component\Console\Input\InputInterface;
use Symfony\Component\Console\Input\InputOption;
use Symfony\Component\Console\Output\OutputInterface;
use Symfony\Component\Console\Style\SymfonyStyle;

/** lease:release */
final class ReleaseCommand extends Answering
{
    /** @param Closure(): Inspector $inspector called when the command runs: to be listed it needs no Redis */
    public function __construct(private readonly Closure $inspector)
    {
        parent::__construct('lease:release');
    }

    protected function configure(): void
    {
        $this->setDescription('Removes a lease, while its owner may be at work')
            ->addArgument('resource', InputArgument::REQUIRED, 'The name, without prefix')
            ->addOption('owner', null, InputOption::VALUE_REQUIRED, 'Only if this token has it')
            ->addOption('force', 'f', InputOption::VALUE_NONE, 'Do not ask');
    }

    /** Exit code 1 when nothing was removed. */
    protected function execute(InputInterface $input, OutputInterface $output): int
    {
        [$resource, $owner] = [(string) $input->getArgument('resource'), $input->getOption('owner')];
        $style = new SymfonyStyle($input, $output);
        $shown = Markup::escape(Lease::printable($resource));
        $question = "Remove the lease on $shown? Its owner is not asked, and may be at work.";
        // Where nobody can be asked the answer is no.
        if ($owner === null && !$input->getOption('force') && !$style->confirm($question, false)) {
            $style->writeln('Nothing was removed.');

            return Answer::NO;
        }
        $isRemoved = ($this->inspector)()->release($resource, $owner);
        $style->writeln($isRemoved ? 'It was removed.' : 'Nothing was removed: it is free, or another owner has it.');

        return $isRemoved ? Answer::YES : Answer::NO;
    }
}
