<?php

declare(strict_types=1);

namespace RedisLease\Tests\Fault\Cuts;

use DistributedLock;
use RedisLease\Connection;
use RedisLease\ConnectionException;
use RedisLease\OutcomeUnknownException;
use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\Resp;
use Throwable;

/**
 * Compares what a caller was told with what is true in Redis, now and after everything that was still
 * under way has arrived. Each method gives the reasons why the answer was wrong, if it was.
 */
final class Judge
{
    /** The TTL in Redis before a renewal, and the one that the caller asks for, in ms. */
    public const SHORT = 5_000;
    public const LONG = 20_000;

    /** How the caller goes on afterwards, by variant. */
    public const RECOVERIES = [
        'released when the late command has arrived',
        'released by restore() with the token',
        'acquired and released by the same handle',
        'released by the same handle',
    ];

    private const KEY = 'lock:cut';
    /** @var list<string> */
    private array $wrong = [];

    public function __construct(
        private readonly Cell $cell,
        private readonly DistributedLock $lock,
        private readonly ?string $ourToken,
        private readonly Connection $patient,
        private readonly Resp $redis,
        private readonly FaultProxy $proxy,
    ) {
    }

    /**
     * @param mixed $answer what the call returned or threw
     * @return list<string>
     */
    public function judge(mixed $answer, int $variant): array
    {
        $this->toldTheTruth($answer);
        // From here on the server is there again; commands that were held are still under way.
        $this->proxy->newConnections('pass');
        if ($this->cell->step->holder === Step::THEIRS) {
            $this->theirsIsUntouched($answer);
        }
        $this->recover($answer, $variant);

        return $this->wrong;
    }

    /** A letter for the table. */
    public static function letter(mixed $answer): string
    {
        return match (true) {
            $answer === true => 'T',
            $answer === false => 'F',
            $answer instanceof ConnectionException => 'C',
            $answer instanceof OutcomeUnknownException => 'U',
            $answer instanceof Throwable => '!',
            default => 'A',
        };
    }

    private function toldTheTruth(mixed $answer): void
    {
        $step = $this->cell->step;
        $unknown = $answer instanceof OutcomeUnknownException;
        if ($unknown) {
            $this->demand(!$this->cell->canBeResolved(), 'unknown, though asking again would have told');
            $this->demand($step->call !== 'acquire' || is_string($answer->token), 'unknown, and no token to recover with');
            $this->demand($answer->resource === 'cut', 'unknown, and the resource is not named');
        } elseif ($answer instanceof ConnectionException) {
            $this->demand(!$this->cell->canBeResolved(), 'unavailable, though the server was there');
        } elseif ($answer !== $step->rightAnswer()) {
            $shown = $answer instanceof Throwable ? (string) $answer : var_export($answer, true);
            $this->wrong[] = "was told $shown, " . var_export($step->rightAnswer(), true) . ' is right';
        }
        $this->demand(!($step->call === 'acquire' && $answer instanceof Throwable && $this->lock->isHeld()), 'threw, and holds');
        $this->demand(!($step->call === 'release' && $this->lock->isHeld()), 'holds after release()');
        if ($step->call === 'renew' && $answer instanceof Throwable) {
            $this->demand($this->lock->isHeld(), 'a renewal without an answer took the confirmed validity away');
        }
        $this->agreesWithRedis($answer, $unknown);
    }

