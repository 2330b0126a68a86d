<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Database;

use PDO;
use PDOException;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\PhpProcess;
use RuntimeException;

/**
 * A database server on a unix socket in a directory of its own, without a port. Such servers refuse to run as root:
 * for root they run as nobody.
 */
abstract class Server implements Database
{
    private const USER = 'nobody';

    protected readonly string $directory;
    private ?PhpProcess $process = null;

    final private function __construct()
    {
        $this->directory = self::isRoot() ? Janitor::directoryOf(self::USER, '.db') : Janitor::directory('.db');
    }

    public static function start(): self
    {
        static::need();
        $server = new static();
        $server->initialise();
        $server->process = PhpProcess::startProgram(self::unprivileged($server->command()));
        $server->awaitReady();

        return $server;
    }

    /** Fails the test where the server or PHP's driver for it is not installed. */
    abstract protected static function need(): void;

    /** Fills the directory. */
    abstract protected function initialise(): void;

    /** @return list<string> the server's command line */
    abstract protected function command(): array;

    /** What is to be done once, when it runs. */
    protected function prepare(PDO $pdo): void
    {
    }

    /** What makes it end at once, and in order. */
    abstract protected function stopSignal(): int;

    public function __destruct()
    {
        $this->stop();
    }

    public function stop(): void
    {
        if ($this->process !== null) {
            $this->process->signal($this->stopSignal());
            $this->process->wait();
            $this->process = null;
        }
        Janitor::remove($this->directory);
    }

    public function connect(array $attributes = []): PDO
    {
        return new PDO($this->dsn(), $this->user(), null, $attributes);
    }

    /** @param list<string> $command */
    protected static function run(array $command): void
    {
        $process = PhpProcess::startProgram(self::unprivileged($command));
        $process->closeInput();
        if ($process->wait(120.0) !== 0) {
            throw new RuntimeException("$command[0] failed.\n" . $process->everything());
        }
    }

    private function awaitReady(): void
    {
        $deadline = microtime(true) + 60.0;
        for (;;) {
            try {
                $this->prepare($this->connect());

                return;
            } catch (PDOException $notYet) {
                if (!$this->process->isRunning() || microtime(true) > $deadline) {
                    $said = $this->process->everything();
                    throw new RuntimeException("the server does not start: {$notYet->getMessage()}\n$said");
                }
            }
            usleep(10_000);
        }
    }

    /**
     * @param list<string> $command
     * @return list<string>
     */
    private static function unprivileged(array $command): array
    {
        if (!self::isRoot()) {
            return $command;
        }
        $user = posix_getpwnam(self::USER) ?: throw new RuntimeException('there is no user ' . self::USER);

        return ['setpriv', "--reuid={$user['uid']}", "--regid={$user['gid']}", '--clear-groups', '--', ...$command];
    }

    private static function isRoot(): bool
    {
        return posix_geteuid() === 0;
    }
}
