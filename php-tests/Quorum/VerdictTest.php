<?php

declare(strict_types=1);

namespace RedisLease\Tests\Quorum;

use DistributedLock;
use RedisLease\Connection;
use RedisLease\ConnectionException;
use RedisLease\LockTimeoutException;
use RedisLease\OutcomeUnknownException;
use RedisLease\ServerException;
use RedisLease\Tests\Support\FakeServer;

use function RedisLease\Tests\Support\eventually;

/** Contended, unavailable, unknown and refused stay apart, however the nodes' answers are mixed. */
final class VerdictTest extends QuorumTestCase
{
    protected const COMMAND = 0.15;
    protected const CONNECT = 0.15;

    public function testAMajorityHeldByAnotherIsContention(): void
    {
        foreach ([[0, 1], [0, 2], [1, 2], [0, 1, 2]] as $places) {
            foreach (self::$servers as $server) {
                $server->flush();
            }
            self::takeElsewhere($places);
            self::assertFalse($this->lock()->acquire());
            self::assertFalse($this->lock()->acquire(0.05));
            self::assertGivenBack($places);
        }
    }

    public function testAMajorityHeldByAnotherIsContentionWhateverTheOthersAre(): void
    {
        $troubles = [
            'dead' => static fn () => self::$servers[0]->kill(),
            'hung' => static fn () => self::$servers[0]->pause(),
            'a replica' => static fn () => self::$servers[0]->command('REPLICAOF', '127.0.0.1', 1),
        ];
        foreach ($troubles as $trouble => $begin) {
            foreach ([true, false] as $isWarm) {
                self::takeElsewhere([1, 2]);
                $connection = $isWarm ? $this->warm() : $this->connection();
                $begin();
                for ($i = 0; $i < 5; $i++) {
                    self::assertFalse($this->lock(connection: $connection)->acquire(), $trouble);
                }
                $this->tearDown();
                self::$servers[0]->isRunning() && self::$servers[0]->resume();
                $trouble !== 'a replica' || self::$servers[0]->command('REPLICAOF', 'NO', 'ONE');
                $this->setUp();
            }
        }
    }

    public function testOneHeldByAnotherAndTwoDeadIsUnavailable(): void
    {
        self::takeElsewhere([2]);
        self::$servers[0]->kill();
        self::$servers[1]->kill();
        [$thrown] = self::thrown(fn () => $this->lock()->acquire());
        self::assertInstanceOf(ConnectionException::class, $thrown);
        $held = '~\Q' . self::$servers[2]->socket() . '\E: (another owner holds it|(sent, )?no answer yet)~';
        self::assertMatchesRegularExpression($held, $thrown->getMessage());
        self::assertStringContainsString(self::$servers[0]->socket() . ': cannot connect', $thrown->getMessage());
        self::assertStringContainsString(self::$servers[1]->socket() . ': cannot connect', $thrown->getMessage());

        [$thrown] = self::thrown(fn () => $this->lock()->acquire(0.1));
        self::assertInstanceOf(ConnectionException::class, $thrown, 'nor is it contention after a wait');
    }

    public function testOneGrantedOneHeldAndOneDeadIsContention(): void
    {
        // Who holds one node may be about to have a majority: nobody has, so it is not ours, and nothing failed.
        self::takeElsewhere([2]);
        self::$servers[0]->kill();
        self::assertFalse($this->lock()->acquire());
        self::assertNull(self::$servers[1]->command('GET', 'lock:order:1') ?: null);
        self::assertSame('somebody-else', self::$servers[2]->command('GET', 'lock:order:1'));
    }

