<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

use RuntimeException;

/**
 * A private Redis or Valkey server on a free unix socket, and on a free TCP port if asked for.
 * It knows nothing but its own temporary directory; REDIS_SERVER_BIN chooses the program.
 */
final class RedisServer
{
    private readonly string $directory;
    private readonly ?int $port;
    /** @var resource|null */
    private $process = null;
    private ?int $pid = null;
    private ?Resp $client = null;

    /**
     * @param array<string, string|list<string>> $settings of redis.conf; a list gives the line several times
     * @param list<string> $aclUsers as in an ACL file: "user alice on >secret ~lock:* +@all"
     */
    private function __construct(
        bool $tcp,
        private readonly ?string $password,
        private readonly array $settings,
        private readonly array $aclUsers,
        private readonly bool $isSentinel,
    ) {
        $this->directory = Janitor::directory('.redis');
        $this->port = $tcp ? self::freePort() : null;
    }

    public static function start(
        bool $tcp = false,
        ?string $password = null,
        array $settings = [],
        array $aclUsers = [],
        bool $isSentinel = false,
    ): self {
        // Between finding a free port and binding it another process may have taken it.
        for ($attempt = 1; ; $attempt++) {
            $server = new self($tcp, $password, $settings, $aclUsers, $isSentinel);
            try {
                $server->launch();

                return $server;
            } catch (RuntimeException $failure) {
                $server->stop();
                if (!$tcp || $attempt === 3) {
                    throw $failure;
                }
            }
        }
    }

    public static function binary(): ?string
    {
        $wanted = getenv('REDIS_SERVER_BIN') ?: 'redis-server';
        if (str_contains($wanted, '/')) {
            return is_executable($wanted) ? $wanted : null;
        }
        foreach (explode(':', (getenv('PATH') ?: '') . ':/usr/bin:/usr/sbin') as $directory) {
            if (is_executable("$directory/$wanted")) {
                return "$directory/$wanted";
            }
        }

        return null;
    }

    public function __destruct()
    {
        $this->stop();
    }

    public function socket(): string
    {
        return $this->directory . '/s';
    }

    public function port(): int
    {
        return $this->port ?? throw new RuntimeException('this server was started without TCP');
    }

    public function pid(): int
    {
        return $this->pid ?? throw new RuntimeException('this server does not run');
    }

    public function isRunning(): bool
    {
        return $this->pid !== null;
    }

    /** The DSN of the unix socket, with the password if there is one and any further parameters. */
    public function dsn(array $parameters = []): string
    {
        if ($this->password !== null) {
            $parameters += ['pass' => $this->password];
        }

        return 'unix://' . $this->socket()
            . ($parameters === [] ? '' : '?' . http_build_query($parameters, '', '&', PHP_QUERY_RFC3986));
    }

    /** The DSN of the TCP port; the user part comes as given, for example "alice:secret". */
    public function tcpDsn(?string $userInfo = null, ?int $database = null): string
    {
        $userInfo ??= $this->password === null ? null : ':' . rawurlencode($this->password);

        return 'redis://' . ($userInfo === null ? '' : $userInfo . '@') . '127.0.0.1:' . $this->port()
            . ($database === null ? '' : '/' . $database);
    }

    /** A new client of its own, with all rights. */
    public function connect(int $database = 0): Resp
    {
        $client = new Resp('unix://' . $this->socket());
        if ($this->password !== null) {
            $client->command('AUTH', $this->password);
        }
        if ($database !== 0) {
            $client->command('SELECT', $database);
        }

        return $client;
    }

    /** @return int|string|null|list<mixed> */
    public function command(string|int ...$words): int|string|array|null
    {
        $this->client ??= $this->connect();

        return $this->client->command(...$words);
    }

    public function flush(): void
    {
        $this->command('FLUSHALL');
    }

    /** Until this empty server has so many replicas, and each has confirmed what was written. */
    public function awaitReplicas(int $count): void
    {
        // That is written on a cluster's server too, whatever its slots.
        $this->command('FLUSHALL');
        $confirm = fn () => count($this->command('ROLE')[2]) === $count && $this->command('WAIT', $count, 1) === $count;
        eventually($confirm, "the server has $count replicas", 30.0);
    }

