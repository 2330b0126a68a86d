<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Symfony\Command;

use Closure;
use RedisLease\Bridge\Inspect\Inspector;
use RedisLease\Bridge\Inspect\Top;
use Symfony\Component\Console\Command\Command;
use Symfony\Component\Console\Input\InputArgument;
use Symfony\Component\Console\Input\InputInterface;
use Symfony\Component\Console\Input\InputOption;
use Symfony\Component\Console\Output\OutputInterface;

/** lease:top */
final class TopCommand extends Command
{
    /** @param Closure(): Inspector $inspector called when the command runs: to be listed it needs no Redis */
    public function __construct(private readonly Closure $inspector)
    {
        parent::__construct('lease:top');
    }

    protected function configure(): void
    {
        $this->setDescription('Shows the leases as they come and go, the hottest first, until it is stopped')
            ->addArgument('beginning', InputArgument::OPTIONAL, 'Only resources that begin so', '')
            ->addOption('once', null, InputOption::VALUE_NONE, 'Look only once')
            ->addOption('interval', null, InputOption::VALUE_REQUIRED, 'Seconds between two looks', '2')
            ->addOption('limit', null, InputOption::VALUE_REQUIRED, 'How many resources to show', '20')
            ->addOption('metrics', null, InputOption::VALUE_REQUIRED, 'URL of the page that Prometheus reads, for the rates');
    }

    protected function execute(InputInterface $input, OutputInterface $output): int
    {
        $top = new Top(($this->inspector)(), (string) $input->getArgument('beginning'), $input->getOption('metrics'));
        $top->show(
            static fn (string $text) => $output->writeln($text, OutputInterface::OUTPUT_RAW),
            (string) $input->getOption('interval'),
            (string) $input->getOption('limit'),
            (bool) $input->getOption('once'),
            $output->isDecorated(),
        );

        return self::SUCCESS;
    }
}
