<?php

/*
 * One worker of the torture run: takes and gives back locks in every way there is, and writes down each call, before
 * and after, for the Checker. It may be killed, stopped and continued at any moment.
 *
 * Arguments: a JSON object with seed, directory, resources, dsns, timeout, longest (TTL, ms). It ends when the file "stop" is there.
 */

declare(strict_types=1);

namespace RedisLease\Tests\torture;

use DistributedLock;
use Random\Engine\Mt19937;
use Random\Randomizer;
use RedisLease\Connection;
use RedisLease\LeaseException;
use RedisLease\OutcomeUnknownException;
use Throwable;

final class Worker
{
    private Randomizer $random;
    /** @var resource */
    private $log;
    /** @var list<DistributedLock> held on purpose until the process ends */
    private array $kept = [];

    public function __construct(private readonly array $args)
    {
        $this->random = new Randomizer(new Mt19937($args['seed']));
        $this->openLog();
    }

    public function run(): void
    {
        while (!file_exists($this->args['directory'] . '/stop')) {
            $this->once();
            if ($this->kept !== [] && $this->random->getInt(0, 3) === 0) {
                break; // The end of the process gives back what is kept; another takes its place.
            }
        }
        foreach ($this->kept as $lock) {
            $this->note(['e' => 'ends', 'r' => $lock->resource(), 'token' => $lock->token()]);
        }
    }

    private function once(): void
    {
        $resource = $this->pick($this->args['resources']);
        // Most are short, so that many end by themselves.
        $ttl = $this->random->getInt(50, $this->random->getInt(0, 2) === 0 ? $this->args['longest'] : 400) / 1000;
        $timeout = $this->args['timeout'];
        $connection = new Connection($this->pick($this->args['dsns']), $timeout, $timeout);
        $lock = new DistributedLock($resource, $ttl, connection: $connection);
        $wait = $this->pick([0.0, 0.0, 0.05, 0.3, 1.0]);
        if ($this->random->getInt(0, 5) === 0) {
            $this->section($lock, $ttl, $wait);
        } elseif ($this->acquire($lock, $ttl, $wait)) {
            $this->hold($lock, $ttl, $connection);
        } elseif ($wait === 0.0) {
            usleep($this->random->getInt(0, 20_000));
        }
    }

    private function acquire(DistributedLock $lock, float $ttl, float $wait): bool
    {
        $answer = $this->call('acquire', $lock, $ttl, $wait, static fn () => $lock->acquire($wait));
        if ($answer === true) {
            $this->confirmed('grant', $lock, $ttl);
        } elseif ($answer instanceof OutcomeUnknownException) {
            $this->recover($answer, $lock, $ttl);
        }
        if ($answer !== true && $lock->isHeld()) {
            $this->note(['e' => 'bad', 'what' => 'holds after ' . self::shown($answer)]);
        }

        return $answer === true;
    }

    /** The lock may or may not be ours: give it back with the token, take it up, or leave it to the TTL. */
    private function recover(OutcomeUnknownException $unknown, DistributedLock $lock, float $ttl): void
    {
        $timeout = $this->args['timeout'];
        $connection = new Connection($this->pick($this->args['dsns']), $timeout, $timeout);
        $heir = DistributedLock::restore($unknown->resource, $unknown->token, $ttl, $connection);
        match ($this->random->getInt(0, 3)) {
            0 => $this->release($heir, $ttl),
            1 => $this->release($lock, $ttl),
            2 => $this->renew($heir, $ttl) && $this->release($heir, $ttl),
            3 => $this->kept[] = $lock,
        };
    }

