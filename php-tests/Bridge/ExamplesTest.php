<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge;

use RedisLease\Tests\Bridge\Database\Needs;
use RedisLease\Tests\Support\PhpProcess;
use RedisLease\Tests\Support\ServerTestCase;
use ValueError;

/** The examples that make demo shows and that need this package, to their ends. */
final class ExamplesTest extends ServerTestCase
{
    public function testALateWriterOverwritesIsRefusedOrIsInterrupted(): void
    {
        $output = self::runExample('late-writer.php', '5');
        self::assertMatchesRegularExpression(
            '/A has the lease.*A is stopped.*B has the lease.*B writes.*A goes on.*A writes.*done by A\. A\'s late write is over B\'s/sU',
            $output,
        );
        self::assertMatchesRegularExpression(
            '/With a guard.*B writes.*A goes on.*A is refused.*done by B\. A\'s late write is refused/sU',
            $output,
        );
        $interrupted = self::interrupts() ? 'A goes on.*A is interrupted.*done by B\. A never comes to its write' : 'does not have it';
        self::assertMatchesRegularExpression("/With a lease that interrupts.*$interrupted/sU", $output);
    }

    public function testALeaseGoesWithAJobAndALateAttemptIsRefused(): void
    {
        $output = self::runExample('queue-hand-off.php');
        self::assertMatchesRegularExpression(
            '/The request +has the lease, fence (\d+);.*A second one is told that.*under way.*'
            . 'The job +goes on with the request\'s lease, fence \1, then it writes.*One lease and one fence/sU',
            $output,
        );
        self::assertMatchesRegularExpression(
            '/A retry.*A is stopped.*B comes after.*fence (\d+)\b.*B writes.*A goes on.*A is refused: fence \1 has.*done by B\./sU',
            $output,
        );
    }

    private static function runExample(string $name, string ...$arguments): string
    {
        Needs::module('pdo_sqlite', 'php-sqlite3');
        Needs::module('pcntl', 'php-cli');
        $ini = ['redis_lease.dsn' => self::$server->dsn()];
        $example = PhpProcess::startProgram([
            ...PhpProcess::interpreter($ini, phpIni: true),
            dirname(__DIR__, 2) . "/examples/$name",
            ...$arguments,
        ]);
        $code = $example->wait(120.0);
        self::assertSame('', $example->errors());
        self::assertSame(0, $code, $example->everything());

        return $example->output();
    }

    private static function interrupts(): bool
    {
        try {
            new \DistributedLock('x', autoRenew: true, abortOnLoss: true);
        } catch (ValueError) {
            return false;
        }

        return true;
    }
}
