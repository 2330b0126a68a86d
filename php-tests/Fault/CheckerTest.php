<?php

declare(strict_types=1);

namespace RedisLease\Tests\Fault;

use PHPUnit\Framework\TestCase;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\torture\Checker;
use RedisLease\Tests\torture\Events;

/** The checker finds nothing in the recorded history of a run, and finds each violation that is planted in it. */
final class CheckerTest extends TestCase
{
    private const SECOND = 1_000_000_000;

    /** @var list<array<string, mixed>> */
    private array $events;

    protected function setUp(): void
    {
        $lines = file(dirname(__DIR__) . '/torture/recorded.jsonl', FILE_IGNORE_NEW_LINES);
        $this->events = array_map(static fn (string $line) => json_decode($line, true, 8, JSON_THROW_ON_ERROR), $lines);
    }

    public function testTheRecordedHistoryIsCleanAndHasSomethingOfEverything(): void
    {
        $checker = new Checker($this->events);

        self::assertSame([], $checker->violations());
        $all = ['grants', 'writes', 'samples', 'late writes refused', 'release: true', 'release: false', 'renew: true', 'renew: false'];
        foreach ($all as $what) {
            self::assertGreaterThan(0, $checker->counts()[$what], $what);
        }
    }

    public function testTwoOwnersAreFound(): void
    {
        [$index, $grant] = $this->longGrant();
        $second = ['pid' => 1, 'token' => 'second', 'fence' => $grant['fence'] + 1, 't' => $grant['t'] + 1_000_000];
        $this->insert($index, $second + $grant, withCall: true);
        $this->assertFound('two owners');
    }

    public function testAValidityThatGoesOnPastItsTtlIsFound(): void
    {
        // The next owner of the resource gets the lock while the first still claims it.
        $grants = array_values(array_filter($this->events, static fn (array $event) => $event['e'] === 'grant'));
        foreach ($grants as $grant) {
            $isNext = static fn ($other) => $other['r'] === $grant['r'] && $other['t'] > $grant['t']
                && $other['token'] !== $grant['token'];
            if (array_filter($grants, $isNext) !== []) {
                break;
            }
        }
        foreach ($this->events as &$event) {
            if (($event['token'] ?? null) === $grant['token'] && isset($event['until'])) {
                $event['until'] += 10 * self::SECOND;
            }
        }
        unset($event);
        // It never let go, as far as anybody was told.
        $stays = static fn ($event) => ($event['token'] ?? null) !== $grant['token']
            || in_array($event['e'], ['grant', 'renewed'], true) || ($event['op'] ?? null) === 'acquire';
        $this->events = array_values(array_filter($this->events, $stays));
        $this->assertFound('two owners', 'valid, and not in Redis');
    }

    public function testOwnersOnBothSidesOfALossOfDataAreNoViolation(): void
    {
        [$index, $grant] = $this->longGrant();
        $at = $grant['t'] + 1_000_000;
        $second = ['pid' => 1, 'token' => 'second', 'fence' => $grant['fence'] + 1, 't' => $at + 4_000_000] + $grant;
        $this->insert($index, $second, withCall: true, begun: $at + 3_000_000);
        $this->insert($index, ['e' => 'lost data', 't0' => $at, 't' => $at + 2_000_000]);

        self::assertSame([], $this->found('two owners'));
    }

    public function testOwnersOnBothSidesOfALossOfOneNodesDataAreFound(): void
    {
        $this->onNodes(3);
        [$index, $grant] = $this->longGrant();
        $at = $grant['t'] + 1_000_000;
        $second = ['pid' => 1, 'token' => 'second', 'fence' => $grant['fence'] + 1, 't' => $at + 4_000_000] + $grant;
        $this->insert($index, $second, withCall: true, begun: $at + 3_000_000);
        $this->insert($index, ['e' => 'lost data', 't0' => $at, 't' => $at + 2_000_000]);
        $this->assertFound('two owners');
    }

    public function testAValidLeaseMayBeMissingOnAMinorityOfNodesAndNotOnAMajority(): void
    {
        $this->onNodes(3);
        [, $grant] = $this->longGrant();
        $this->changeSampleOf($grant, [null, -2]);
        self::assertSame([], $this->found('valid, and not in Redis'));
        $at = $grant['t'] + 1_000;
        $this->insert(0, ['e' => 'sample', 'node' => 2, 't' => $at, 't1' => $at + 1, 'seen' => [$grant['r'] => [null, -2]]]);
        $this->assertFound('valid, and not in Redis');
    }

    public function testAFenceThatDoesNotRiseIsFound(): void
    {
        $this->changeGrant(static fn (array $grant) => ['fence' => $grant['fence'] - 10 * self::SECOND] + $grant);
        $this->assertFound('a fence that does not rise');
    }

    public function testAFenceThatDoesNotRiseOverALossOfDataIsFound(): void
    {
        $changed = $this->changeGrant(static fn (array $grant) => ['fence' => 1] + $grant);
        $begin = $changed['t'] - self::SECOND / 1000;
        $this->insert(0, ['e' => 'lost data', 't0' => $begin - 1000, 't' => $begin]);
        $this->assertFound('a fence that does not rise');
    }

