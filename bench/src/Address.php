<?php

declare(strict_types=1);

namespace RedisLease\Bench;

use Redis;

/** Where the server is: "HOST:PORT", or the path of a unix socket; several are separated by commas. */
class Address
{
    public function __construct(public readonly string $text)
    {
    }

    /** @return list<self> one for each server */
    public function nodes(): array
    {
        return array_map(static fn (string $text) => new self($text), explode(',', $this->text));
    }

    public function isUnix(): bool
    {
        return $this->text[0] === '/';
    }

    public function host(): string
    {
        return strstr($this->text, ':', true);
    }

    public function port(): int
    {
        return (int) substr(strrchr($this->text, ':'), 1);
    }

    public function dsn(): string
    {
        return ($this->isUnix() ? 'unix://' : 'redis://') . $this->text;
    }

    public function phpredis(): Redis
    {
        $redis = new Redis();
        $this->isUnix() ? $redis->pconnect($this->text) : $redis->pconnect($this->host(), $this->port());

        return $redis;
    }
}
