<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

/** A worker in a process of its own that waits for one lock, and tells how its wait ended. */
final class Waiter
{
    private const SNIPPET = <<<'PHP'
        $connection = new Connection($args['dsn'], $args['connectTimeout'], $args['commandTimeout']);
        $lock = new DistributedLock($args['resource'], $args['ttl'], connection: $connection);
        $delay = static fn (): float => (int) explode(' ', @file_get_contents('/proc/self/schedstat') ?: '0 0')[1] / 1e9;
        %s
        say('ready');
        while (($told = hear()) !== null) {
            if ($told === 'release') {
                say($lock->release());
                continue;
            }
            $before = $delay();
            $start = hrtime(true);
            try {
                $answer = $lock->acquire($told);
            } catch (Throwable $thrown) {
                $answer = $thrown::class . ': ' . $thrown->getMessage();
            }
            $end = hrtime(true);
            say([$answer, ($end - $start) / 1e9, $end / 1e9, $delay() - $before, $lock->fence(), $lock->isHeld()]);
        }
        PHP;

    private function __construct(public readonly Worker $process)
    {
    }

    /**
     * A worker that is ready to wait and does not yet.
     *
     * @param string $prepare code that runs in the worker before, for its signal handlers
     * @param array<string, mixed> $args for that code, or the time-outs
     * @param array<string, string> $ini
     */
    public static function start(
        string $dsn,
        string $resource,
        float $ttl = 30.0,
        string $prepare = '',
        array $args = [],
        array $ini = [],
    ): self {
        $args += compact('dsn', 'resource', 'ttl') + ['connectTimeout' => 5.0, 'commandTimeout' => 5.0];

        return new self(Worker::start(sprintf(self::SNIPPET, $prepare), $args, $ini));
    }

    public function ready(): self
    {
        $this->process->hear();

        return $this;
    }

    /** Lets it call acquire(). */
    public function wait(float $seconds = 30.0): self
    {
        $this->process->say($seconds);

        return $this;
    }

    /** How the wait ended, once it has. */
    public function outcome(float $seconds = 40.0): Outcome
    {
        return new Outcome(...$this->process->hear($seconds));
    }

    public function release(): bool
    {
        $this->process->say('release');

        return $this->process->hear();
    }

    /** Lets the process end, with what it holds. */
    public function end(): void
    {
        $this->process->say(null);
        $this->process->finish();
    }
}