    public function stop(): void
    {
        if ($this->pid !== null) {
            $this->kill();
        }
        Janitor::remove($this->directory);
    }

    /** SIGKILL, as a crash or a power cut would be. */
    public function kill(): void
    {
        posix_kill($this->pid(), SIGKILL);
        proc_close($this->process);
        Janitor::forget($this->pid);
        $this->pid = $this->process = $this->client = null;
    }

    /** The server hangs: connections are accepted by the kernel, nothing is answered. */
    public function pause(): void
    {
        posix_kill($this->pid(), SIGSTOP);
        $stat = '/proc/' . $this->pid() . '/stat';
        if (is_readable($stat)) {
            eventually(
                static fn () => preg_match('/\) T /', (string) @file_get_contents($stat)),
                'the server has stopped',
            );
        }
    }

    public function resume(): void
    {
        posix_kill($this->pid(), SIGCONT);
    }

    public function restart(bool $keepData): void
    {
        if ($this->pid !== null) {
            if ($keepData) {
                $this->command('SAVE');
            }
            $this->kill();
        }
        if (!$keepData) {
            Janitor::remove($this->directory . '/dump.rdb');
        }
        $this->launch();
    }

    private function launch(): void
    {
        $log = ['file', $this->directory . '/log', 'a'];
        $this->process = proc_open(
            [
                self::binary() ?? throw new RuntimeException('no redis-server'),
                $this->configuration(),
                ...($this->isSentinel ? ['--sentinel'] : []),
            ],
            [0 => ['file', '/dev/null', 'r'], 1 => $log, 2 => $log],
            $pipes,
            $this->directory,
        );
        $this->pid = proc_get_status($this->process)['pid'];
        Janitor::watch($this->pid);
        $this->awaitReady();
    }

    private function awaitReady(): void
    {
        $deadline = microtime(true) + 10.0;
        for (;;) {
            try {
                $this->client = null;
                if ($this->command('PING') === 'PONG') {
                    return;
                }
            } catch (RuntimeException $notYet) {
                $running = proc_get_status($this->process)['running'];
                if (!$running || microtime(true) > $deadline) {
                    $log = (string) @file_get_contents($this->directory . '/log');
                    throw new RuntimeException("the server does not start: {$notYet->getMessage()}\n$log");
                }
            }
            usleep(1_000);
        }
    }

    private function configuration(): string
    {
        $lines = [];
        $settings = $this->settings + [
            'port' => (string) ($this->port ?? 0),
            'bind' => '127.0.0.1',
            'unixsocket' => $this->socket(),
            'dir' => $this->directory,
            'save' => '""',
            'appendonly' => 'no',
            'databases' => '16',
        ];
        if (($settings['tls-cluster'] ?? $settings['tls-replication'] ?? 'no') === 'yes') {
            // Whoever speaks TLS with other servers has no port without it.
            $settings = ['port' => '0', 'tls-port' => (string) $this->port()] + $settings;
        }
        if ($this->password !== null) {
            $settings['requirepass'] = self::quote($this->password);
        }
        if ($this->aclUsers !== []) {
            $aclFile = $this->directory . '/users.acl';
            $default = 'user default on ' . ($this->password === null ? 'nopass' : '>' . $this->password) . ' ~* &* +@all';
            file_put_contents($aclFile, implode("\n", [$default, ...$this->aclUsers]) . "\n");
            $settings['aclfile'] = $aclFile;
            unset($settings['requirepass']);
        }
        foreach ($settings as $name => $values) {
            foreach ((array) $values as $value) {
                $lines[] = "$name $value";
            }
        }
        $file = $this->directory . '/redis.conf';
        file_put_contents($file, implode("\n", $lines) . "\n");

        return $file;
    }

    private static function quote(string $value): string
    {
        $hex = static fn (string $byte): string => sprintf('\x%02x', ord($byte));

        return '"' . implode('', array_map($hex, str_split($value))) . '"';
    }

    public static function freePort(): int
    {
        $probe = stream_socket_server('tcp://127.0.0.1:0');
        $name = stream_socket_get_name($probe, false);
        fclose($probe);

        return (int) substr(strrchr($name, ':'), 1);
    }
}
