<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Key;

use Predis\ClientInterface;
use Predis\Command\Processor\KeyPrefixProcessor;
use Predis\Response\ErrorInterface;
use Predis\Response\ServerException;
use Stringable;
use TypeError;

/**
 * Predis, whether it throws the server's errors or returns them.
 *
 * @internal
 */
final class Predis implements Client
{
    public function __construct(private readonly ClientInterface $client)
    {
    }

    public function fullName(string $key): string
    {
        $prefix = $this->client->getOptions()->prefix;

        return ($prefix instanceof KeyPrefixProcessor ? $prefix->getPrefix() : '') . $key;
    }

    public function pack(mixed $value): string
    {
        if (!is_scalar($value) && !$value instanceof Stringable) {
            throw new TypeError('FencedKey: Predis stores strings, the value is of type ' . get_debug_type($value));
        }

        return (string) $value;
    }

    public function get(string $key): mixed
    {
        return $this->answer('get', $key);
    }

    public function run(string $script, array $keys, array $arguments): array
    {
        $words = [count($keys), ...$keys, ...$arguments];
        try {
            return $this->answer('evalsha', sha1($script), ...$words);
        } catch (ServerException $failure) {
            if ($failure->getErrorType() !== 'NOSCRIPT') {
                throw $failure;
            }

            return $this->answer('eval', $script, ...$words);
        }
    }

    private function answer(string $command, string|int ...$words): mixed
    {
        $answer = $this->client->executeCommand($this->client->createCommand($command, $words));

        return $answer instanceof ErrorInterface ? throw new ServerException($answer->getMessage()) : $answer;
    }
}