    private function hold(DistributedLock $lock, float $ttl, Connection $connection): void
    {
        for ($steps = $this->random->getInt(0, 4); $steps > 0; $steps--) {
            switch ($this->random->getInt(0, 7)) {
                case 0:
                    usleep((int) ($ttl * $this->random->getInt(0, 1300) * 1000)); // at times past the lease
                    break;
                case 1:
                case 2:
                    $this->renew($lock, $ttl);
                    break;
                case 3:
                    $this->acquire($lock, $ttl, 0.0);
                    break;
                case 4:
                    $this->fork($lock);
                    break;
                default:
                    $this->write($lock);
                    usleep($this->random->getInt(0, 5_000));
            }
        }
        $this->write($lock);
        switch ($this->random->getInt(0, 9)) {
            case 0:
                $this->note(['e' => 'ends', 'r' => $lock->resource(), 'token' => $lock->token()]);
                break; // The handle is dropped.
            case 1:
                $this->kept[] = $lock;
                break;
            case 2:
                $token = $lock->detach();
                if ($token !== null) {
                    $heir = DistributedLock::restore($lock->resource(), $token, $ttl, $connection);
                    $this->renew($heir, $ttl);
                    $this->release($heir, $ttl);
                }
                break;
            case 3:
                $lock->detach(); // Left to the TTL.
                break;
            default:
                $answer = $this->release($lock, $ttl);
                if ($answer instanceof LeaseException && $this->random->getInt(0, 1) === 0) {
                    $this->release($lock, $ttl);
                }
        }
    }

    private function section(DistributedLock $lock, float $ttl, float $wait): void
    {
        $token = null;
        // The section's own time is no part of the call's.
        $begun = $this->begin('synchronized', $lock, $ttl, $wait, 2);
        $inside = 0;
        try {
            $lock->synchronized(function (DistributedLock $held) use ($ttl, &$token, &$inside): void {
                $entered = hrtime(true);
                $token = $held->token();
                $this->confirmed('grant', $held, $ttl);
                $this->write($held);
                usleep($this->random->getInt(0, (int) ($ttl * 700_000)));
                $this->note(['e' => 'ends', 'r' => $held->resource(), 'token' => $token]);
                $inside = hrtime(true) - $entered;
            }, $wait);
            $answer = true;
        } catch (Throwable $caught) {
            $answer = $caught;
        }
        $this->end($begun, $lock, $answer, $token, $inside);
        if ($answer instanceof OutcomeUnknownException) {
            $this->recover($answer, $lock, $ttl);
        }
    }

    private function renew(DistributedLock $lock, float $ttl): bool
    {
        $answer = $this->call('renew', $lock, $ttl, 0.0, static fn () => $lock->renew());
        if ($answer === true) {
            $this->confirmed('renewed', $lock, $ttl);
        }

        return $answer === true;
    }

    private function release(DistributedLock $lock, float $ttl): mixed
    {
        return $this->call('release', $lock, $ttl, 0.0, static fn () => $lock->release());
    }

    /** A child that inherits a held lock has no part in it, and may take one of its own. */
    private function fork(DistributedLock $lock): void
    {
        $child = pcntl_fork();
        if ($child !== 0) {
            pcntl_waitpid($child, $status);
            return;
        }
        $this->openLog();
        $this->random = new Randomizer(new Mt19937($this->args['seed'] + 7919));
        $this->kept = [];
        if ($lock->isHeld() || $lock->fence() !== null || $lock->token() !== null) {
            $this->note(['e' => 'bad', 'what' => "a child holds its parent's lock"]);
        }
        $timeout = $this->args['timeout'];
        $connection = new Connection($this->pick($this->args['dsns']), $timeout, $timeout);
        $own = new DistributedLock($this->pick($this->args['resources']), 0.3, connection: $connection);
        match ($this->random->getInt(0, 2)) {
            0 => null,
            1 => $this->acquire($lock, 0.5, 0.0) && $this->write($lock),
            2 => $this->acquire($own, 0.3, 0.1) && $this->write($own),
        };
        foreach ([$lock, $own] as $handle) {
            $this->note(['e' => 'ends', 'r' => $handle->resource(), 'token' => $handle->token()]);
        }
        exit;
    }

