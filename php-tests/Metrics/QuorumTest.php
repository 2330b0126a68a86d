<?php

declare(strict_types=1);

namespace RedisLease\Tests\Metrics;

use DistributedLock;
use RedisLease\Connection;
use RedisLease\Metrics;
use RedisLease\Tests\Support\RedisServer;

/** Several nodes: what each of them said, and what failed at it. */
final class QuorumTest extends MetricsTestCase
{
    /** @var list<RedisServer> */
    private array $nodes = [];

    protected function setUp(): void
    {
        parent::setUp();
        $this->nodes = [RedisServer::start(), RedisServer::start(), RedisServer::start()];
    }

    protected function tearDown(): void
    {
        array_map(static fn (RedisServer $node) => $node->stop(), $this->nodes);
    }

    protected function lock(string $resource, float $ttl = 30.0): DistributedLock
    {
        $dsn = implode(' ', array_map(static fn (RedisServer $node) => $node->dsn(), $this->nodes));

        return new DistributedLock($resource, $ttl, connection: new Connection($dsn, 5.0, 5.0));
    }

    public function testEachNodesVoteIsCounted(): void
    {
        // Until all three are connected a majority may decide without the third.
        $first = $this->heldLock('order:0');
        $first->release();
        Metrics::reset();
        $this->nodes[2]->command('SET', 'lock:order:1', 'another', 'PX', 60_000);
        $lock = $this->heldLock('order:1');
        self::assertFalse($this->lock('order:1')->acquire());
        $lock->release();

        $votes = self::counted('node_votes');
        [$one, $two, $three] = array_map(static fn (RedisServer $node) => $votes[$node->socket()], $this->nodes);
        foreach ([$one, $two] as $vote) {
            self::assertSame(1, $vote['granted']);
            self::assertSame(1, ($vote['held'] ?? 0) + ($vote['silent'] ?? 0));
        }
        self::assertSame(2, ($three['held'] ?? 0) + ($three['silent'] ?? 0), 'silent: the others had decided before it answered');
        self::assertSame(['acquired' => 1, 'contended' => 1], self::counted('acquires'));
        self::assertSame([], self::counted('node_errors'));
    }

    public function testANodeThatIsDownShows(): void
    {
        $this->heldLock('order:0')->release();
        $dead = $this->nodes[1]->socket();
        $this->nodes[1]->kill();
        // What it had answered before is read, and counted, with the next question.
        $this->heldLock('order:1')->release();
        Metrics::reset();
        for ($cycle = 0; $cycle < 20; $cycle++) {
            $this->heldLock('order:1')->release();
        }
        self::assertSame([$dead], array_keys(self::counted('node_errors')));
        self::assertArrayNotHasKey($dead, self::counted('node_answers'));
        self::assertSame(['absent'], array_keys(self::counted('node_votes')[$dead]));
        self::assertSame(['acquired' => 20], self::counted('acquires'));

        // Counted as the server is told of, by whichever object.
        self::assertGreaterThan(0, self::counted('node_errors')[$dead]['connect']);
    }

    public function testTooFewNodesAreUnavailableAndRefusedIsRefused(): void
    {
        $this->heldLock('order:0')->release();
        $this->nodes[1]->kill();
        $this->nodes[2]->kill();
        Metrics::reset();
        try {
            $this->lock('order:1')->acquire();
            self::fail('one of three is no majority');
        } catch (\RedisLease\ConnectionException) {
        }
        self::assertSame(['unavailable' => 1], self::counted('acquires'));
    }
}
