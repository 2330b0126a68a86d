<?php

declare(strict_types=1);

namespace RedisLease\Tests\Quorum;

use DistributedLock;
use RedisLease\Connection;
use RedisLease\OutcomeUnknownException;
use RedisLease\Tests\Support\Monitor;
use RedisLease\Tests\Support\MonitorLine;

use function RedisLease\Tests\Support\eventually;

/** Nodes count for themselves; what they count to is one number, which only rises. */
final class FenceTest extends QuorumTestCase
{
    protected const NODES = 5;
    protected const COMMAND = 0.5;
    /** Microseconds by which one node is ahead: as after a client with a wrong clock. */
    private const AHEAD = 3_600_000_000;

    public function testWhereTheNodesDifferTheFenceIsTheMajoritysHighestAndAMajorityHoldsItBeforeAnybodyKnows(): void
    {
        foreach ([0, 2, 4] as $ahead) {
            $this->setUp();
            $connection = $this->warm();
            $highest = self::wallMicros() + self::AHEAD;
            self::setFence($ahead, $highest);
            $lock = $this->acquired($connection, exactly: [0, 2, 4]);

            self::assertSame($highest + 1, $lock->fence());
            self::assertSame([0 => $lock->fence(), 2 => $lock->fence(), 4 => $lock->fence()], self::fences([0, 2, 4]));
            self::mend();
            self::assertTrue($lock->release());
            $this->tearDown();
        }
    }

    public function testTheNextGrantByAnyOtherMajorityIsHigher(): void
    {
        self::setFence(1, self::wallMicros() + self::AHEAD);
        $majorities = [[0, 1, 2], [2, 3, 4], [0, 3, 4], [1, 2, 3], [0, 2, 4], [0, 1, 3], [1, 2, 4]];
        $last = 0;
        foreach ([...$majorities, ...array_reverse($majorities)] as $majority) {
            $lock = $this->acquired($connection = $this->warm(), exactly: $majority);
            self::assertGreaterThan($last, $lock->fence(), json_encode($majority));
            $last = $lock->fence();
            self::mend();
            self::assertTrue($lock->release());
            self::drain($connection);
            self::assertNothingHeldAnywhere();
            $this->tearDown();
        }
        self::assertGreaterThan(self::wallMicros() + self::AHEAD / 2, $last, 'the first majority was ahead');
    }

    public function testAMajoritysFencesDecideAndNotThoseOfAMinorityThatIsAhead(): void
    {
        // Who is not needed is not waited for: nobody else can have had its number as a fence.
        self::setFence(4, self::wallMicros() + self::AHEAD);
        $lock = $this->acquired($this->warm(), exactly: [0, 1, 2]);
        self::assertLessThan(self::wallMicros(), $lock->fence());
        self::mend();
        self::assertTrue($lock->release());
    }

    public function testRepliesThatAgreeNeedOneRoundTripAndThoseThatDifferTwo(): void
    {
        $connection = $this->warm();
        self::assertTrue($this->lock(connection: $connection)->acquire()); // The scripts are known.
        self::settle($connection);
        $monitors = array_map(Monitor::start(...), self::$servers);
        for ($i = 0; $i < 30; $i++) {
            $lock = $this->lock(connection: $connection);
            self::assertTrue($lock->acquire());
            self::settle($connection);
            self::assertSame([1, 1, 1, 1, 1], self::scripts($monitors), 'acquire');
            self::assertTrue($lock->renew());
            self::settle($connection);
            self::assertSame([1, 1, 1, 1, 1], self::scripts($monitors), 'renew');
            self::assertTrue($lock->release());
            self::settle($connection);
            self::assertSame([1, 1, 1, 1, 1], self::scripts($monitors), 'release');
        }
        self::$servers[3]->pause();
        self::$servers[4]->pause();
        self::setFence(0, self::wallMicros() + self::AHEAD);
        $lock = $this->lock(connection: $connection);
        self::assertTrue($lock->acquire());
        self::assertSame([2, 2, 2], self::scripts(array_slice($monitors, 0, 3)), 'acquire and write-back');
        self::assertTrue($lock->renew());
        self::assertSame([1, 1, 1], self::scripts(array_slice($monitors, 0, 3)), 'they agree now');
        self::mend();
    }

    public function testAFenceThatCouldNotBeWrittenBackIsNotReported(): void
    {
        $proxies = $this->proxies(1, 2);
        $connection = $this->warm(self::dsnThrough($proxies));
        $highest = self::wallMicros() + self::AHEAD;
        self::setFence(0, $highest);
        self::$servers[3]->kill();
        self::$servers[4]->kill();
        // The grant's answer passes: a colon, 16 digits, the end of the line. The next one does not.
        foreach ($proxies as $proxy) {
            $proxy->breakAfter('reply', 19, 'hold');
        }
        $lock = $this->lock(connection: $connection);
        [$thrown] = self::thrown(static fn () => $lock->acquire());

        self::assertInstanceOf(OutcomeUnknownException::class, $thrown);
        self::assertNull($lock->fence());
        self::assertFalse($lock->isHeld());
        self::assertStringContainsString("127.0.0.1:{$proxies[1]->port()}: sent, no answer", $thrown->getMessage());
        foreach ($proxies as $proxy) {
            $proxy->pass();
            $proxy->deliver();
        }
        eventually(static fn () => self::thrown(static fn () => $lock->release())[0] === null, 'released');
        self::mend();
        self::assertNothingHeldAnywhere();
    }

    public function testARenewalKeepsTheFenceAndMakesAMajorityHoldItAgain(): void
    {
        $connection = $this->warm();
        $lock = $this->acquired($connection, exactly: [0, 1, 2, 3, 4]);
        $fence = $lock->fence();
        foreach ([0, 1, 2] as $place) {
            self::$servers[$place]->command('DEL', 'lock~{lock:order:1}:fence'); // As by an eviction.
        }
        self::assertTrue($lock->renew());
        self::assertGreaterThanOrEqual($fence, $lock->fence());
        $holding = array_filter(self::fences(), static fn (?int $held) => $held !== null && $held >= $lock->fence());
        self::assertGreaterThanOrEqual(3, count($holding), json_encode([$fence, $lock->fence(), self::fences()]));
    }

    /** A lock that exactly these nodes have granted; the others hang. */
    private function acquired(Connection $connection, array $exactly): DistributedLock
    {
        foreach (array_diff(array_keys(self::$servers), $exactly) as $place) {
            self::$servers[$place]->pause();
        }
        $lock = $this->lock(connection: $connection);
        self::assertTrue($lock->acquire());

        return $lock;
    }

    /**
     * How many scripts clients have sent to each node since the last look.
     *
     * @param list<Monitor> $monitors
     */
    private static function scripts(array $monitors): array
    {
        $isScript = static fn (MonitorLine $line) => in_array($line->name(), ['EVAL', 'EVALSHA'], true);

        return array_map(static fn (Monitor $monitor) => count(array_filter($monitor->commands(), $isScript)), $monitors);
    }

    private static function wallMicros(): int
    {
        return (int) (microtime(true) * 1e6);
    }
}
