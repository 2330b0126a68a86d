<?php

declare(strict_types=1);

namespace RedisLease\Tests\Topology;

use DistributedLock;
use PHPUnit\Framework\TestCase;
use RedisLease\Connection;
use RedisLease\Tests\Support\Callers;

/** One server takes another's place: what is demanded of every way in which that happens. */
abstract class FailoverTestCase extends TestCase
{
    /** After a promotion locks are to be had again within a second, on a machine that does nothing else. */
    protected const SERVED_WITHIN = 1.0;
    protected const NOISE = 0.7;
    protected const TIMEOUT = 0.3;
    /** A user for replication alone: without it there is none, and nothing else changes. */
    protected const REPLICATION = ['user replica on >r ~* &* +psync +replconf +ping'];
    protected const AS_REPLICA = ['masteruser' => 'replica', 'masterauth' => 'r'];

    abstract protected function dsn(): string;

    protected function lock(string $resource): DistributedLock
    {
        return new DistributedLock($resource, 30.0, connection: new Connection($this->dsn(), self::TIMEOUT, self::TIMEOUT));
    }

    /**
     * Every answer was the truth, and nothing was thrown but what fits.
     *
     * @param list<array<string, mixed>> $calls in the order of their ends
     * @param float $struck when the primary was struck, and
     * @param float $promoted when another had taken its place, and
     * @param float $served when the first lock was granted after that, and
     * @param float $calm from when on nothing may fail, and
     * @param float $released until when a lock named "kept" was held by somebody else; all on the clock of Outcome
     * @param string $faults what each fault must match
     */
    protected static function assertTruthful(
        array $calls,
        float $struck,
        float $promoted,
        float $served,
        float $calm,
        float $released,
        string $faults,
    ): void {
        self::assertLessThan(self::SERVED_WITHIN + self::NOISE, $served - $promoted);
        // What was granted in the last moment may not have come to the replica.
        self::assertSame([], Callers::doubleOwners($calls, [$struck - 0.5, $promoted]));
        self::assertSame([], Callers::fencesThatDoNotRise($calls));
        $kept = array_filter(Callers::grants($calls, 0.0, $released), static fn (array $call) => $call['name'] === 'kept');
        self::assertSame([], $kept, 'nobody was granted what the keeper held');
        $late = array_filter($calls, static fn ($call) => is_string($call['answer']) && $call['begun'] > $calm);
        self::assertSame([], Callers::faults($late), 'nothing fails any more');
        foreach (array_keys(Callers::faults($calls)) as $fault) {
            self::assertMatchesRegularExpression($faults, $fault);
        }
    }
}
