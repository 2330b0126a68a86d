<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

/** A MONITOR transcript: what the server was really asked, from start() to commands(). */
final class Monitor
{
    private function __construct(private readonly RedisServer $server, private readonly Resp $stream)
    {
    }

    public static function start(RedisServer $server): self
    {
        $stream = $server->connect();
        $stream->command('MONITOR');

        return new self($server, $stream);
    }

    /**
     * Everything since the last call. A marker of our own ends the transcript, so nothing that was
     * executed before this call can be missing from it.
     *
     * @return list<MonitorLine>
     */
    public function all(): array
    {
        $marker = bin2hex(random_bytes(8));
        $this->server->command('ECHO', $marker);
        $lines = [];
        for (;;) {
            $line = MonitorLine::parse($this->stream->line(microtime(true) + 5.0));
            if ($line->words === ['ECHO', $marker]) {
                return $lines;
            }
            $lines[] = $line;
        }
    }

    /** @return list<MonitorLine> what clients sent; each is a round trip unless pipelined */
    public function commands(): array
    {
        return array_values(array_filter($this->all(), static fn (MonitorLine $line) => !$line->fromScript));
    }

    public function close(): void
    {
        $this->stream->close();
    }
}
