<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

use RuntimeException;

/** A private FPM with one pool, and a FastCGI client to drive it. Every request runs the same script. */
final class Fpm
{
    private int $master;

    /** @param resource $process */
    private function __construct(
        private $process,
        private readonly string $socket,
        private readonly string $script,
        private readonly string $log,
    ) {
        $this->master = proc_get_status($process)['pid'];
        Janitor::watch($this->master);
    }

    /**
     * @param string $code what each request runs, without the opening tag; $query is the query string
     * @param array<string, string|int> $pool directives of the pool
     * @param array<string, string> $ini
     */
    public static function start(string $code, array $pool = [], array $ini = []): self
    {
        $socket = Janitor::path('.fpm');
        $log = Janitor::path('.log');
        $file = Janitor::path('.conf');
        $user = posix_getpwuid(posix_geteuid())['name'];
        $pool += ['listen' => $socket, 'user' => $user, 'pm' => 'static', 'pm.max_children' => 1, 'catch_workers_output' => 'yes'];
        $lines = ['[global]', "error_log = $log", 'daemonize = no', 'process_control_timeout = 10', '[www]'];
        foreach ($pool as $name => $value) {
            $lines[] = "$name = $value";
        }
        file_put_contents($file, implode("\n", $lines) . "\n");
        touch($log);

        $command = [self::binary(), '-n', '-F', '-R', '-y', $file, '-d', 'extension=' . PhpProcess::extension()];
        foreach ($ini + ['error_log' => $log, 'log_errors' => '1', 'display_errors' => '0', 'html_errors' => '0'] as $name => $value) {
            array_push($command, '-d', "$name=$value");
        }
        $process = proc_open($command, [['file', '/dev/null', 'r'], ['file', $log, 'a'], ['file', $log, 'a']], $pipes);
        $fpm = new self($process, $socket, PhpProcess::script("<?php\n\$query = \$_SERVER['QUERY_STRING'] ?? '';\n$code"), $log);
        eventually(static function () use ($fpm, $socket): bool {
            if (!proc_get_status($fpm->process)['running']) {
                throw new RuntimeException("FPM does not start:\n" . $fpm->log());
            }

            return count($fpm->workers()) > 0 && @stream_socket_client("unix://$socket") !== false;
        }, 'FPM listens and has a worker');

        return $fpm;
    }

    /** The FPM of the PHP that runs the tests. */
    public static function binary(): string
    {
        $version = PHP_MAJOR_VERSION . '.' . PHP_MINOR_VERSION;
        $names = [dirname(PHP_BINARY, 2) . '/sbin/php-fpm'];
        foreach (explode(':', (getenv('PATH') ?: '') . ':/usr/local/sbin:/usr/sbin') as $directory) {
            array_push($names, "$directory/php-fpm$version", "$directory/php-fpm");
        }
        foreach ($names as $name) {
            if (is_executable($name) && str_starts_with((string) shell_exec(escapeshellarg($name) . ' -n -v'), 'PHP ' . PHP_VERSION)) {
                return $name;
            }
        }
        throw new RuntimeException('there is no FPM of PHP ' . PHP_VERSION . ': install it, ' . "for example php$version-fpm");
    }

    public function __destruct()
    {
        if ($this->process !== null) {
            $this->stop();
        }
    }

    /** The body of the answer, whatever its status. */
    public function get(string $query = ''): string
    {
        return self::body($this->begin($query));
    }

    /** Begins a request, and does not wait for its answer. */
    public function begin(string $query = ''): PhpProcess
    {
        return PhpProcess::startProgram(
            ['env', '-i', 'PATH=' . getenv('PATH'), "QUERY_STRING=$query", 'REQUEST_METHOD=GET', "SCRIPT_FILENAME={$this->script}", 'cgi-fcgi', '-bind', '-connect', $this->socket],
        );
    }

    /** Waits for the answer to a request that was begun. */
    public static function body(PhpProcess $request): string
    {
        $request->wait();
        [, $body] = explode("\r\n\r\n", $request->output(), 2) + [1 => ''];

        return $body;
    }

    /** @return list<int> the workers of now */
    public function workers(): array
    {
        return array_map('intval', preg_split('/\s+/', (string) @file_get_contents("/proc/{$this->master}/task/{$this->master}/children"), -1, PREG_SPLIT_NO_EMPTY));
    }

    public function signal(int $signal): void
    {
        posix_kill($this->master, $signal);
    }

    public function log(): string
    {
        return (string) file_get_contents($this->log);
    }

    /** Ends it, by default in a graceful way; its exit code. */
    public function stop(int $signal = SIGQUIT): int
    {
        $this->signal($signal);
        $status = eventually(function (): ?array {
            $status = proc_get_status($this->process);

            return $status['running'] ? null : $status;
        }, "FPM has ended\n" . $this->log());
        proc_close($this->process);
        Janitor::forget($this->master);
        $this->process = null;

        return $status['exitcode'];
    }
}
