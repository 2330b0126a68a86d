<?php

declare(strict_types=1);

namespace RedisLease\Tests\Fault;

use PHPUnit\Framework\TestCase;
use RedisLease\Tests\Fault\Cuts\Runner;
use RedisLease\Tests\Fault\Cuts\Step;
use RedisLease\Tests\Fault\Cuts\Table;
use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\Janitor;
use Throwable;

/**
 * Every step of the protocol is cut at every place in every way, and what the caller was told is
 * compared with what is true. FAULT_CUTS=all cuts at every single byte, else at the edges and in the
 * middle of every message. The table of outcomes goes to standard error.
 */
final class StepsByCutsTest extends TestCase
{
    /** Most of a cell's time is waiting, so several processes share the work. */
    private const PROCESSES = 6;

    public function testWhateverIsCutNobodyIsToldAnythingUntrue(): void
    {
        if (!function_exists('pcntl_fork')) {
            self::markTestSkipped('PHP was built without pcntl');
        }
        $everywhere = getenv('FAULT_CUTS') === 'all';
        $started = $this->startProcesses($everywhere);
        $table = new Table();
        foreach ($started as [$pid, $file, $proxy, $server]) {
            pcntl_waitpid($pid, $status);
            foreach (file($file) as $line) {
                $table->add(json_decode($line, true, 8, JSON_THROW_ON_ERROR));
            }
            $proxy->stop();
            $server->stop();
        }
        fwrite(STDERR, "\n" . $table->text() . "\n");

        self::assertSame(array_map(static fn (Step $step) => $step->name, Step::all()), $table->steps(), 'every step was cut');
        self::assertSame([], $table->wrong());
        self::assertGreaterThan(1_000, $table->cells());
    }

    /** @return list<array{int, string, FaultProxy, \RedisLease\Tests\Support\RedisServer}> */
    private function startProcesses(bool $everywhere): array
    {
        $started = [];
        for ($process = 0; $process < self::PROCESSES; $process++) {
            $server = Runner::startServer();
            $proxy = FaultProxy::start($server);
            $file = Janitor::path('.cells');
            touch($file);
            $pid = pcntl_fork();
            if ($pid === 0) {
                $this->child(new Runner($server, $proxy), $process, $everywhere, $file);
            }
            $started[] = [$pid, $file, $proxy, $server];
        }

        return $started;
    }

    private function child(Runner $runner, int $process, bool $everywhere, string $file): never
    {
        try {
            $number = $wrong = 0;
            foreach (Step::all() as $step) {
                foreach ($runner->cells($step, $everywhere) as $cell) {
                    if ($number++ % self::PROCESSES === $process) {
                        // Each way to recover meets each kind of cut.
                        $found = $runner->run($cell, $number);
                        $place = ['step' => $step->name, 'cell' => (string) $cell, 'number' => $number];
                        self::tell($file, $place + get_object_vars($cell) + $found);
                        $wrong += (int) ($found['wrong'] !== []);
                    }
                    if ($wrong > 20) {
                        break 2; // Each may cost a time-out: this is enough to know.
                    }
                }
            }
        } catch (Throwable $failure) {
            self::tell($file, ['failure' => (string) $failure]);
        }
        // Nothing that belongs to the parent may be ended here.
        posix_kill(posix_getpid(), SIGKILL);
        exit;
    }

    private static function tell(string $file, array $line): void
    {
        file_put_contents($file, json_encode($line, JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE) . "\n", FILE_APPEND);
    }
}