    public function testOneFenceForTwoGrantsIsFound(): void
    {
        [$index, $grant] = $this->longGrant();
        $second = ['pid' => 1, 'token' => 'second', 't' => $grant['until'] + 1, 'until' => $grant['until'] + 2];
        $this->insert($index, $second + $grant, withCall: true);
        $this->assertFound('one fence twice');
    }

    public function testALateWriteThatIsAcceptedIsFound(): void
    {
        $this->change(static fn (array $event) => $event['e'] === 'write' && !$event['accepted'], ['accepted' => true]);
        $this->assertFound('a late write accepted');
    }

    public function testAGoodWriteThatIsRefusedIsFound(): void
    {
        $this->change(static fn (array $event) => $event['e'] === 'write' && $event['accepted'], ['accepted' => false]);
        $this->assertFound('a good write refused');
    }

    public function testAValidLeaseThatIsNotInRedisIsFound(): void
    {
        $this->changeSampleOf($this->longGrant()[1], [null, -2]);
        $this->assertFound('valid, and not in Redis');
    }

    public function testAValidLeaseThatIsFoundLostIsFound(): void
    {
        foreach ($this->events as $index => $event) {
            if ($event['e'] === 'end' && $event['op'] === 'renew' && $event['answer'] === true) {
                $this->events[$index]['answer'] = false;
                foreach (array_slice($this->events, $index) as $later => $confirmed) {
                    if ($confirmed['e'] === 'renewed' && $confirmed['token'] === $event['token']) {
                        unset($this->events[$index + $later]);
                        break;
                    }
                }
                break;
            }
        }
        $this->events = array_values($this->events);
        $this->assertFound('lost while it was valid');
    }

    public function testALockWithoutAnEndIsFound(): void
    {
        $grant = $this->longGrant()[1];
        $this->changeSampleOf($grant, [$grant['token'], -1]);
        $this->assertFound('a lock without an end');
    }

    public function testAReservationWithoutAnEndIsFound(): void
    {
        $this->addSample($this->last('t') + self::SECOND, 'order', ['reserved:x', 60_000]);
        $this->assertFound('a reservation without an end');
    }

    public function testALockThatComesBackAfterItsReleaseIsFound(): void
    {
        foreach ($this->events as $event) {
            if ($event['e'] === 'end' && $event['op'] === 'release' && $event['answer'] === true) {
                $this->addSample($event['t'] + 1_000_000, $event['r'], [$event['token'], 100]);
                break;
            }
        }
        $this->assertFound('given back, and there again');
    }

    public function testATokenThatNobodyAskedForIsFound(): void
    {
        $this->addSample($this->events[0]['t'] - 1_000_000, 'order', ['a stranger', 100]);
        $this->assertFound('a token that nobody asked for');
    }

    public function testOnSeveralNodesATryBeforeTheGrantMayShowAndAStrangerMayNot(): void
    {
        $this->onNodes(3);
        $isGranted = static fn (array $event) => $event['e'] === 'end' && $event['op'] === 'acquire' && $event['answer'] === true;
        $call = array_values(array_filter($this->events, $isGranted))[0];
        $this->addSample($call['t'] - 1_000, $call['r'], ['an earlier try', 100]);
        self::assertSame([], $this->found('a token that nobody asked for'));
        $this->addSample($this->events[1]['t'] - self::SECOND, $call['r'], ['a stranger', 100]);
        $this->assertFound('a token that nobody asked for');
    }

    public function testALockThatOutlivesItsTtlByMoreThanASecondIsFound(): void
    {
        $grant = $this->longGrant()[1];
        $this->addSample($this->last('t') + 20 * self::SECOND, $grant['r'], [$grant['token'], 100]);
        $this->assertFound('taken for longer than its TTL and a second');
    }

    public function testARenewalThatWasHeldUpAndArrivedLateMayProlongTheLockAndNothingElseMay(): void
    {
        $isRenewed = static fn (array $event) => $event['e'] === 'end' && $event['op'] === 'renew' && $event['answer'] === true;
        // The last that was done with the token.
        $call = array_values(array_filter($this->events, $isRenewed))[0];
        $isOver = static fn (array $event) => ($event['token'] ?? null) === $call['token'] && $event['t'] > $call['t'] + 1_000_000;
        $this->events = array_values(array_filter($this->events, static fn (array $event) => !$isOver($event)));
        $late = $call['t'] + (int) (1.3 * self::SECOND);
        $this->addSample($late + (int) ($call['ttl'] * self::SECOND) - 10_000_000, $call['r'], [$call['token'], 10]);
        $this->assertFound('taken for longer than its TTL and a second');

        $held = ['e' => 'away', 't0' => $call['t0'] - 1000, 't' => $late];
        $this->insert(0, ['t0' => $call['t'] + self::SECOND] + $held);
        $this->assertFound('taken for longer than its TTL and a second');
        $this->insert(0, $held);
        self::assertSame([], $this->found('taken for longer than its TTL and a second'));
    }

