<?php

declare(strict_types=1);

namespace RedisLease\Tests\Quorum;

use RedisLease\ConnectionException;
use RedisLease\OutcomeUnknownException;
use RedisLease\Tests\Support\Proc;

/** While too many nodes are silent, a call only knocks: an outage does not cost every request a time-out. */
final class OutageTest extends QuorumTestCase
{
    public function testAfterTheFirstTimeOutCallsOnlyKnockUntilTheNodesAnswerAgain(): void
    {
        $connection = $this->connection();
        self::settle($connection);
        self::$servers[0]->pause();
        self::$servers[1]->pause();
        $times = [];
        for ($i = 0; $i < 4; $i++) {
            [$thrown, $seconds] = Proc::timed(fn () => self::thrown(
                fn () => $this->lock("order:$i", connection: $connection)->acquire(),
            )[0]);
            self::assertTrue($thrown instanceof OutcomeUnknownException || $thrown instanceof ConnectionException);
            $times[] = $seconds;
        }
        self::assertGreaterThan(self::COMMAND * 0.9, $times[0], 'the first one waits');
        self::assertLessThan(self::COMMAND * 0.7, min(array_slice($times, 1)), json_encode($times));

        self::$servers[0]->resume();
        self::$servers[1]->resume();
        self::drain($connection);
        self::assertTrue($this->lock('order:9', connection: $connection)->acquire(5.0));
    }
}
