<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

use RuntimeException;

/**
 * A Redis client of the simplest kind, for looking at the server behind the extension's back.
 * Every call ends within the time-out; an error reply is thrown as RespError.
 */
final class Resp
{
    /** @var resource */
    private $stream;
    private string $buffer = '';

    public function __construct(private readonly string $address, private readonly float $timeout = 5.0)
    {
        $stream = @stream_socket_client($address, $code, $why, $timeout);
        if ($stream === false) {
            throw new RuntimeException("$address: $why");
        }
        stream_set_blocking($stream, false);
        $this->stream = $stream;
    }

    /** @return int|string|null|list<mixed> */
    public function command(string|int ...$words): int|string|array|null
    {
        $this->send(...$words);

        return $this->receive();
    }

    public function send(string|int ...$words): void
    {
        $request = '*' . count($words) . "\r\n";
        foreach ($words as $word) {
            $request .= '$' . strlen((string) $word) . "\r\n$word\r\n";
        }
        $this->write($request);
    }

    public function write(string $bytes): void
    {
        $deadline = microtime(true) + $this->timeout;
        while ($bytes !== '') {
            $read = $except = null;
            $write = [$this->stream];
            $this->select($read, $write, $except, $deadline);
            $written = @fwrite($this->stream, $bytes);
            if ($written === false || ($written === 0 && feof($this->stream))) {
                throw new RuntimeException("{$this->address}: the connection is closed");
            }
            $bytes = substr($bytes, $written);
        }
    }

    /** @return int|string|null|list<mixed> */
    public function receive(?float $seconds = null): int|string|array|null
    {
        $deadline = microtime(true) + ($seconds ?? $this->timeout);
        $line = $this->line($deadline);
        $rest = substr($line, 1);
        switch ($line[0]) {
            case '+':
                return $rest;
            case '-':
                throw new RespError($rest);
            case ':':
                return (int) $rest;
            case '$':
                return $rest === '-1' ? null : substr($this->bytes((int) $rest + 2, $deadline), 0, -2);
            case '*':
                if ($rest === '-1') {
                    return null;
                }
                $items = [];
                for ($i = 0; $i < (int) $rest; $i++) {
                    $items[] = $this->receive($deadline - microtime(true));
                }

                return $items;
        }
        throw new RuntimeException("{$this->address}: not a reply: $line");
    }

    public function line(float $deadline): string
    {
        while (($end = strpos($this->buffer, "\r\n")) === false) {
            $this->fill($deadline);
        }
        $line = substr($this->buffer, 0, $end);
        $this->buffer = substr($this->buffer, $end + 2);

        return $line;
    }

    public function close(): void
    {
        fclose($this->stream);
    }

    private function bytes(int $count, float $deadline): string
    {
        while (strlen($this->buffer) < $count) {
            $this->fill($deadline);
        }
        $bytes = substr($this->buffer, 0, $count);
        $this->buffer = substr($this->buffer, $count);

        return $bytes;
    }

    private function fill(float $deadline): void
    {
        $write = $except = null;
        $read = [$this->stream];
        $this->select($read, $write, $except, $deadline);
        $chunk = @fread($this->stream, 65536);
        if ($chunk === false || ($chunk === '' && feof($this->stream))) {
            throw new RuntimeException("{$this->address}: the connection is closed");
        }
        $this->buffer .= $chunk;
    }

    private function select(?array &$read, ?array &$write, ?array &$except, float $deadline): void
    {
        $left = max(0.0, $deadline - microtime(true));
        $ready = @stream_select($read, $write, $except, (int) $left, (int) (fmod($left, 1.0) * 1e6));
        if ($ready === 0) {
            throw new RuntimeException("{$this->address}: no answer in time");
        }
    }
}
