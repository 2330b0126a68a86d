<?php

declare(strict_types=1);

namespace RedisLease\Bench;

use RedisLease\Tests\Support\Monitor;

/** What goes wrong among waiters: holders and waiters killed, waits given up, and how exactly waits end. */
final class Mishaps
{
    private const WAITERS = 20;
    private const WAITS = 50;
    private const LONGEST_WAIT = 0.06;
    private const KILLED = 10;
    /** Seconds after which all but the fence must be gone: the waiters' mark lasts four, a lock here one. */
    private const SETTLED = 4.5;

    public function __construct(private readonly Contest $contest)
    {
    }

    public function run(): void
    {
        $this->contest->report->section('Mishaps', 'Only this extension; each on locks of its own.');
        $bars = $this->contest->bars;
        $bars->atMost('holder killed: next holder after the expiry, ms', 50, $this->killHolders(), '%.0f');
        $bars->atMost('waiter killed: next holder after the release, ms', 2500, $this->killWaiters(), '%.0f');
        $this->giveUp();
        $bars->atMost('round trips of acquire(0.0) on a held lock', 1, $this->roundTrips(), '%.1f');
        $bars->notMeasured('a test for each fault of peers under Waiting', 'one each', 'php-tests/Fault');
    }

    private function worker(): Process
    {
        $script = dirname(__DIR__) . '/mishap-worker.php';
        $worker = Process::start([...Process::php(), $script, $this->contest->tcp->dsn()]);
        $worker->answer(); // A signal before it has its handler would end it.

        return $worker;
    }

    /** The latest of several: ms from the moment the lock's TTL ended to the waiter's acquire having returned. */
    private function killHolders(): float
    {
        $pairs = [];
        for ($i = 0; $i < self::KILLED; $i++) {
            $pairs[] = [$this->worker(), $this->worker(), $this->contest->name()];
        }
        foreach ($pairs as [$holder, $waiter, $name]) {
            $holder->ask("acquire $name 0.7 0");
            $waiter->tell("acquire $name 5 5");
        }
        usleep(50_000);
        $expiries = [];
        foreach ($pairs as [$holder, , $name]) {
            usleep(random_int(0, 20_000));
            $holder->kill();
            $expiries[] = hrtime(true) + 1_000_000 * $this->contest->server->command('PTTL', "lock:$name");
        }
        $late = array_map(
            static fn (array $pair, int $expiry) => ($pair[1]->answer() - $expiry) / 1e6,
            $pairs,
            $expiries,
        );
        $this->contest->report->line(sprintf(
            '%d holders killed: the waiter held the lock %.1f ms after its TTL had ended, at the latest %.1f.',
            count($late),
            Stats::median($late),
            max($late),
        ));

        return max($late);
    }

    /** The latest of several: ms from the release to the second waiter's acquire having returned, the first killed. */
    private function killWaiters(): float
    {
        $late = ['killed before the release' => [], 'stopped, and killed after it' => []];
        for ($i = 0; $i < $this->contest->rounds(self::KILLED, 4); $i++) {
            $name = $this->contest->name();
            [$holder, $first, $second] = [$this->worker(), $this->worker(), $this->worker()];
            $holder->ask("acquire $name 10 0");
            foreach ([$first, $second] as $waiter) {
                $waiter->tell("acquire $name 10 8");
                usleep(60_000);
            }
            if ($isBefore = $i % 2 === 0) {
                $first->kill();
                usleep(random_int(0, 3000));
            } else {
                $first->signal(SIGSTOP);
            }
            $released = $holder->ask('release');
            $first->kill();
            $late[array_keys($late)[$isBefore ? 0 : 1]][] = ($second->answer() - $released) / 1e6;
        }
        foreach ($late as $how => $values) {
            $this->contest->report->line(sprintf(
                '%d first waiters %s: the second held the lock %.1f ms after the release, at the latest %.1f.',
                count($values),
                $how,
                Stats::median($values),
                max($values),
            ));
        }

        return max(array_merge(...array_values($late)));
    }

    private function giveUp(): void
    {
        $name = $this->contest->name();
        $holders = [];
        for ($i = 0; $i < 2; $i++) {
            $holders[] = $holder = $this->worker();
            $holder->tell("hold $name 200 5000");
        }
        $waiters = $running = $victims = [];
        for ($i = 0; $i < self::WAITERS; $i++) {
            $waiters[] = $running[] = $worker = $this->worker();
            $worker->tell(sprintf('waits %s %d %F', $name, self::WAITS, self::LONGEST_WAIT));
        }
        for ($i = 0; $i < self::KILLED; $i++) {
            $victims[] = $victim = $this->worker();
            $victim->tell("acquire $name 1 30");
        }
        while ($running = array_filter($running, static fn (Process $worker) => !$worker->isReady())) {
            $running[array_rand($running)]->signal(SIGUSR1);
            if ($victims !== [] && random_int(0, 20) === 0) {
                array_pop($victims)->kill();
            }
            usleep(random_int(0, 4000));
        }
        $victims = [];
        $ends = array_map(static fn (Process $worker) => $worker->answer(), $waiters);
        array_map(static fn (Process $holder) => $holder->answer(), $holders);

        $isFree = $this->worker()->ask("acquire $name 0.1 0") !== null;
        usleep((int) (1e6 * self::SETTLED));
        $left = array_filter(
            $this->contest->server->command('KEYS', "*$name*"),
            static fn (string $key) => !str_ends_with($key, ':fence'),
        );
        $late = max(array_column($ends, 'late'));
        $this->contest->report->line(sprintf(
            "%d random waits of 0 to %.0f ms: %d got the lock, %d ended by their limit, %d were aborted by a signal;\n"
            . "%d more waiters were killed. The latest end was %.1f ms late.\n"
            . 'Afterwards the lock was %s; %d keys but the fence were left.',
            self::WAITERS * self::WAITS,
            1000 * self::LONGEST_WAIT,
            array_sum(array_column($ends, 'held')),
            array_sum(array_column($ends, 'timed out')),
            array_sum(array_column($ends, 'aborted')),
            self::KILLED,
            $late,
            $isFree ? 'free at once' : 'NOT FREE',
            count($left),
        ));
        $this->contest->bars->atMost('1,000 random waits: the latest, ms after its limit', 50, $late, '%.0f');
        $remains = count($left) + ($isFree ? 0 : 1);
        $this->contest->bars->atMost('1,000 random waits: keys left, waiters stuck', 0, $remains, '%.0f');
    }

    private function roundTrips(): float
    {
        $name = $this->contest->name();
        [$holder, $other] = [$this->worker(), $this->worker()];
        $holder->ask("acquire $name 10 0");
        $other->ask("acquire $name 10 0");
        $monitor = Monitor::start($this->contest->server);
        for ($i = 0; $i < 10; $i++) {
            $other->ask("acquire $name 10 0");
        }
        $commands = count($monitor->commands());
        $monitor->close();

        return $commands / 10;
    }
}
