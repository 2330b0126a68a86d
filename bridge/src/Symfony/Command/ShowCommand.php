<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Symfony\Command;

use Closure;
use RedisLease\Bridge\Inspect\Answer;
use RedisLease\Bridge\Inspect\Inspector;
use RedisLease\Bridge\Inspect\Markup;
use Symfony\Component\Console\Input\InputArgument;
use Symfony\Component\Console\Input\InputInterface;
use Symfony\Component\Console\Output\OutputInterface;
use Symfony\Component\Console\Style\SymfonyStyle;

/** lease:show */
final class ShowCommand extends Answering
{
    /** @param Closure(): Inspector $inspector called when the command runs: to be listed it needs no Redis */
    public function __construct(private readonly Closure $inspector)
    {
        parent::__construct('lease:show');
    }

    protected function configure(): void
    {
        $this->setDescription('Shows who has the lease on a resource')
            ->addArgument('resource', InputArgument::REQUIRED, 'The name, without prefix');
    }

    /** Exit code 1 when it is free. */
    protected function execute(InputInterface $input, OutputInterface $output): int
    {
        $finding = ($this->inspector)()->look((string) $input->getArgument('resource'));
        $style = new SymfonyStyle($input, $output);
        $finding->lease === null
            ? $style->writeln('It is free.')
            : $style->table(['Resource', 'Owner', 'Fence', 'TTL'], [Markup::row($finding->lease)]);
        if ($finding->doubt !== null) {
            $style->writeln(Markup::escape($finding->doubt));
        }

        return $finding->lease === null ? Answer::NO : Answer::YES;
    }
}
