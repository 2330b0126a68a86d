<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

use PHPUnit\Framework\AssertionFailedError;

/**
 * A separate PHP process, by default with the extension and nothing else from php.ini. Its two
 * outputs go to files, so that neither side can block the other.
 */
final class PhpProcess
{
    private ?int $exitCode = null;
    private ?int $signal = null;

    /**
     * @param resource $process
     * @param resource|null $input
     */
    private function __construct(
        private $process,
        private $input,
        private readonly int $pid,
        private readonly string $outputFile,
        private readonly string $errorFile,
    ) {
    }

    /** Where the extension under test lies. */
    public static function extension(): string
    {
        return getenv('REDIS_LEASE_SO') ?: dirname(__DIR__, 2) . '/target/release/libredis_lease.so';
    }

    /**
     * The start of a command line.
     *
     * @param array<string, string> $ini
     * @param bool $phpIni whether php.ini counts, and with it the other extensions of this PHP
     * @return list<string>
     */
    public static function interpreter(array $ini = [], bool $extension = true, bool $phpIni = false): array
    {
        $ini += ['error_reporting' => '-1', 'display_errors' => 'stderr', 'log_errors' => '0', 'html_errors' => '0'];
        $command = [PHP_BINARY, ...($phpIni ? [] : ['-n'])];
        if ($extension) {
            array_push($command, '-d', 'extension=' . self::extension());
        }
        foreach ($ini as $name => $value) {
            array_push($command, '-d', "$name=$value");
        }

        return $command;
    }

    /**
     * @param list<string> $arguments of php itself: a file, or -r and code, or --ri and a name
     * @param array<string, string> $ini
     */
    public static function start(array $arguments, array $ini = [], bool $extension = true): self
    {
        return self::startProgram([...self::interpreter($ini, $extension), ...$arguments]);
    }

    /**
     * Any other program, kept and watched in the same way.
     *
     * @param list<string> $command
     */
    public static function startProgram(array $command): self
    {
        $output = Janitor::path('.out');
        $errors = Janitor::path('.err');
        $process = proc_open(
            $command,
            [0 => ['pipe', 'r'], 1 => ['file', $output, 'w'], 2 => ['file', $errors, 'w']],
            $pipes,
        );
        $status = proc_get_status($process);
        $started = new self($process, $pipes[0], $status['pid'], $output, $errors);
        Janitor::watch($status['pid']);
        if (!$status['running']) {
            // A short program can have ended already, and before PHP 8.3 its exit code is told only once.
            $started->ended($status);
        }

        return $started;
    }

    /**
     * Runs PHP code (without the opening tag) to its end and returns the finished process.
     *
     * @param array<string, string> $ini
     */
    public static function run(string $code, array $ini = [], bool $extension = true): self
    {
        return self::runFile(self::script("<?php\n$code"), $ini, $extension);
    }

    public static function runFile(string $file, array $ini = [], bool $extension = true): self
    {
        return self::runArguments([$file], $ini, $extension);
    }

    public static function runArguments(array $arguments, array $ini = [], bool $extension = true): self
    {
        $process = self::start($arguments, $ini, $extension);
        $process->wait();

        return $process;
    }

    /** Writes a script into the scratch directory. */
    public static function script(string $text): string
    {
        $file = Janitor::path('.php');
        file_put_contents($file, $text);

        return $file;
    }

    public function __destruct()
    {
        if ($this->isRunning()) {
            $this->signal(SIGKILL);
            $this->wait();
        }
    }

    public function pid(): int
    {
        return $this->pid;
    }

    public function isRunning(): bool
    {
        if ($this->exitCode !== null) {
            return false;
        }
        $status = proc_get_status($this->process);
        if (!$status['running']) {
            $this->ended($status);
        }

        return $status['running'];
    }

    /** @param array{exitcode: int, signaled: bool, termsig: int} $status */
    private function ended(array $status): void
    {
        $this->exitCode = $status['exitcode'];
        $this->signal = $status['signaled'] ? $status['termsig'] : null;
        proc_close($this->process);
        Janitor::forget($this->pid);
    }

    /** Waits for the end; the exit code, or 128 + the signal that ended it. */
    public function wait(float $seconds = 30.0): int
    {
        $deadline = microtime(true) + $seconds;
        while ($this->isRunning()) {
            if (microtime(true) >= $deadline) {
                $this->signal(SIGKILL);
                throw new AssertionFailedError("The process did not end in $seconds s.\n" . $this->everything());
            }
            usleep(500);
        }

        return $this->signal === null ? $this->exitCode : 128 + $this->signal;
    }

    public function signal(int $signal): void
    {
        posix_kill($this->pid, $signal);
    }

    public function write(string $bytes): void
    {
        fwrite($this->input, $bytes);
        fflush($this->input);
    }

    public function closeInput(): void
    {
        // The end of the process closes it too.
        if (is_resource($this->input)) {
            fclose($this->input);
        }
    }

    public function output(): string
    {
        return (string) file_get_contents($this->outputFile);
    }

    public function errors(): string
    {
        return (string) file_get_contents($this->errorFile);
    }

    /** For failure messages. */
    public function everything(): string
    {
        return "stdout: {$this->output()}\nstderr: {$this->errors()}";
    }
}
