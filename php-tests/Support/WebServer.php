<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

/** PHP's built-in web server: one process that serves one request after another, as an FPM worker does. */
final class WebServer
{
    private function __construct(private readonly PhpProcess $process, public readonly int $port)
    {
    }

    /**
     * @param string $code what each request runs, without the opening tag
     * @param array<string, string> $ini
     */
    public static function start(string $code, array $ini = []): self
    {
        $script = PhpProcess::script("<?php\n$code");
        for ($attempt = 1; ; $attempt++) {
            $probe = stream_socket_server('tcp://127.0.0.1:0');
            $port = (int) substr(strrchr(stream_socket_get_name($probe, false), ':'), 1);
            fclose($probe);
            $process = PhpProcess::start(['-S', "127.0.0.1:$port", $script], $ini);
            $listens = static fn () => @stream_socket_client("tcp://127.0.0.1:$port", $code, $why, 1.0) !== false;
            eventually(static fn () => $listens() || !$process->isRunning(), 'the web server listens');
            if ($process->isRunning() || $attempt === 3) {
                return new self($process, $port);
            }
        }
    }

    /**
     * The body of the answer, whatever its status.
     *
     * @param list<string> $headers of the request
     * @param list<string> $answered the headers of the answer
     */
    public function get(string $path = '/', array $headers = [], array &$answered = []): string
    {
        $context = stream_context_create(['http' => ['ignore_errors' => true, 'timeout' => 10.0, 'header' => $headers]]);
        $body = file_get_contents("http://127.0.0.1:{$this->port}$path", false, $context);
        $answered = $http_response_header;

        return $body;
    }

    public function pid(): int
    {
        return $this->process->pid();
    }

    public function stop(): void
    {
        $this->process->signal(SIGINT);
        $this->process->wait();
    }
}
