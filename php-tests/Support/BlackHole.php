<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

use RuntimeException;

/**
 * An address where nothing answers: a listener whose queue is full and who never accepts. The kernel drops
 * what arrives at a TCP port then, as a firewall would, and lets no one in at a unix socket.
 */
final class BlackHole
{
    /** @var list<resource> */
    private array $queued = [];

    /** @param resource $listener */
    private function __construct(private $listener, private readonly string $address)
    {
    }

    /** @param string $address as "tcp://127.0.0.1:0" or "unix://" and a path */
    public static function open(string $address): self
    {
        $context = stream_context_create(['socket' => ['backlog' => 1]]);
        $listener = stream_socket_server($address, $code, $why, context: $context) ?: throw new RuntimeException($why);
        $isTcp = str_starts_with($address, 'tcp');
        $hole = new self($listener, $isTcp ? 'tcp://' . stream_socket_get_name($listener, false) : $address);
        for ($full = 0; $full < 2 && count($hole->queued) < 100;) {
            $client = @stream_socket_client($hole->address, $code, $why, 0.05, $isTcp ? STREAM_CLIENT_CONNECT : STREAM_CLIENT_ASYNC_CONNECT);
            if ($client === false) {
                $full++;
            } else {
                $hole->queued[] = $client;
            }
        }
        if ($full < 2) {
            throw new RuntimeException("the queue of {$hole->address} does not get full");
        }

        return $hole;
    }

    public function dsn(): string
    {
        return str_replace('tcp://', 'redis://', $this->address);
    }

    public function port(): int
    {
        return (int) substr(strrchr($this->address, ':'), 1);
    }

    public function close(): void
    {
        array_map(fclose(...), [$this->listener, ...$this->queued]);
        $this->queued = [];
    }
}