    public function testAnswersThatAreCutOffAfterSendingToAMajorityAreUnknownAndTheReleaseWithTheTokenIsFinal(): void
    {
        foreach (['release() of the handle', 'release() by the token'] as $way) {
            $proxies = $this->proxies(1, 2);
            $dsn = self::dsnThrough($proxies);
            $connection = $this->warm($dsn);
            $lock = $this->lock(connection: $connection);
            foreach ($proxies as $proxy) {
                $proxy->hold('request');
            }
            [$unknown] = self::thrown(static fn () => $lock->acquire());
            self::assertInstanceOf(OutcomeUnknownException::class, $unknown, $way);
            self::assertMatchesRegularExpression('/^[0-9a-f]{32}$/', $unknown->token);
            self::assertSame('order:1', $unknown->resource);
            self::assertFalse($lock->isHeld());
            self::assertSame($unknown->token, self::copies()[0]);

            // The late commands stay under way, on connections that nobody has any more.
            $connection->close();
            $heir = DistributedLock::restore($unknown->resource, $unknown->token, connection: $this->connection($dsn));
            $releaser = $way === 'release() by the token' ? $heir : $lock;
            self::assertFalse($releaser->release(), "$way: no majority was ours");
            self::assertFalse($releaser->release());
            $delivered = 0;
            foreach ($proxies as $proxy) {
                $delivered += count($proxy->deliver());
            }
            self::assertSame(2, $delivered, 'the late commands have come');
            self::assertNothingHeldAnywhere($way);
            self::assertTrue($this->lock(connection: $this->connection($dsn))->acquire(), "$way: it is free");
            $this->tearDown();
            $this->setUp();
        }
    }

    public function testAnswersThatAreLostAreUnknownOnlyIfTheNodesThatWereAskedMayBeAMajority(): void
    {
        $proxies = $this->proxies(1, 2);
        $connection = $this->warm(self::dsnThrough($proxies));
        self::takeElsewhere([0, 2]);
        $proxies[1]->hold('reply');
        self::assertFalse($this->lock(connection: $connection)->acquire(), 'two held: it is contended');

        self::$servers[2]->command('DEL', 'lock:order:1');
        [$thrown] = self::thrown(fn () => $this->lock(connection: $connection)->acquire());
        self::assertInstanceOf(OutcomeUnknownException::class, $thrown, 'one granted, one may have');

        self::$servers[0]->kill();
        self::takeElsewhere([2], 'order:2');
        [$thrown] = self::thrown(fn () => $this->lock('order:2', connection: $connection)->acquire());
        self::assertInstanceOf(ConnectionException::class, $thrown, 'one may have granted, which is too few');
    }

    public function testRefusalsOfAMajorityAreAServerExceptionAndThoseOfAMinorityDoNotMatter(): void
    {
        foreach (self::refusals() as $code => [$begin, $end]) {
            foreach ([[1], [0, 2], [0, 1, 2]] as $places) {
                $connection = $this->warm();
                array_map($begin, $places);
                $lock = $this->lock(connection: $connection);
                [$thrown] = self::thrown(static fn () => $lock->acquire());
                if (count($places) === 1) {
                    self::assertNull($thrown, "$code: {$thrown?->getMessage()}");
                    self::assertTrue($lock->isHeld() && $lock->renew() && $lock->owner() === $lock->token(), $code);
                    self::assertTrue($lock->release(), $code);
                } else {
                    self::assertInstanceOf(ServerException::class, $thrown, $code);
                    self::assertSame($code, $thrown->redisCode);
                    foreach ($places as $place) {
                        // Two decide it: the third may not have been waited for.
                        $said = '~\Q' . self::$servers[$place]->socket() . "\\E: ($code|sent, no answer yet)~";
                        self::assertMatchesRegularExpression($said, $thrown->getMessage());
                    }
                }
                array_map($end, $places);
                self::assertNothingHeldAnywhere("$code on " . implode(', ', $places));
                $this->tearDown();
            }
        }
    }