    private function agreesWithRedis(mixed $answer, bool $unknown): void
    {
        $step = $this->cell->step;
        $value = $this->redis->command('GET', self::KEY);
        $pttl = $this->redis->command('PTTL', self::KEY);
        $notExecuted = $answer instanceof ConnectionException;
        if ($step->call === 'acquire') {
            if ($answer === true) {
                $this->demand($this->lock->isHeld() && $value === $this->lock->token(), 'told held, and Redis has not our token');
                $this->demand($this->lock->fence() > 0, 'held without a fence');
                $this->demand($pttl > $this->lock->remaining() * 1000 - 1, 'valid for longer than Redis keeps it');
            } elseif ($notExecuted && $step->holder === null) {
                $this->demand($value === null, 'nothing was executed, it said, and the lock is taken');
            }
        } elseif ($step->call === 'renew' && $step->holder === Step::OURS) {
            $this->demand($value === $this->ourToken, 'the lease is gone after a renewal');
            $this->demand($answer !== true || $pttl > self::SHORT, 'told extended, and it is not');
            $this->demand(!$notExecuted || $pttl <= self::SHORT, 'nothing was executed, it said, and it was extended');
        } elseif ($step->call === 'release' && $step->holder === Step::OURS) {
            $this->demand($answer !== true || $value === null, 'told released, and it is still there');
            $this->demand(!$notExecuted || $value === $this->ourToken, 'nothing was executed, it said, and it is gone');
        } elseif ($step->call === 'forceRelease' && $step->holder !== null) {
            $this->demand($answer !== true || $value === null, 'told removed, and it is still there');
            $this->demand(!$notExecuted || $value !== null, 'nothing was executed, it said, and it is gone');
        }
        $this->demand($value === null || $pttl > 0, 'a key without a TTL');
    }

    private function theirsIsUntouched(mixed $answer): void
    {
        if ($this->cell->step->call !== 'forceRelease') {
            $this->demand($this->redis->command('GET', self::KEY) === Step::THEIRS, "another's lock was touched");
            $this->demand($this->redis->command('PTTL', self::KEY) > self::LONG, "another's TTL was touched");
            $this->redis->command('DEL', self::KEY);
        }
    }

    /** Gives the lock back in one of several ways. That is final: no late command undoes it, or touches the next lock. */
    private function recover(mixed $answer, int $variant): void
    {
        $step = $this->cell->step;
        if ($variant % 4 === 0) {
            $this->proxy->deliver();
        }
        try {
            $released = $this->giveBack($variant % 4);
            if ($step->call === 'release' && $answer instanceof Throwable && $variant % 4 !== 2) {
                $isOurs = $step->holder === Step::OURS;
                $shown = var_export($released, true);
                $this->demand($released === $isOurs, "a further release() did not give the final answer: $shown");
            }
        } catch (Throwable $failure) {
            $this->wrong[] = "could not be given back: $failure";
        }
        $this->demand($this->redis->command('GET', self::KEY) === null || $step->call === 'forceRelease', 'given back, and still taken');
        if ($step->call === 'forceRelease') {
            return; // Its late command removes whoever's lock it meets: that is what it is for.
        }

        $next = $step->call === 'acquire' ? null : 'the next owner';
        if ($next !== null) {
            $this->redis->command('SET', self::KEY, $next, 'PX', 60_000);
        }
        $this->proxy->deliver();
        $this->demand($this->redis->command('GET', self::KEY) === $next, 'a late command changed who has the lock');
        $left = $this->redis->command('PTTL', self::KEY);
        $this->demand($next === null || $left > self::LONG, "a late command touched the next owner's TTL");
    }

    private function giveBack(int $variant): bool
    {
        $token = $this->lock->token();
        if ($variant === 1 && $token !== null) {
            $restored = DistributedLock::restore('cut', $token, 20.0, $this->patient);

            return Runner::persist(static fn () => $restored->release());
        }
        if ($variant === 2) {
            // Another attempt of the same handle gives back first what is owed.
            $this->redis->command(...($this->cell->step->call === 'forceRelease' ? ['DEL', self::KEY] : ['PING']));
            $this->demand(Runner::persist(fn () => $this->lock->acquire(2.0)), 'the handle is of no use any more');
            $this->demand($this->lock->fence() > 0 && $this->lock->isHeld(), 'a grant without a fence');
        }

        return Runner::persist(fn () => $this->lock->release());
    }

    private function demand(bool $good, string $otherwise): void
    {
        if (!$good) {
            $this->wrong[] = $otherwise;
        }
    }
}
