<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Inspect;

use LogicException;
use Predis\ClientInterface;
use Predis\Command\RawCommand;
use Predis\Connection\NodeConnectionInterface;
use Predis\Response\ErrorInterface;
use Predis\Response\ServerException;

/**
 * Predis on one server, past its prefix: a raw command on the connection knows none.
 *
 * @internal
 */
final class Predis implements Client
{
    private readonly NodeConnectionInterface $connection;

    public function __construct(ClientInterface $client)
    {
        $connection = $client->getConnection();
        if (!$connection instanceof NodeConnectionInterface) {
            throw new LogicException('Leases of several servers can be listed with phpredis, not with Predis.');
        }
        $this->connection = $connection;
    }

    public function scan(string $pattern): iterable
    {
        $cursor = '0';
        do {
            [$cursor, $names] = $this->ask('SCAN', $cursor, 'MATCH', $pattern, 'COUNT', '1000', 'TYPE', 'string');
            yield from $names;
        } while ((string) $cursor !== '0');
    }

    public function get(string $key): ?string
    {
        return $this->ask('GET', $key);
    }

    public function pttl(string $key): int
    {
        return $this->ask('PTTL', $key);
    }

    public function waiting(): ?int
    {
        try {
            return Waiting::count($this->ask('CLIENT', 'LIST'));
        } catch (ServerException) {
            return null;
        }
    }

    public function reconnect(): void
    {
        $this->connection->disconnect();
    }

    private function ask(string $command, string ...$words): mixed
    {
        // Predis 1 takes all words as one list, Predis 2 the command apart.
        $raw = method_exists(RawCommand::class, 'create')
            ? RawCommand::create($command, ...$words)
            : new RawCommand($command, $words);
        $answer = $this->connection->executeCommand($raw);

        return $answer instanceof ErrorInterface ? throw new ServerException($answer->getMessage()) : $answer;
    }
}
