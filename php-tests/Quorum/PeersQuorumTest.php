<?php

declare(strict_types=1);

namespace RedisLease\Tests\Quorum;

use RedisLease\Tests\Support\Proc;
use RedisLease\Tests\Support\Worker;

use function RedisLease\Tests\Support\eventually;

/** What users of other libraries reported about several nodes: each symptom once, as it must not be here. */
final class PeersQuorumTest extends QuorumTestCase
{
    protected const NODES = 5;
    protected const CONNECT = 1.0;
    protected const COMMAND = 1.0;

    /** redlock-php#6 */
    public function testThreeOfFiveNodesAreEnoughAndFourAreNotNeeded(): void
    {
        self::takeElsewhere([3, 4]);
        $lock = $this->lock();
        self::assertTrue($lock->acquire());
        self::assertTrue($lock->renew());
        self::assertTrue($lock->release());
    }

    /** symfony#39470 */
    public function testOneNodeThatIsDownBreaksNothing(): void
    {
        foreach (array_keys(self::$servers) as $place) {
            self::$servers[$place]->kill();
            $lock = $this->lock(connection: $this->connection());
            self::assertTrue($lock->acquire(), "node $place, from the first call on");
            self::assertTrue($lock->renew());
            self::assertTrue($lock->isHeld());
            self::assertFalse($this->lock()->acquire());
            self::assertTrue($lock->release());
            $this->tearDown();
            self::$servers[$place]->restart(keepData: false);
        }
    }

    /** redsync#140 */
    public function testASlowNodeDelaysNothingOnceAMajorityHasAnswered(): void
    {
        $proxies = $this->proxies(0, 3);
        $connection = $this->warm(self::dsnThrough($proxies));
        foreach ($proxies as $proxy) {
            $proxy->delay(0.2, 0.2);
        }
        $lock = $this->lock(connection: $connection);
        foreach (['acquire', 'renew', 'owner', 'release'] as $call) {
            [$answer, $seconds] = Proc::timed(static fn () => $lock->$call());
            self::assertNotEmpty($answer, $call);
            self::assertLessThan(0.1, $seconds, $call);
        }
        foreach ($proxies as $proxy) {
            $proxy->delay(0.0, 0.0);
        }
        self::drain($connection);
        self::assertNothingHeldAnywhere();
    }

    /** redsync#186 */
    public function testALeaseOnABareMajorityOutlivesThatOneOfItsNodesLosesItsDataOnceItWasRenewed(): void
    {
        $connection = $this->warm();
        self::$servers[3]->pause();
        self::$servers[4]->pause();
        $lock = $this->lock(connection: $connection);
        self::assertTrue($lock->acquire());
        self::mend();
        self::drain($connection);
        self::assertTrue($lock->renew());
        self::settle($connection);
        // The late grants were kept, and a renewal fills what is missing: the majority is bare no longer.
        self::assertSame(array_fill(0, 5, $lock->token()), self::copies());
        self::$servers[0]->restart(keepData: false);
        self::assertTrue($lock->isHeld());
        self::assertFalse($this->lock(connection: $this->connection())->acquire(), 'nobody else gets a majority');
        self::assertTrue($lock->renew());
        self::assertTrue($lock->release());
    }

    /** node-redlock#369 */
    public function testARetryIsNotBlockedByTheKeysOfAnAttemptThatFailed(): void
    {
        $connection = $this->warm();
        for ($i = 0; $i < 30; $i++) {
            // Two granted, three held: the attempt fails, and what it got must not stand in the way of the next.
            self::takeElsewhere([0, 1, 2]);
            $lock = $this->lock(connection: $connection);
            self::assertFalse($lock->acquire());
            foreach ([0, 1, 2] as $place) {
                self::$servers[$place]->command('DEL', 'lock:order:1');
            }
            self::assertTrue($lock->acquire(), "attempt $i, with no wait at all");
            self::assertTrue($lock->release());
        }
        self::settle($connection);
        self::assertNothingHeldAnywhere();
    }