    public function testACallPastItsDeadlineIsFoundAndOneOfAStoppedProcessIsNot(): void
    {
        $isCall = static fn (array $event) => $event['e'] === 'end' && $event['op'] === 'release';
        $call = $this->change($isCall, ['took' => 600_000_000]);
        $this->assertFound('a call past its deadline');

        $stop = ['e' => 'stopped', 'pid' => $call['pid'], 't0' => $call['t0'] - self::SECOND, 't' => $call['t'] + 1];
        $this->change($isCall, ['t0' => $call['t0'] - self::SECOND]);
        $this->insert(0, $stop);
        self::assertSame([], $this->found('a call past its deadline'));
    }

    public function testALockThatIsTakenAtTheEndIsFound(): void
    {
        $this->change(static fn (array $event) => $event['e'] === 'end of run', ['free' => false]);
        $this->assertFound('a lock was still taken');
    }

    public function testWhatAWorkerItselfFoundWrongIsFound(): void
    {
        $this->insert(0, ['e' => 'bad', 't' => $this->events[0]['t'], 'what' => 'a child holds']);
        $this->assertFound('a child holds');
    }

    public function testTheLineThatAKilledWorkerDidNotFinishDoesNotCount(): void
    {
        $directory = Janitor::directory('.history');
        $lines = array_map(static fn (array $event) => json_encode($event), $this->events);
        file_put_contents("$directory/events-1", implode("\n", $lines) . "\n" . substr($lines[0], 0, 40));

        self::assertSame([], (new Checker((new Events($directory))->all()))->violations());
    }

    /** From here on the history is one of a quorum, of which one node was looked at. */
    private function onNodes(int $count): void
    {
        array_unshift($this->events, ['e' => 'nodes', 'count' => $count, 't' => $this->events[0]['t'] - 1]);
    }

    private function assertFound(string ...$rules): void
    {
        foreach ($rules as $rule) {
            self::assertNotSame([], $this->found($rule), "$rule: " . json_encode($this->found('')));
        }
    }

    /** @return list<string> the violations of one rule, or of any */
    private function found(string $rule): array
    {
        usort($this->events, static fn (array $one, array $other) => $one['t'] <=> $other['t']);
        $violations = (new Checker($this->events))->violations();

        return array_values(array_filter($violations, static fn (string $found) => str_starts_with($found, $rule)));
    }

    /** @return array{int, array<string, mixed>} a grant that was valid long enough for samples to be taken in it */
    private function longGrant(): array
    {
        foreach ($this->events as $index => $event) {
            if ($event['e'] !== 'grant') {
                continue;
            }
            foreach ($this->events as $sample) {
                $isLater = $sample['e'] === 'sample' && $sample['t'] > $event['t'] + 5_000_000;
                if ($isLater && $sample['seen'][$event['r']][0] === $event['token']) {
                    return [$index, $event];
                }
            }
        }
        self::fail('the recorded history has no such grant');
    }

    /** Changes the last of several grants of one resource. */
    private function changeGrant(callable $change): array
    {
        foreach (array_reverse($this->events, true) as $index => $event) {
            $same = static fn (array $other) => $other['e'] === 'grant' && $other['r'] === ($event['r'] ?? null)
                && $other['t'] < $event['t'];
            if ($event['e'] === 'grant' && array_filter($this->events, $same) !== []) {
                return $this->events[$index] = $change($event);
            }
        }
        self::fail('the recorded history has no two grants');
    }

    private function change(callable $which, array $to): array
    {
        foreach ($this->events as $index => $event) {
            if ($which($event)) {
                return $this->events[$index] = $to + $event;
            }
        }
        self::fail('the recorded history has no such event');
    }

    private function changeSampleOf(array $grant, array $seen): void
    {
        foreach ($this->events as $index => $event) {
            if ($event['e'] === 'sample' && $event['t'] > $grant['t'] && $event['seen'][$grant['r']][0] === $grant['token']) {
                $this->events[$index]['seen'][$grant['r']] = $seen;

                return;
            }
        }
        self::fail('nobody looked while it was valid');
    }

    private function addSample(int $at, string $resource, array $seen): void
    {
        $this->insert(0, ['e' => 'sample', 't' => $at, 't1' => $at + 1000, 'seen' => [$resource => $seen]]);
    }

    private function insert(int $index, array $event, bool $withCall = false, ?int $begun = null): void
    {
        $call = ['op' => 'acquire', 'id' => 1_000_000 + $index, 'pid' => 1, 'r' => $event['r'] ?? '', 'ttl' => 1.0];
        $begun ??= $event['t'] - 2000;
        $before = ['e' => 'begin', 't' => $begun, 'token' => null, 'limit' => 1.0] + $call;
        $after = ['e' => 'end', 't' => $event['t'] - 1000, 't0' => $begun, 'token' => $event['token'] ?? null, 'answer' => true,
            'took' => 1000, 'delay' => 0, 'limit' => 1.0] + $call;
        array_push($this->events, ...($withCall ? [$before, $after, $event] : [$event]));
        usort($this->events, static fn (array $one, array $other) => $one['t'] <=> $other['t']);
    }

    private function last(string $what): int
    {
        return max(array_column($this->events, $what));
    }
}