    public function testServersThatAreStillLoadingAreRefusalsToo(): void
    {
        $fakes = [FakeServer::start(), FakeServer::start()];
        foreach ($fakes as $fake) {
            $fake->answerWith("-LOADING Redis is loading the dataset in memory\r\n");
        }
        $loading = fn (int $count) => implode(' ', [
            $fakes[0]->dsn(), $count === 2 ? $fakes[1]->dsn() : self::$servers[1]->dsn(), self::$servers[2]->dsn(),
        ]);
        self::assertTrue($this->lock(connection: $this->connection($loading(1)))->acquire());
        [$thrown] = self::thrown(fn () => $this->lock('order:2', connection: $this->connection($loading(2)))->acquire());
        self::assertInstanceOf(ServerException::class, $thrown);
        self::assertSame('LOADING', $thrown->redisCode);
        array_map(static fn (FakeServer $fake) => $fake->stop(), $fakes);
    }

    public function testRenewIsTrueByMajorityFalseWhenAMajorityIsImpossibleAndUnknownElse(): void
    {
        $proxies = $this->proxies(0, 1, 2);
        $connection = $this->warm(self::dsnThrough($proxies));
        $lock = $this->held($connection);
        self::takeElsewhere([0]);
        self::assertTrue($lock->renew(), 'two of three still have it');
        self::assertTrue($lock->isHeld());

        $proxies[1]->hold('reply');
        [$thrown] = self::thrown(static fn () => $lock->renew());
        self::assertInstanceOf(OutcomeUnknownException::class, $thrown, 'one has it, one has not, one is silent');
        self::assertTrue($lock->isHeld(), 'what was confirmed before stays as it was');
        $proxies[1]->deliver();
        self::settle($connection);
        self::assertTrue($lock->renew());

        self::$servers[1]->command('DEL', 'lock:order:1');
        self::assertFalse($lock->renew(), 'a majority has lost it');
        self::assertFalse($lock->isHeld());
    }

    public function testALossThatAMajorityTellsIsSaidEvenIfTheLastNodeIsSilentOrDead(): void
    {
        foreach (['renew', 'release'] as $call) {
            foreach (['pause', 'kill'] as $fate) {
                $connection = $this->warm();
                $lock = $this->held($connection);
                self::$servers[1]->command('DEL', 'lock:order:1');
                self::$servers[2]->command('DEL', 'lock:order:1');
                self::$servers[0]->$fate();
                self::assertFalse($lock->$call(), "$call, $fate");
                $this->tearDown();
                $this->setUp();
            }
        }
    }

    public function testReleaseIsTrueWhenAMajorityWasOursAndFalseTheSecondTime(): void
    {
        $connection = $this->warm();
        foreach ([[], [0], [2]] as $lost) {
            $lock = $this->held($connection);
            self::takeElsewhere($lost);
            self::assertTrue($lock->release());
            self::assertFalse($lock->release());
            self::assertGivenBack($lost);
            array_map(static fn (int $place) => self::$servers[$place]->command('DEL', 'lock:order:1'), $lost);
        }
        $lock = $this->held($connection);
        self::takeElsewhere([0, 1]);
        self::assertFalse($lock->release(), 'a majority was no longer ours');
        self::assertGivenBack([0, 1]);
    }

    public function testReleaseByAMinorityOfLivingNodesIsUnknownAndAFurtherOneFinal(): void
    {
        $lock = $this->held($this->warm());
        self::$servers[0]->pause();
        self::$servers[1]->pause();
        [$thrown] = self::thrown(static fn () => $lock->release());
        self::assertInstanceOf(OutcomeUnknownException::class, $thrown);
        self::assertFalse($lock->isHeld());
        self::mend();
        eventually(static fn () => self::thrown(static fn () => self::assertTrue($lock->release()))[0] === null, 'it was ours');
        self::assertNothingHeldAnywhere();
    }

