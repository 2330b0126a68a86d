<?php

declare(strict_types=1);

namespace RedisLease\Bench\Peer;

use Predis\Client;
use RedisLease\Bench\Address;
use RedisLease\Bench\Peer;
use RuntimeException;

/** Predis by hand: the same two commands as with phpredis, from a client written in PHP. */
final class Predis implements Peer
{
    private const LIBRARY = 'Predis/autoload.php';

    private readonly Client $client;
    private readonly string $digest;
    private readonly string $key;
    private string $token = '';

    public static function package(): ?string
    {
        return 'php-predis';
    }

    public static function isThere(): bool
    {
        return stream_resolve_include_path(self::LIBRARY) !== false;
    }

    public function __construct(Address $address, string $name)
    {
        require_once self::LIBRARY;
        $this->client = new Client($address->isUnix()
            ? ['scheme' => 'unix', 'path' => $address->text, 'persistent' => true]
            : ['scheme' => 'tcp', 'host' => $address->host(), 'port' => $address->port(), 'persistent' => true]);
        $this->digest = $this->client->script('load', PhpRedis::RELEASE);
        $this->key = "lock:$name";
    }

    public function cycles(int $count): void
    {
        for ($i = 0; $i < $count; $i++) {
            $token = bin2hex(random_bytes(16));
            if (
                !$this->client->set($this->key, $token, 'PX', 10_000, 'NX')
                || $this->client->evalsha($this->digest, 1, $this->key, $token) !== 1
            ) {
                throw new RuntimeException('not held');
            }
        }
    }

    public function acquire(): void
    {
        $this->token = bin2hex(random_bytes(16));
        while (!$this->client->set($this->key, $this->token, 'PX', 10_000, 'NX')) {
            usleep(random_int(500, 1500));
        }
    }

    public function release(): void
    {
        if ($this->client->evalsha($this->digest, 1, $this->key, $this->token) !== 1) {
            throw new RuntimeException('lost');
        }
    }
}
