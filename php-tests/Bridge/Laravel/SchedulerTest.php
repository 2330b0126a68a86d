<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Laravel;

use RedisLease\Tests\Bridge\Database\Needs;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\PhpProcess;

use function RedisLease\Tests\Support\eventually;

/** artisan schedule:run, as cron starts it on several servers: each a process of its own. */
final class SchedulerTest extends LaravelTestCase
{
    /** Each task says that it runs by a line in a file, and waits for another file. */
    private const SCHEDULE = <<<'PHP'
        <?php
        return static function ($schedule): void {
            $run = 'echo ran >>ran; while [ ! -e go ]; do sleep 0.01; done';
            $task = match (getenv('TASK')) {
                'call' => $schedule->call(fn () => exec('cd ' . escapeshellarg(__DIR__) . " && $run"))->name('report'),
                'background' => $schedule->exec($run)->runInBackground(),
            };
            $task->everyMinute();
            getenv('RULE') === 'overlap' ? $task->withoutOverlapping(5) : $task->onOneServer();
        };
        PHP;

    private string $directory;

    public static function setUpBeforeClass(): void
    {
        Needs::module('redis', 'php-redis');
        parent::setUpBeforeClass();
    }

    protected function setUp(): void
    {
        parent::setUp();
        $this->directory = Janitor::directory('.app');
        file_put_contents("{$this->directory}/schedule.php", self::SCHEDULE);
        // Before Laravel 10 the scheduler's mutexes are values, and several processes have to share those.
        $redis = ['client' => 'phpredis', 'default' => ['host' => self::$server->socket(), 'port' => 0]];
        $values = ['redis' => ['driver' => 'redis', 'connection' => 'default']];
        $this->app(['store' => 'redis'], ['redis' => $redis], $values, $this->directory);

        // By this Laravel finds the PHP for the commands that it runs in the background.
        $php = array_map(escapeshellarg(...), PhpProcess::interpreter(phpIni: true));
        file_put_contents("{$this->directory}/php", "#!/bin/sh\nexec " . implode(' ', $php) . " \"$@\"\n");
        chmod("{$this->directory}/php", 0700);
    }

    public function testATaskDoesNotOverlapItselfOnAnotherServer(): void
    {
        $first = $this->schedule('call', 'overlap');
        $this->awaitRuns(1);
        self::assertNotSame([], self::mutexes());

        $this->finish($this->schedule('call', 'overlap'));
        self::assertSame(1, $this->runs(), 'the other server has left it out');

        $this->go();
        $this->finish($first);
        self::assertSame([], self::mutexes());
        $this->finish($this->schedule('call', 'overlap'));
        self::assertSame(2, $this->runs());
    }

    public function testATaskInTheBackgroundDoesNotOverlapItselfUntilAnotherProcessSaysThatItIsOver(): void
    {
        $this->finish($this->schedule('background', 'overlap'));
        $this->awaitRuns(1);
        $this->finish($this->schedule('background', 'overlap'));
        self::assertSame(1, $this->runs());

        $this->go();
        eventually(static fn () => self::mutexes() === [], 'schedule:finish gives it back');
        $this->finish($this->schedule('background', 'overlap'));
        $this->awaitRuns(2);
        eventually(static fn () => self::mutexes() === [], 'schedule:finish gives it back again');
    }

    public function testATaskRunsOnOneServerEachTime(): void
    {
        $this->go();
        foreach ([['10:00', 1], ['10:00', 1], ['10:01', 2], ['10:01', 2]] as [$time, $runs]) {
            $this->finish($this->schedule('call', 'one server', "2026-01-01 $time:00"));
            self::assertSame($runs, $this->runs(), $time);
        }
    }

    private function schedule(string $task, string $rule, ?string $now = null): PhpProcess
    {
        $environment = ["ARTISAN_DIRECTORY={$this->directory}", "PHP_BINARY={$this->directory}/php", "TASK=$task", "RULE=$rule"];
        $now === null || $environment[] = "ARTISAN_NOW=$now";

        return PhpProcess::startProgram(
            ['env', '-C', $this->directory, ...$environment, "{$this->directory}/php", __DIR__ . '/artisan.php', 'schedule:run'],
        );
    }

    private function finish(PhpProcess $artisan): void
    {
        self::assertSame(0, $artisan->wait(), $artisan->everything());
        self::assertSame('', $artisan->errors(), $artisan->everything());
    }

    private function runs(): int
    {
        return substr_count((string) @file_get_contents("{$this->directory}/ran"), "ran\n");
    }

    private function awaitRuns(int $count): void
    {
        eventually(fn () => $this->runs() === $count, "the task runs for the time $count");
    }

    private function go(): void
    {
        touch("{$this->directory}/go");
    }

    /** @return list<string> */
    private static function mutexes(): array
    {
        // Beside the mutex itself there may be its fence, and a mark.
        return array_values(array_filter(
            self::$server->command('KEYS', '*framework*schedule-*'),
            static fn (string $key): bool => !str_starts_with($key, 'lock~'),
        ));
    }
}