    public function testOwnerIsTheTokenThatAMajorityHoldsOrNobody(): void
    {
        $connection = $this->warm();
        $lock = $this->lock(connection: $connection);
        $tell = [
            [[null, null, null], null], [['a', null, null], null], [['a', 'b', null], null], [['a', 'b', 'c'], null],
            [['a', 'a', null], 'a'], [['b', 'a', 'a'], 'a'], [['a', 'a', 'a'], 'a'], [['reserved:a', 'reserved:a', 'b'], null],
        ];
        foreach ($tell as [$stored, $owner]) {
            foreach (self::$servers as $place => $server) {
                $server->flush();
                $stored[$place] === null || self::takeElsewhere([$place], token: $stored[$place]);
            }
            self::assertSame($owner, $lock->owner(), json_encode($stored));
        }
    }

    public function testForceReleaseGoesToAllNodesWhosesoeverTheLockIs(): void
    {
        $connection = $this->warm();
        self::takeElsewhere([0], token: 'a');
        self::takeElsewhere([1], token: 'b');
        $lock = $this->lock(connection: $connection);
        self::assertTrue($lock->forceRelease(), 'even a copy on one node only');
        self::assertNothingHeldAnywhere();
        self::assertFalse($lock->forceRelease());

        $held = $this->held($connection);
        self::assertTrue($lock->forceRelease());
        self::assertNothingHeldAnywhere();
        self::assertFalse($held->renew());
    }

    public function testForceReleaseAndPingWaitForANodeThatIsSlowAndWasSilentBefore(): void
    {
        $proxies = $this->proxies(2);
        $connection = $this->warm(self::dsnThrough($proxies));
        $proxies[2]->delay(0.02, 0.02);
        $lock = $this->lock(connection: $connection);
        for ($i = 0; $i < 2; $i++) {
            self::assertNull($lock->owner());
            // Past the silence from which on other calls do without it.
            $until = microtime(true) + 0.015;
            eventually(static fn () => microtime(true) >= $until, 'a moment');
            self::assertIsFloat($connection->ping()["127.0.0.1:{$proxies[2]->port()}"]);
            self::takeElsewhere([2]);
            self::assertNull($lock->owner());
            $until = microtime(true) + 0.015;
            eventually(static fn () => microtime(true) >= $until, 'a moment');
            self::assertTrue($lock->forceRelease(), 'it has the only copy');
        }
    }

    public function testSynchronizedTellsContentionFromTroubleToo(): void
    {
        self::takeElsewhere([0, 1]);
        [$thrown] = self::thrown(fn () => $this->lock()->synchronized(static fn () => null));
        self::assertInstanceOf(LockTimeoutException::class, $thrown);
        self::$servers[0]->kill();
        self::$servers[1]->kill();
        [$thrown] = self::thrown(fn () => $this->lock()->synchronized(static fn () => null));
        self::assertInstanceOf(ConnectionException::class, $thrown);
    }

    private function held(Connection $connection): DistributedLock
    {
        $lock = $this->lock(connection: $connection);
        self::assertTrue($lock->acquire());
        eventually(static fn () => !in_array(null, self::copies(), true), 'every node has a copy');

        return $lock;
    }

    /** Only the others' copies are left. */
    private static function assertGivenBack(array $places): void
    {
        $wanted = array_map(static fn (int $place) => in_array($place, $places, true) ? 'somebody-else' : null, array_keys(self::$servers));
        eventually(static fn () => self::copies() === $wanted, 'what was granted went back', 2.0);
    }

    /** @return array<string, array{callable, callable}> code of the refusal => what makes a node refuse, and what ends that */
    private static function refusals(): array
    {
        $tell = static fn (string|int ...$words) => static fn (int $place) => self::$servers[$place]->command(...$words);

        return [
            'NOPERM' => [$tell('ACL', 'SETUSER', 'default', '-eval', '-evalsha'), $tell('ACL', 'SETUSER', 'default', '+@all')],
            'READONLY' => [$tell('REPLICAOF', '127.0.0.1', 1), $tell('REPLICAOF', 'NO', 'ONE')],
            'OOM' => [$tell('CONFIG', 'SET', 'maxmemory', 1), $tell('CONFIG', 'SET', 'maxmemory', 0)],
        ];
    }
}
