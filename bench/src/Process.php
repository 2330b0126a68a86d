<?php

declare(strict_types=1);

namespace RedisLease\Bench;

use RedisLease\Tests\Support\Janitor;
use RuntimeException;

/** A process that lives as long as the object, is told lines and answers lines. */
final class Process
{
    /**
     * @param resource $process
     * @param resource $input
     * @param resource $output
     */
    private function __construct(
        private readonly string $title,
        private $process,
        private $input,
        private $output,
        public readonly int $pid,
    ) {
    }

    /** @param list<string> $command */
    public static function start(array $command): self
    {
        $process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], STDERR], $pipes);
        $pid = proc_get_status($process)['pid'];
        Janitor::watch($pid);

        return new self(basename($command[0]) . ' ' . end($command), $process, $pipes[0], $pipes[1], $pid);
    }

    /**
     * A worker on a lock, with PHP's own settings and the extension. Peers wait for an answer for ever, so on
     * an overloaded machine we wait long too.
     *
     * @param class-string<Peer> $peer
     * @param array<string, string> $ini
     */
    public static function worker(string $peer, Address $address, string $name, array $ini = []): self
    {
        return self::start(self::workerCommand($peer, $address, $name, $ini));
    }

    /**
     * @param class-string<Peer> $peer
     * @param array<string, string> $ini
     * @return list<string>
     */
    public static function workerCommand(string $peer, Address $address, string $name, array $ini = []): array
    {
        $ini += ['redis_lease.connect_timeout' => '10', 'redis_lease.command_timeout' => '10'];

        return [...self::php($ini), dirname(__DIR__) . '/worker.php', $peer, $address->text, $name];
    }

    /**
     * The start of a command line: every process of a measurement has the same modules.
     *
     * @param array<string, string> $ini
     * @return list<string>
     */
    public static function php(array $ini = []): array
    {
        $command = [PHP_BINARY, '-d', 'extension=' . getenv('REDIS_LEASE_SO')];
        foreach ($ini as $name => $value) {
            array_push($command, '-d', "$name=$value");
        }

        return $command;
    }

    public function __destruct()
    {
        $this->kill();
    }

    public function tell(string $line): void
    {
        if (@fwrite($this->input, "$line\n") === false) {
            throw new RuntimeException("{$this->title} is gone");
        }
    }

    /** The next line, as it is. */
    public function line(): string
    {
        $line = fgets($this->output);
        if ($line === false) {
            throw new RuntimeException("{$this->title} ended without an answer");
        }

        return rtrim($line);
    }

    public function answer(): mixed
    {
        return json_decode($this->line(), true, flags: JSON_THROW_ON_ERROR);
    }

    /** Whether there is an answer to read. */
    public function isReady(): bool
    {
        $read = [$this->output];
        $write = $except = null;

        return stream_select($read, $write, $except, 0) === 1;
    }

    public function ask(string $line): mixed
    {
        $this->tell($line);

        return $this->answer();
    }

    public function signal(int $signal): void
    {
        posix_kill($this->pid, $signal);
    }

    /** Lets it end by itself. */
    public function end(): void
    {
        fclose($this->input);
        proc_close($this->process);
        Janitor::forget($this->pid);
    }

    public function kill(): void
    {
        if (is_resource($this->process)) {
            $this->signal(SIGKILL);
            proc_close($this->process);
            Janitor::forget($this->pid);
        }
    }
}
