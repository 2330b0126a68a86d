<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

/** Answers every command but those of the log-in, on any number of connections, with the same bytes of the test's choice. */
final class FakeServer
{
    private const SNIPPET = <<<'PHP'
        $server = stream_socket_server('unix://' . $args['socket']);
        say('listening');
        $clients = [];
        for (;;) {
            $ready = [$server, ...$clients];
            $write = $except = null;
            stream_select($ready, $write, $except, null);
            foreach ($ready as $stream) {
                if ($stream === $server) {
                    $client = stream_socket_accept($server);
                    $clients[(int) $client] = $client;
                } elseif (($line = fgets($stream)) === false) {
                    unset($clients[(int) $stream]);
                    fclose($stream);
                } else {
                    $words = [];
                    for ($word = (int) substr($line, 1); $word > 0; $word--) {
                        $words[] = rtrim(stream_get_contents($stream, (int) substr(fgets($stream), 1) + 2));
                    }
                    $isLogIn = in_array($words[0], ['PING', 'CLIENT'], true);
                    fwrite($stream, $isLogIn ? "+OK\r\n" : file_get_contents($args['reply']));
                }
            }
        }
        PHP;

    private function __construct(
        private readonly Worker $worker,
        private readonly string $socket,
        private readonly string $replyFile,
    ) {
    }

    public static function start(): self
    {
        $socket = Janitor::path('.fake');
        $replyFile = Janitor::path('.reply');
        $worker = Worker::start(self::SNIPPET, ['socket' => $socket, 'reply' => $replyFile]);
        $worker->hear();

        return new self($worker, $socket, $replyFile);
    }

    public function dsn(): string
    {
        return 'unix://' . $this->socket;
    }

    public function answerWith(string $bytes): void
    {
        file_put_contents($this->replyFile, $bytes);
    }

    public function stop(): void
    {
        $this->worker->kill();
    }
}
