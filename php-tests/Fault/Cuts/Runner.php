<?php

declare(strict_types=1);

namespace RedisLease\Tests\Fault\Cuts;

use DistributedLock;
use RedisLease\Connection;
use RedisLease\LeaseException;
use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\Proc;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\Resp;
use Throwable;

/** Runs cells against one server behind one proxy. */
final class Runner
{
    private const USER = 'cutter:secret';
    private const TRIES = 5;

    public function __construct(private readonly RedisServer $server, private readonly FaultProxy $proxy)
    {
    }

    public static function startServer(): RedisServer
    {
        return RedisServer::start(aclUsers: ['user cutter on >secret ~* &* +@all']);
    }

    /**
     * The cells of one step: every place × every way × what comes later.
     *
     * @return list<Cell>
     */
    public function cells(Step $step, bool $everywhere): array
    {
        $whole = $this->uncut($step);
        $cells = [];
        foreach (['pass', 'refuse', 'hang'] as $later) {
            foreach (FaultProxy::HOWS as $how) {
                foreach ($whole as $direction => $bytes) {
                    foreach ($step->cuts($bytes, $everywhere && $later === 'pass') as $after) {
                        $cells[] = new Cell($step, $direction, $after, $how, $later);
                    }
                }
            }
        }

        return $cells;
    }

    /**
     * A busy machine may use up a short time-out before the cut is reached: then the cell is run again.
     *
     * @return array{letter: string, wrong: list<string>}
     */
    public function run(Cell $cell, int $variant): array
    {
        for ($try = 1; ; $try++) {
            [$found, $hasBroken] = $this->runOnce($cell, $variant);
            if (!$hasBroken && $try === self::TRIES) {
                $found['wrong'][] = 'the test itself is at fault: the cut was never reached';
            }
            if ($hasBroken || $found['wrong'] !== []) {
                return $found;
            }
        }
    }

    /** @return array{array{letter: string, wrong: list<string>}, bool} what was found, and whether the cut was reached */
    private function runOnce(Cell $cell, int $variant): array
    {
        [$lock, $ourToken] = $this->prepare($cell->step, $cell->timeouts());
        $this->proxy->breakAfter($cell->direction, $cell->after, $cell->how, $cell->later);
        [$answer, $seconds] = Proc::timed(static fn () => self::answer($lock, $cell->step->call));

        $judge = new Judge($cell, $lock, $ourToken, $this->patient($cell->step), $this->redis($cell->step), $this->proxy);
        $hasBroken = $this->proxy->hasBroken();
        $wrong = $judge->judge($answer, $variant);
        if ($seconds > array_sum($cell->timeouts()) + 0.1) {
            $wrong[] = sprintf('took %.3f s', $seconds);
        }

        $found = ['letter' => Judge::letter($answer), 'wrong' => $wrong, 'recovery' => Judge::RECOVERIES[$variant % 4]];

        return [$found, $hasBroken];
    }

    /** Until the server is known to be there again: its absence may be remembered for a moment. */
    public static function persist(callable $action): mixed
    {
        for ($deadline = microtime(true) + 5.0; ; usleep(2_000)) {
            try {
                return $action();
            } catch (LeaseException $notYet) {
                if (microtime(true) > $deadline) {
                    throw $notYet;
                }
            }
        }
    }

    /** @return array{request: string, reply: string} */
    private function uncut(Step $step): array
    {
        [$lock] = $this->prepare($step, [2.0, 2.0]);
        $this->proxy->pass();
        self::answer($lock, $step->call);

        return ['request' => $this->proxy->seen('request'), 'reply' => $this->proxy->seen('reply')];
    }

    /** @return array{DistributedLock, string|null} the lock to call, and the token it holds with */
    private function prepare(Step $step, array $timeouts): array
    {
        $this->proxy->pass();
        $this->proxy->cut();
        $this->server->flush();
        $patient = $this->patient($step);
        self::persist(static fn () => (new DistributedLock('warm', 5.0, connection: $patient))->owner());
        if (!$step->cold) {
            $warm = new DistributedLock('warm', 5.0, connection: $patient);
            $warm->acquire() && $warm->renew() && $warm->release();
            $warm->forceRelease();
        }
        $lock = new DistributedLock('cut', Judge::LONG / 1000, connection: new Connection($this->dsn($step), ...$timeouts));
        if ($step->needsOurLease()) {
            self::persist(static fn () => $lock->acquire());
            $this->server->command('PEXPIRE', 'lock:cut', Judge::SHORT);
        }
        if ($step->holder === Step::THEIRS) {
            $this->server->command('SET', 'lock:cut', Step::THEIRS, 'PX', 60_000);
        }
        if ($step->cold) {
            $this->server->command('SCRIPT', 'FLUSH');
        }
        if ($step->fresh) {
            $patient->close();
        }

        return [$lock, $lock->token()];
    }

    private function patient(Step $step): Connection
    {
        return new Connection($this->dsn($step), 5.0, 5.0);
    }

    private function dsn(Step $step): string
    {
        return $step->logsIn ? $this->proxy->dsn(self::USER, '/3') : $this->proxy->dsn();
    }

    private function redis(Step $step): Resp
    {
        static $clients = [];

        return $clients[(int) $step->logsIn] ??= $this->server->connect($step->logsIn ? 3 : 0);
    }

    private static function answer(DistributedLock $lock, string $call): mixed
    {
        try {
            return $lock->$call();
        } catch (Throwable $caught) {
            return $caught;
        }
    }
}
