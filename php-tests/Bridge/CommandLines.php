<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge;

use PHPUnit\Framework\Assert;
use Symfony\Component\Console\Command\Command;

/** The command lines that the package's README names, and what it says of their options. */
final class CommandLines
{
    /** Of locks, that look like markup of the console's. */
    public const NAMES = ['a<info>b</info>', 'evil<fg=nosuch>x</>', 'x\\<comment>', 'ends\\', '<>\\\\<'];

    /** @param callable(string): Command $find the command of a name */
    public static function check(string $script, callable $find): void
    {
        $readme = file_get_contents(dirname(__DIR__, 2) . '/bridge/README.md');
        $pattern = '/^' . preg_quote($script, '/') . ' (lease:\w+) ?(\S+)? *# (.*)$/m';
        Assert::assertSame(4, preg_match_all($pattern, $readme, $lines, PREG_SET_ORDER));
        foreach ($lines as [, $name, $argument, $comment]) {
            $definition = $find($name)->getDefinition();
            Assert::assertSame(1, $definition->getArgumentCount(), $name);
            $isOptional = str_starts_with($argument, '[');
            Assert::assertSame($isOptional ? 0 : 1, $definition->getArgumentRequiredCount(), $name);
            preg_match_all('/--(\w+)(?:=(\d+))?/', $comment, $options, PREG_SET_ORDER);
            foreach ($options as $option) {
                Assert::assertTrue($definition->hasOption($option[1]), "$name --$option[1]");
                isset($option[2]) && Assert::assertSame($option[2], $definition->getOption($option[1])->getDefault());
            }
        }
    }
}
