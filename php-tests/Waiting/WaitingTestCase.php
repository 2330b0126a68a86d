<?php

declare(strict_types=1);

namespace RedisLease\Tests\Waiting;

use RedisLease\Tests\Support\Proc;
use RedisLease\Tests\Support\ServerTestCase;
use RedisLease\Tests\Support\Waiter;

use function RedisLease\Tests\Support\eventually;

/** What the tests of waiting ask a server, and how they bring waiters into the order they want. */
abstract class WaitingTestCase extends ServerTestCase
{
    /** A waiter may sleep so long when the wake-up that was meant for it was lost with another. */
    protected const LONGEST_SLICE = 2.5;

    public static function setUpBeforeClass(): void
    {
        if (!function_exists('pcntl_fork')) {
            self::markTestSkipped('PHP was built without pcntl');
        }
        parent::setUpBeforeClass();
    }

    /** @param array<string, mixed> $args */
    protected static function waiter(string $resource = 'order:1', string $prepare = '', array $args = []): Waiter
    {
        return Waiter::start($args['dsn'] ?? self::$server->dsn(), $resource, $args['ttl'] ?? 30.0, $prepare, $args);
    }

    /**
     * Waiters that are blocked in the order given.
     *
     * @return list<Waiter>
     */
    protected static function lineUp(int $count, string $resource = 'order:1', float $wait = 30.0, string $prepare = ''): array
    {
        $waiters = [];
        for ($i = 0; $i < $count; $i++) {
            $waiters[] = self::waiter($resource, $prepare);
        }
        foreach ($waiters as $waiter) {
            $waiter->ready();
        }
        $before = self::blocked();
        foreach ($waiters as $place => $waiter) {
            $waiter->wait($wait);
            self::awaitBlocked($before + $place + 1);
        }

        return $waiters;
    }

    /** @return array<string, string> settings of a worker that itself sends signals */
    protected static function withPosix(): array
    {
        return is_file(ini_get('extension_dir') . '/posix.so') ? ['extension' => 'posix'] : [];
    }

    /** How many clients are blocked on a list. */
    protected static function blocked(): int
    {
        return preg_match('/^blocked_clients:(\d+)/m', self::$server->command('INFO', 'clients'), $found)
            ? (int) $found[1]
            : self::fail('INFO clients does not tell');
    }

    protected static function awaitBlocked(int $count): void
    {
        eventually(static fn () => self::blocked() === $count, "$count blocked clients");
    }

    /** @return list<string> the ids of the clients that are connected, but for the tests' own */
    protected static function clients(string $having = ''): array
    {
        $own = self::$server->command('CLIENT', 'ID');
        preg_match_all("/^id=(\d+) .*$having.*$/m", self::$server->command('CLIENT', 'LIST'), $found);

        return array_values(array_diff($found[1], [(string) $own]));
    }

    /** @return array<string, int> every key of the server, and its PTTL at one moment */
    protected static function keys(): array
    {
        $script = "local all = {} for _, key in ipairs(redis.call('KEYS', '*')) do
            table.insert(all, key) table.insert(all, redis.call('PTTL', key)) end return all";
        $pairs = array_chunk(self::$server->command('EVAL', $script, 0), 2);

        return array_column($pairs, 1, 0);
    }

    /**
     * No wait has left anything: nothing is held or queued, nobody blocks, no key stays for ever. A lock that
     * is kept for a waiter who does not come is free again after a tenth of a second.
     */
    protected static function assertNothingHeldOrQueued(string $message = ''): void
    {
        $left = static fn () => preg_grep('/:(fence|waiter|mark:[0-9a-f]{32})$/', array_keys(self::keys()), PREG_GREP_INVERT);
        self::assertSame([], array_keys(self::keys(), -1, true), "$message: keys without a TTL");
        eventually(static fn () => $left() === [], "$message: no lock and no wake list", 0.5);
        eventually(static fn () => self::blocked() === 0, "$message: no client is blocked", 0.5);
    }

    protected static function wakeList(string $resource = 'order:1'): string
    {
        return "lock~{lock:$resource}:wake";
    }

    /** Seconds in which the server had no CPU although it was ready to run, since it began. */
    protected static function serverDelay(): float
    {
        return Proc::runDelay(self::$server->pid());
    }

    /** A measured figure that a promise is about, for who asks: REDIS_LEASE_FIGURES=1. */
    protected static function figure(string $what, float|int|string ...$values): void
    {
        if (getenv('REDIS_LEASE_FIGURES')) {
            fwrite(STDERR, vsprintf("  $what\n", $values));
        }
    }

    /** @param list<float> $values */
    protected static function percentile(array $values, float $share): float
    {
        sort($values);

        return $values[(int) min(count($values) - 1, floor(count($values) * $share))];
    }
}
