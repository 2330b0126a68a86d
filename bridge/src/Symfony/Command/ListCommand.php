<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Symfony\Command;

use Closure;
use RedisLease\Bridge\Inspect\Inspector;
use RedisLease\Bridge\Inspect\Markup;
use Symfony\Component\Console\Command\Command;
use Symfony\Component\Console\Input\InputArgument;
use Symfony\Component\Console\Input\InputInterface;
use Symfony\Component\Console\Output\OutputInterface;
use Symfony\Component\Console\Style\SymfonyStyle;

/** lease:list */
final class ListCommand extends Command
{
    /** @param Closure(): Inspector $inspector called when the command runs: to be listed it needs no Redis */
    public function __construct(private readonly Closure $inspector)
    {
        parent::__construct('lease:list');
    }

    protected function configure(): void
    {
        $this->setDescription('Lists the leases, with owner, fence and TTL')
            ->addArgument('beginning', InputArgument::OPTIONAL, 'Only resources that begin so', '');
    }

    protected function execute(InputInterface $input, OutputInterface $output): int
    {
        $rows = [];
        foreach (($this->inspector)()->list((string) $input->getArgument('beginning')) as $lease) {
            $rows[] = Markup::row($lease);
        }
        sort($rows);
        $style = new SymfonyStyle($input, $output);
        $rows === [] ? $style->writeln('No leases.') : $style->table(['Resource', 'Owner', 'Fence', 'TTL'], $rows);

        return self::SUCCESS;
    }
}
