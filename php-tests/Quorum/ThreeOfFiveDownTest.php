<?php

declare(strict_types=1);

namespace RedisLease\Tests\Quorum;

use RedisLease\ConnectionException;
use RedisLease\LeaseException;
use RedisLease\OutcomeUnknownException;
use RedisLease\Tests\Support\FaultProxy;

use function RedisLease\Tests\Support\eventually;

/** With three of five nodes down nobody gets the lock, and nothing of the attempt stays anywhere. */
final class ThreeOfFiveDownTest extends QuorumTestCase
{
    protected const NODES = 5;
    protected const CONNECT = 0.12;
    protected const COMMAND = 0.12;

    /** What befalls nodes 0, 1 and 2 before anybody has connected to them: nothing is sent to a majority. */
    private const BEFORE = [
        'killed' => ['kill', 'kill', 'kill'],
        'hung' => ['hang', 'hang', 'hang'],
        'cut off' => ['cut', 'cut', 'cut'],
        'one of each' => ['kill', 'hang', 'cut'],
    ];
    private const KILLED_UNDER_OPEN_CONNECTIONS = ['kill', 'kill', 'kill'];
    /** The same under open connections: a majority may have granted it. */
    private const UNDER_OPEN_CONNECTIONS = [
        'all hung' => ['hang', 'hang', 'hang'],
        'all held up' => ['hold', 'hold', 'hold'],
        'two killed, one hung' => ['kill', 'kill', 'hang'],
        'one of each, under open connections' => ['kill', 'hang', 'hold'],
    ];

    /** What the message has to say of a node, by what befell it. */
    private const REASONS = [
        'kill' => 'cannot connect|closed the connection|connection failed',
        'cut' => 'cannot connect|closed the connection|connection failed',
        'hang' => 'time-out|no answer',
        'hold' => 'time-out|no answer',
    ];

    public function testItIsUnavailableOrUnknownInTimeAndTheMessageNamesEachNodeWithItsOwnReason(): void
    {
        foreach ($this->ways() as $way => [$dsn, $isUnknown, $names]) {
            foreach (['acquire', 'owner', 'forceRelease'] as $call) {
                $lock = $this->lock(connection: $this->connection($dsn));
                // Two nodes are well, and nothing is said against them: unless a busy machine had no time for one of them.
                $well = '~(\Q' . self::$servers[3]->socket() . '\E|\Q' . self::$servers[4]->socket() . '\E): [^;]*time-out~';
                for ($try = 0; $try === 0 || ($try < 5 && preg_match($well, (string) $thrown?->getMessage()) === 1); $try++) {
                    [$thrown, $seconds] = self::thrown(static fn () => $lock->$call());
                }

                self::assertLessThan(self::CONNECT + self::COMMAND + self::NOISE, $seconds, "$way: $call");
                self::assertNoMajority($call === 'acquire' ? $isUnknown : null, $thrown, "$way: $call");
                self::assertFalse($lock->isHeld(), "$way: $call");
                foreach ($names as $name => $reason) {
                    self::assertMatchesRegularExpression("~\Q$name\E: [^;]*($reason)~", $thrown->getMessage(), "$way: $call");
                }
                self::assertDoesNotMatchRegularExpression($well, $thrown->getMessage(), "$way: $call");
            }
        }
    }

    public function testWhereItIsUnavailableNothingStaysEvenIfTheProcessDoesNothingMore(): void
    {
        foreach ($this->ways(false) as $way => [$dsn, , , $end]) {
            $lock = $this->lock(connection: $this->connection($dsn));
            [$thrown] = self::thrown(static fn () => $lock->acquire());
            self::assertNoMajority(false, $thrown, $way);
            $end();
            self::assertNothingHeldAnywhere($way);
        }
    }

    public function testWhereItIsUnknownAReleaseWhileTheyAreDownMakesSureThatNothingStays(): void
    {
        foreach ($this->ways(true) as $way => [$dsn, , , $end]) {
            $lock = $this->lock(connection: $this->connection($dsn));
            [$thrown] = self::thrown(static fn () => $lock->acquire());
            self::assertNoMajority(true, $thrown, $way);
            self::thrown(static fn () => $lock->release());
            $end();
            self::assertNothingHeldAnywhere($way);
        }
    }

    public function testWhereItIsUnknownAReleaseWhenTheyAreBackMakesSureThatNothingStays(): void
    {
        foreach ($this->ways(true) as $way => [$dsn, , , $end]) {
            $lock = $this->lock(connection: $this->connection($dsn));
            [$thrown] = self::thrown(static fn () => $lock->acquire());
            self::assertNoMajority(true, $thrown, $way);
            $end();
            $isAnswered = static fn () => self::thrown(static fn () => $lock->release())[0] === null;
            eventually($isAnswered, "$way: released");
            self::assertNothingHeldAnywhere($way);
        }
    }

