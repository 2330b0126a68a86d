<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

use PHPUnit\Framework\AssertionFailedError;

/**
 * A PHP worker in a process of its own. Its snippet talks with the test through say() and hear()
 * (see worker.php) and finds what the test passed in $args.
 */
final class Worker
{
    private const PREAMBLE = <<<'PHP'
        <?php
        declare(strict_types=1);
        require %s;
        use RedisLease\Connection;
        use RedisLease\LeaseException;
        use RedisLease\ConnectionException;
        use RedisLease\OutcomeUnknownException;
        use RedisLease\ServerException;
        use RedisLease\LockTimeoutException;
        use RedisLease\LeaseLostException;

        PHP;

    private int $heard = 0;

    private function __construct(private readonly PhpProcess $process)
    {
    }

    /**
     * @param array<string, mixed> $args what the snippet finds as $args
     * @param array<string, string> $ini
     * @param bool $phpIni whether php.ini counts, and with it the other extensions of this PHP
     */
    public static function start(string $snippet, array $args = [], array $ini = [], bool $phpIni = false): self
    {
        $preamble = sprintf(self::PREAMBLE, var_export(__DIR__ . '/worker.php', true));
        $file = PhpProcess::script($preamble . $snippet);

        // Whatever a snippet forgets, it never reaches a server that is not the test's own.
        $ini += ['redis_lease.dsn' => 'unix:///dev/null/no-redis'];

        $command = [...PhpProcess::interpreter($ini, phpIni: $phpIni), $file, base64_encode(serialize($args))];

        return new self(PhpProcess::startProgram($command));
    }

    /** The next message of the snippet. */
    public function hear(float $seconds = 10.0): mixed
    {
        $deadline = microtime(true) + $seconds;
        for (;;) {
            $running = $this->process->isRunning();
            $lines = explode("\n", $this->process->output());
            if (count($lines) > $this->heard + 1) {
                return json_decode($lines[$this->heard++], true, 512, JSON_THROW_ON_ERROR);
            }
            if (!$running || microtime(true) >= $deadline) {
                $why = $running ? "said nothing in $seconds s" : 'ended before it said anything more';
                throw new AssertionFailedError("The worker $why.\n" . $this->process->everything());
            }
            usleep(500);
        }
    }

    /** Whether hear() has something to give at once. */
    public function hasSaid(): bool
    {
        return substr_count($this->process->output(), "\n") > $this->heard;
    }

    public function say(mixed $message = null): void
    {
        $this->process->write(json_encode($message, JSON_THROW_ON_ERROR) . "\n");
    }

    /** Waits for its end and fails unless it ended well and without a word on stderr. */
    public function finish(float $seconds = 30.0): void
    {
        $code = $this->process->wait($seconds);
        if ($code !== 0 || $this->process->errors() !== '') {
            throw new AssertionFailedError("The worker ended with $code.\n" . $this->process->everything());
        }
    }

    /** Waits for its end, whatever it is like. */
    public function wait(float $seconds = 30.0): int
    {
        return $this->process->wait($seconds);
    }

    public function kill(): void
    {
        $this->process->signal(SIGKILL);
        $this->process->wait();
    }

    public function signal(int $signal): void
    {
        $this->process->signal($signal);
    }

    public function pause(): void
    {
        $this->process->signal(SIGSTOP);
    }

    public function resume(): void
    {
        $this->process->signal(SIGCONT);
    }

    public function pid(): int
    {
        return $this->process->pid();
    }

    public function errors(): string
    {
        return $this->process->errors();
    }
}