    /** node-redlock's tie of an even number of nodes: here with three and five, and one of them out of order. */
    public function testContendersThatStartAtOnceAreNeverTiedForLongAndNobodyStarves(): void
    {
        foreach ([3 => [], 5 => [], 4 => [4]] as $count => $out) {
            $dsn = implode(' ', array_map(static fn ($server) => $server->dsn(), array_slice(self::$servers, 0, $count === 3 ? 3 : 5)));
            array_map(static fn (int $place) => self::$servers[$place]->kill(), $out);
            $workers = array_map(static fn () => self::contender($dsn), range(1, 6));
            foreach ($workers as $worker) {
                $worker->hear();
            }
            array_map(static fn (Worker $worker) => $worker->say(), $workers);
            $first = $last = [];
            foreach ($workers as $worker) {
                [$waits, $failed] = $worker->hear(30.0);
                self::assertSame(0, $failed, "$count nodes: a wait of 20 s in vain");
                $first[] = $waits[0];
                $last[] = max($waits);
                $worker->finish();
            }
            self::assertLessThan(1.0, min($first), "$count nodes: somebody has it soon");
            // Six workers with ten sections of 2 ms each: a fair share of the wait is 12 ms.
            self::assertLessThan(4.0, max($last), "$count nodes: nobody starves");
            self::mend();
        }
    }

    /** The same without a wait: a contender that is split from the others says false at once, and leaves nothing. */
    public function testASplitVoteIsContentionAndGoesBack(): void
    {
        $connection = $this->warm();
        self::takeElsewhere([0, 1], token: 'one');
        self::takeElsewhere([2, 3], token: 'other');
        self::assertFalse($this->lock(connection: $connection)->acquire());
        eventually(static fn () => self::copies() === ['one', 'one', 'other', 'other', null], 'what it got went back');
    }

    /** A majority of those that answer is none: that is how two sides of a split network both had the lock. */
    public function testAMajorityOfThoseThatAnswerIsNotAMajority(): void
    {
        foreach (['pause', 'kill'] as $fate) {
            $connection = $this->connection(connect: 0.1, command: 0.1);
            array_map(static fn (int $place) => self::$servers[$place]->$fate(), [0, 1, 2]);
            $lock = $this->lock(connection: $connection);
            [$thrown] = self::thrown(static fn () => $lock->acquire());
            self::assertNotNull($thrown);
            self::assertFalse($lock->isHeld());
            $this->tearDown();
            $this->setUp();
        }
    }

    /** node-redlock counted the validity from its first attempt, others from the last answer. */
    public function testTheValidityCountsFromTheSendingOfTheAttemptThatWasGranted(): void
    {
        $proxies = $this->proxies(0, 1, 2, 3, 4);
        $connection = $this->warm(self::dsnThrough($proxies));
        foreach ($proxies as $proxy) {
            $proxy->delay(0.0, 0.2);
        }
        $lock = $this->lock(ttl: 10.0, connection: $connection);
        $begun = hrtime(true);
        self::assertTrue($lock->acquire());
        $remaining = $lock->remaining();
        $spent = (hrtime(true) - $begun) / 1e9;
        self::assertLessThanOrEqual(10.0 * 0.99 - 0.2, $remaining, 'the answer took 0.2 s');
        self::assertGreaterThanOrEqual(10.0 * 0.99 - 0.01 - $spent, $remaining);
        self::assertGreaterThanOrEqual(0.2, $spent);
    }

    /** Libraries that ask one node after the other take as long as all of them together. */
    public function testNodesAreAskedAtTheSameTime(): void
    {
        $proxies = $this->proxies(0, 1, 2, 3, 4);
        $connection = $this->warm(self::dsnThrough($proxies));
        foreach ($proxies as $proxy) {
            $proxy->delay(0.05, 0.05);
        }
        $lock = $this->lock(connection: $connection);
        [$isHeld, $seconds] = Proc::timed(static fn () => $lock->acquire());
        self::assertTrue($isHeld);
        self::assertLessThan(0.2, $seconds, 'one after the other it would be 0.3 s at least');
    }

    private static function contender(string $dsn): Worker
    {
        return self::worker(<<<'PHP'
            $connection->ping();
            say('ready');
            hear();
            $waits = [];
            $failed = 0;
            for ($i = 0; $i < 10; $i++) {
                $begun = hrtime(true);
                $lock->acquire(20.0) || $failed++;
                $waits[] = (hrtime(true) - $begun) / 1e9;
                usleep(2_000);
                $lock->release();
            }
            say([$waits, $failed]);
            PHP, ['dsn' => $dsn]);
    }
}