    public function testANewAttemptWhenTheyAreBackHasTheLockAndGivesItBack(): void
    {
        foreach ($this->ways() as $way => [$dsn, , , $end]) {
            $lock = $this->lock(connection: $this->connection($dsn));
            self::thrown(static fn () => $lock->acquire());
            $end();
            $isHeld = static fn () => self::thrown(static fn () => $lock->acquire(1.0))[0] === null && $lock->isHeld();
            eventually($isHeld, "$way: acquired");
            self::assertTrue($lock->release(), $way);
            self::assertNothingHeldAnywhere($way);
        }
    }

    public function testTheEndOfTheProcessLeavesNothing(): void
    {
        $ends = ['exit' => 'exit;', 'a fatal error' => 'str_repeat("x", 1 << 50);'];
        foreach (['all hung', 'one of each, under open connections'] as $way) {
            $faults = self::UNDER_OPEN_CONNECTIONS[$way];
            $workers = [];
            [$dsn, , $begin, $end] = $this->prepared($faults);
            foreach ($ends as $how => $code) {
                $workers[$how] = self::worker(<<<PHP
                    \$connection->ping();
                    say('ready');
                    hear();
                    say(thrown(static fn () => \$lock->acquire()));
                    hear();
                    ini_set('display_errors', '0');
                    $code
                    PHP, ['dsn' => $dsn, 'resource' => $how]);
                self::assertSame('ready', $workers[$how]->hear());
            }
            $begin();
            foreach ($workers as $how => $worker) {
                $worker->say();
                self::assertSame(OutcomeUnknownException::class, $worker->hear(), "$way, $how");
                $worker->say();
                $worker->wait();
            }
            $end();
            self::assertNothingHeldAnywhere($way);
            $this->tearDown();
            $this->setUp();
        }
    }

    /** @param bool|null $isUnknown null: either, since a majority has part in neither */
    private static function assertNoMajority(?bool $isUnknown, ?LeaseException $thrown, string $message): void
    {
        $classes = [ConnectionException::class, OutcomeUnknownException::class];
        $wanted = $isUnknown === null ? $classes : [$classes[(int) $isUnknown]];
        self::assertContains($thrown === null ? 'nothing thrown' : $thrown::class, $wanted, "$message: {$thrown?->getMessage()}");
    }

    /**
     * Each way in which three nodes can be down, begun: DSN, whether an acquire is unknown then, each node's name
     * with the reason to be told, and what mends it.
     *
     * @return iterable<string, array{string, bool, array<string, string>, callable}>
     */
    private function ways(?bool $unknown = null): iterable
    {
        $ways = [
            ...array_map(static fn (array $faults) => [$faults, false, false], self::BEFORE),
            'killed under open connections' => [self::KILLED_UNDER_OPEN_CONNECTIONS, true, false],
            ...array_map(static fn (array $faults) => [$faults, true, true], self::UNDER_OPEN_CONNECTIONS),
        ];
        foreach ($ways as $way => [$faults, $isWarm, $isUnknown]) {
            if ($unknown === null || $unknown === $isUnknown) {
                [$dsn, $names, $begin, $end] = $this->prepared($faults);
                !$isWarm || $this->warm($dsn);
                $begin();
                yield $way => [$dsn, $isUnknown, $names, $end];
                $this->tearDown();
                $this->setUp();
            }
        }
    }

    /** @return array{string, array<string, string>, callable, callable} DSN, names with reasons, begin, end */
    private function prepared(array $faults): array
    {
        $proxies = $this->proxies(...array_keys(array_intersect($faults, ['hold', 'cut'])));
        $names = [];
        foreach ($faults as $place => $fault) {
            $name = isset($proxies[$place]) ? "127.0.0.1:{$proxies[$place]->port()}" : self::$servers[$place]->socket();
            $names[$name] = self::REASONS[$fault];
        }
        $begin = static function () use ($faults, $proxies): void {
            foreach ($faults as $place => $fault) {
                match ($fault) {
                    'kill' => self::$servers[$place]->kill(),
                    'hang' => self::$servers[$place]->pause(),
                    'hold' => $proxies[$place]->hold('request'),
                    'cut' => $proxies[$place]->newConnections('refuse'),
                };
            }
        };
        $end = static function () use ($proxies): void {
            self::mend();
            array_walk($proxies, static function (FaultProxy $proxy): void {
                $proxy->newConnections('pass');
                $proxy->deliver();
            });
        };

        return [self::dsnThrough($proxies), $names, $begin, $end];
    }
}
