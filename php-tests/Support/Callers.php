<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

/**
 * Processes that take, renew and give back locks all the time and write down each call, while the servers
 * change under them; and what these calls say together. Times are seconds of the monotonic clock.
 */
final class Callers
{
    private const SNIPPET = <<<'PHP'
        $connection = new Connection($args['dsn'], $args['timeout'], $args['timeout']);
        $log = fopen($args['log'], 'w');
        $now = static fn (): float => hrtime(true) / 1e9;
        $call = static function (string $op, DistributedLock $lock, callable $action) use ($log, $now): mixed {
            $begun = $now();
            $token = $lock->token();
            $code = null;
            try {
                $answer = $action();
            } catch (LeaseException $thrown) {
                $answer = (new ReflectionClass($thrown))->getShortName();
                $code = $thrown instanceof ServerException ? $thrown->redisCode : $thrown->getMessage();
            }
            $ended = $now();
            $until = $ended + $lock->remaining();
            $fence = $lock->fence();
            $token = $lock->token() ?? $token;
            fwrite($log, json_encode(
                compact('op', 'begun', 'ended', 'answer', 'code', 'until', 'fence', 'token') + ['name' => $lock->resource()],
            ) . "\n");

            return $answer;
        };
        say('ready');
        hear();
        for ($done = 0; $done < $args['sections'] && !file_exists($args['stop']);) {
            $name = $args['names'][random_int(0, count($args['names']) - 1)];
            $lock = new DistributedLock($name, $args['ttl'], connection: $connection);
            if ($call('acquire', $lock, static fn () => $lock->acquire($args['wait'])) !== true) {
                usleep(5_000);
                continue;
            }
            usleep($args['work']);
            if ($args['renews']) {
                $call('renew', $lock, static fn () => $lock->renew());
            }
            $call('release', $lock, static fn () => $lock->release());
            $done++;
        }
        say($done);
        PHP;

    /** @param list<Worker> $workers */
    private function __construct(private readonly array $workers, private readonly string $directory)
    {
    }

    /**
     * @param list<string> $names of the locks
     * @param float $wait of each acquire()
     * @param int $work microseconds that a lock is held
     * @param int $sections after which each process ends by itself
     */
    public static function start(
        int $number,
        string $dsn,
        array $names,
        float $ttl = 2.0,
        float $wait = 0.0,
        int $work = 5_000,
        bool $renews = true,
        int $sections = PHP_INT_MAX,
        float $timeout = 0.3,
    ): self {
        $directory = Janitor::directory('.callers');
        $args = compact('dsn', 'names', 'ttl', 'wait', 'work', 'renews', 'sections', 'timeout') + ['stop' => "$directory/stop"];
        $start = static fn (int $one) => Worker::start(self::SNIPPET, $args + ['log' => "$directory/log-$one"]);
        $workers = array_map($start, range(1, $number));
        foreach ($workers as $worker) {
            $worker->hear(30.0);
        }
        foreach ($workers as $worker) {
            $worker->say('go');
        }

        return new self($workers, $directory);
    }

    /** Whether one of them still works. */
    public function areBusy(): bool
    {
        foreach ($this->workers as $worker) {
            if (!$worker->hasSaid()) {
                return true;
            }
        }

        return false;
    }

    /**
     * Lets them end, and gives what they wrote down.
     *
     * @return list<array<string, mixed>> in the order of their ends
     */
    public function stop(): array
    {
        touch($this->directory . '/stop');
        foreach ($this->workers as $worker) {
            $worker->hear(40.0);
            $worker->finish();
        }

        return $this->calls();
    }

    /** @return list<array<string, mixed>> what they wrote down so far, in the order of their ends */
    public function calls(): array
    {
        $calls = [];
        foreach (glob($this->directory . '/log-*') as $file) {
            foreach (explode("\n", (string) file_get_contents($file)) as $line) {
                $call = json_decode($line, true);
                if (is_array($call)) {
                    $calls[] = $call;
                }
            }
        }
        usort($calls, static fn (array $one, array $other) => $one['ended'] <=> $other['ended']);

        return $calls;
    }

    /**
     * The grants of fresh locks that ended in this span of time.
     *
     * @param list<array<string, mixed>> $calls
     * @return list<array<string, mixed>>
     */
    public static function grants(array $calls, float $from = 0.0, float $to = INF): array
    {
        return array_values(array_filter($calls, static fn (array $call) => $call['op'] === 'acquire'
            && $call['answer'] === true && $call['ended'] >= $from && $call['ended'] <= $to));
    }

    /**
     * The calls that threw.
     *
     * @param list<array<string, mixed>> $calls
     * @return array<string, int> "operation exception: code or message" => how often
     */
    public static function faults(array $calls): array
    {
        $faults = [];
        foreach ($calls as $call) {
            if (is_string($call['answer'])) {
                $what = "{$call['op']} {$call['answer']}: {$call['code']}";
                $faults[$what] = ($faults[$what] ?? 0) + 1;
            }
        }

        return $faults;
    }

    /**
     * Pairs of owners that each could rely on the same lock at one moment. A grant from the span $lost may
     * have been lost with the server that gave it, so the next owner is none too many.
     *
     * @param list<array<string, mixed>> $calls
     * @param array{float, float} $lost
     * @return list<string>
     */
    public static function doubleOwners(array $calls, array $lost = [0.0, 0.0]): array
    {
        $spans = $double = [];
        foreach ($calls as $call) {
            $key = $call['token'] ?? '';
            $end = min($spans[$call['name']][$key]['until'] ?? 0.0, $call['begun']);
            if ($call['op'] === 'acquire' && $call['answer'] === true) {
                $spans[$call['name']][$key] = ['from' => $call['ended'], 'until' => $call['until']];
            } elseif ($call['op'] === 'renew' && $call['answer'] === true) {
                $spans[$call['name']][$key]['until'] = $call['until'];
            } elseif (($call['op'] === 'release' || $call['answer'] === false) && isset($spans[$call['name']][$key])) {
                $spans[$call['name']][$key]['until'] = $end;
            }
        }
        foreach ($spans as $name => $ofName) {
            $last = null;
            uasort($ofName, static fn (array $one, array $other) => $one['from'] <=> $other['from']);
            foreach ($ofName as $token => $span) {
                $isLost = $last !== null && $last['from'] >= $lost[0] && $last['from'] <= $lost[1];
                if ($last !== null && $span['from'] < $last['until'] && !$isLost) {
                    $double[] = sprintf('%s: until %.6f, and %s from %.6f', $name, $last['until'], $token, $span['from']);
                }
                if ($last === null || $span['until'] > $last['until']) {
                    $last = $span;
                }
            }
        }

        return $double;
    }

    /**
     * Grants whose fence is not higher than that of one known before they were asked for.
     *
     * @param list<array<string, mixed>> $calls
     * @return list<string>
     */
    public static function fencesThatDoNotRise(array $calls): array
    {
        $faults = $known = [];
        foreach (self::grants($calls) as $grant) {
            foreach ($known[$grant['name']] ?? [] as $earlier) {
                if ($earlier['ended'] < $grant['begun'] && $earlier['fence'] >= $grant['fence']) {
                    $faults[] = "{$grant['name']}: {$grant['fence']} after {$earlier['fence']}";
                }
            }
            // Each call knows the last few: any before them is covered by these.
            $known[$grant['name']] = array_slice([...$known[$grant['name']] ?? [], $grant], -20);
        }

        return $faults;
    }
}
