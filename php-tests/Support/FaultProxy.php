<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

use RuntimeException;

/**
 * Stands between clients and one server, in a process of its own, and breaks the line where the test
 * says: it cuts, holds, delays, refuses, and delivers late what it held. It never reorders anything.
 *
 * Every method returns when the proxy has obeyed.
 */
final class FaultProxy
{
    /** How a line breaks: in an orderly way, by a reset, or not visibly at all. */
    public const HOWS = ['fin', 'reset', 'hold'];

    /** @param resource $process */
    private function __construct(private $process, private $input, private $output, private readonly int $port)
    {
    }

    public static function start(RedisServer $server): self
    {
        return self::before('unix://' . $server->socket());
    }

    /** @param string $upstream as stream_socket_client() takes it */
    public static function before(string $upstream): self
    {
        $process = proc_open(
            [PHP_BINARY, '-d', 'display_errors=stderr', __DIR__ . '/fault-proxy.php', $upstream],
            [0 => ['pipe', 'r'], 1 => ['pipe', 'w'], 2 => STDERR],
            $pipes,
        );
        Janitor::watch(proc_get_status($process)['pid']);
        stream_set_timeout($pipes[1], 10);

        return new self($process, $pipes[0], $pipes[1], json_decode((string) fgets($pipes[1]))->port);
    }

    public function __destruct()
    {
        $this->stop();
    }

    public function stop(): void
    {
        if ($this->process !== null) {
            $pid = proc_get_status($this->process)['pid'];
            fclose($this->input);
            proc_close($this->process);
            Janitor::forget($pid);
            $this->process = null;
        }
    }

    public function port(): int
    {
        return $this->port;
    }

    /** The user part and what follows the port come as given: "alice:secret", "/3". */
    public function dsn(string $userInfo = '', string $rest = ''): string
    {
        return 'redis://' . ($userInfo === '' ? '' : "$userInfo@") . "127.0.0.1:{$this->port}$rest";
    }

    /** Passes everything on from here, and counts anew. What it holds stays held. */
    public function pass(): void
    {
        $this->tell(['do' => 'plan', 'plan' => null]);
        $this->newConnections('pass');
    }

    /**
     * Breaks one line, once: when so many bytes of the direction have passed, counted from here on
     * over all lines.
     *
     * @param string $direction request or reply
     * @param string $how one of HOWS
     * @param string $later what becomes of connections made from then on: see newConnections()
     */
    public function breakAfter(string $direction, int $bytes, string $how, string $later = 'pass'): void
    {
        $plan = ['direction' => $direction, 'after' => $bytes, 'how' => $how, 'later' => $later];
        $this->tell(['do' => 'plan', 'plan' => $plan]);
    }

    /** @param string $how pass, refuse (nobody listens), reject (a reset at once), hang (accepted, and no more) */
    public function newConnections(string $how): void
    {
        $this->tell(['do' => 'new', 'how' => $how]);
    }

    /** Connections made from here on go to another server, as behind a name that a failover has moved. */
    public function leadTo(RedisServer $server): void
    {
        $this->tell(['do' => 'lead', 'upstream' => 'unix://' . $server->socket()]);
    }

    /** Every chunk is passed on that much later. */
    public function delay(float $request, float $reply): void
    {
        $this->tell(['do' => 'delay', 'seconds' => ['request' => $request, 'reply' => $reply]]);
    }

    /** Cuts every line that is open now, and forgets what was held on it. */
    public function cut(string $how = 'fin', bool $awaitsServer = true): void
    {
        $this->tell(['do' => 'cut', 'how' => $how]);
        if ($awaitsServer) {
            eventually(fn () => $this->count('orphans') === 0, 'the server has seen the end of every line');
        }
    }

    /** Passes nothing more on, on the lines that are open now. */
    public function hold(string ...$directions): void
    {
        $this->tell(['do' => 'hold', 'directions' => $directions ?: ['request', 'reply']]);
    }

    /**
     * Passes on what was held, also that of clients that are long gone, and waits until the server has
     * answered those.
     *
     * @return list<string> the bytes that the server got
     */
    public function deliver(bool $awaitsServer = true): array
    {
        $delivered = $this->tell(['do' => 'deliver'])['delivered'];
        if ($awaitsServer) {
            eventually(fn () => $this->count('orphans') === 0, 'the server has answered the late commands');
        }

        return array_map(base64_decode(...), $delivered);
    }

    /** What came from clients or from the server since the last plan or pass(), passed on or not. */
    public function seen(string $direction): string
    {
        return base64_decode($this->tell(['do' => 'seen'])[$direction]);
    }

    /** Whether the planned break has come. */
    public function hasBroken(): bool
    {
        return $this->tell(['do' => 'seen'])['fired'];
    }

    /** @param string $what open: lines with a living client; orphans: without, nothing held; accepted: lines ever */
    public function count(string $what): int
    {
        return $this->tell(['do' => 'count'])[$what];
    }

    private function tell(array $command): array
    {
        fwrite($this->input, json_encode($command, JSON_THROW_ON_ERROR) . "\n");
        $answer = fgets($this->output);
        if ($answer === false) {
            throw new RuntimeException('the fault proxy does not answer');
        }

        return json_decode($answer, true, 8, JSON_THROW_ON_ERROR);
    }
}
