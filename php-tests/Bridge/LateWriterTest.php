<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge;

use RedisLease\Tests\Bridge\Database\Needs;
use RedisLease\Tests\Support\PhpProcess;
use RedisLease\Tests\Support\ServerTestCase;
use ValueError;

/** The example that make demo shows, to its end. */
final class LateWriterTest extends ServerTestCase
{
    public function testALateWriterOverwritesIsRefusedOrIsInterrupted(): void
    {
        Needs::module('pdo_sqlite', 'php-sqlite3');
        Needs::module('pcntl', 'php-cli');
        $ini = ['redis_lease.dsn' => self::$server->dsn()];
        $example = PhpProcess::startProgram([
            ...PhpProcess::interpreter($ini, phpIni: true),
            dirname(__DIR__, 2) . '/examples/late-writer.php',
        ]);

        $code = $example->wait(120.0);

        self::assertSame('', $example->errors());
        self::assertSame(0, $code, $example->everything());
        $output = $example->output();
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