    /** A write that the written resource guards itself: it takes none with a fence lower than its last. */
    private function write(DistributedLock $lock): void
    {
        $fence = $lock->fence();
        if ($fence === null) {
            return;
        }
        $register = fopen($this->args['directory'] . '/register-' . $lock->resource(), 'c+');
        flock($register, LOCK_EX);
        [$number, $last] = array_map('intval', explode(' ', stream_get_contents($register) ?: '0 0'));
        $accepted = $fence >= $last;
        rewind($register);
        // One write of one length: a worker that is killed here leaves the old or the new text.
        fwrite($register, sprintf('%010d %020d', $number + 1, $accepted ? $fence : $last));
        $this->note([
            'e' => 'write', 'r' => $lock->resource(), 'number' => $number, 'fence' => $fence, 'last' => $last,
            'accepted' => $accepted, 'token' => $lock->token(),
        ]);
        fclose($register);
    }

    private function call(string $operation, DistributedLock $lock, float $ttl, float $wait, callable $action): mixed
    {
        $token = $lock->token();
        $begun = $this->begin($operation, $lock, $ttl, $wait, 1);
        try {
            $answer = $action();
        } catch (Throwable $caught) {
            $answer = $caught;
        }
        $token = match (true) {
            $answer instanceof OutcomeUnknownException => $answer->token,
            $operation === 'acquire' => $lock->token() ?? $token,
            default => $token,
        };
        $this->end($begun, $lock, $answer, $token);

        return $answer;
    }

    private function begin(string $operation, DistributedLock $lock, float $ttl, float $wait, int $commands): array
    {
        static $number = 0;
        $call = ['op' => $operation, 'id' => ++$number, 'r' => $lock->resource(), 'ttl' => $ttl, 'token' => $lock->token()];
        $delay = self::runDelay();
        $limit = $wait + 2 * $this->args['timeout'] * $commands;
        $t = $this->note(['e' => 'begin'] + $call + ['limit' => $limit]);

        return $call + ['t0' => $t, 'delay' => $delay, 'limit' => $limit];
    }

    private function end(array $begun, DistributedLock $lock, mixed $answer, ?string $token, int $without = 0): void
    {
        $t = hrtime(true);
        $delay = self::runDelay() - $begun['delay'];
        $this->note([
            'e' => 'end', 't' => $t, 'token' => $token, 'answer' => self::shown($answer),
            'took' => $t - $begun['t0'] - $without, 'delay' => $delay,
        ] + $begun);
    }

    /** Redis has confirmed the lease: until when may it be relied on? Never later than what the extension says. */
    private function confirmed(string $event, DistributedLock $lock, float $ttl): void
    {
        $now = hrtime(true);
        $until = $now + (int) ($lock->remaining() * 1e9);
        $this->note([
            'e' => $event, 't' => $now, 'r' => $lock->resource(), 'token' => $lock->token(), 'fence' => $lock->fence(),
            'until' => $until, 'ttl' => $ttl,
        ]);
    }

    /** Writes it down, and gives the time it wrote. */
    private function note(array $event): int
    {
        $event += ['t' => hrtime(true)];
        fwrite($this->log, json_encode($event + ['pid' => getmypid()], JSON_THROW_ON_ERROR) . "\n");

        return $event['t'];
    }

    private function openLog(): void
    {
        $this->log = fopen($this->args['directory'] . '/events-' . getmypid() . '-' . hrtime(true), 'a');
    }

    private function pick(array $of): mixed
    {
        return $of[$this->random->getInt(0, count($of) - 1)];
    }

    private static function shown(mixed $answer): bool|string
    {
        return $answer instanceof Throwable ? (new \ReflectionClass($answer))->getShortName() : $answer;
    }

    /** Nanoseconds in which this process was ready to run and had no CPU. */
    private static function runDelay(): int
    {
        $counts = @file_get_contents('/proc/self/schedstat');

        return $counts === false ? 0 : (int) explode(' ', $counts)[1];
    }
}

(new Worker(json_decode(base64_decode($argv[1]), true, 8, JSON_THROW_ON_ERROR)))->run();
