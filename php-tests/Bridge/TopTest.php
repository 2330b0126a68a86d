<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge;

use DistributedLock;
use InvalidArgumentException;
use OverflowException;
use Predis\Client;
use Predis\PredisException;
use Redis;
use RedisException;
use RedisLease\Bridge\Inspect\Inspector;
use RedisLease\Bridge\Inspect\Top;
use RedisLease\Bridge\LeaseFactory;
use RedisLease\Connection;
use RedisLease\Metrics;
use RedisLease\Tests\Bridge\Database\Needs;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\ServerTestCase;
use RedisLease\Tests\Support\Waiter;
use RedisLease\Tests\Support\WebServer;

use function RedisLease\Tests\Support\eventually;

/** What lease:top shows to whoever looks at the locks of a running system. */
final class TopTest extends ServerTestCase
{
    public static function setUpBeforeClass(): void
    {
        Needs::module('redis', 'php-redis');
        Needs::module('mbstring', 'php-mbstring');
        Needs::library('php-predis', 'Predis/autoload.php');
        parent::setUpBeforeClass();
    }

    private function top(string $beginning = '', ?string $metrics = null, ?object $client = null): Top
    {
        if ($client === null) {
            $client = new Redis();
            $client->connect(self::$server->socket());
        }

        return new Top(new Inspector(new LeaseFactory($this->connection()), $client), $beginning, $metrics);
    }

    /** The row of a resource, its columns without the blanks between them. */
    private static function row(string $text, string $resource): array
    {
        self::assertSame(1, preg_match('/^' . preg_quote($resource, '/') . '  .*$/m', $text, $found), $text);

        return preg_split('/ {2,}/', $found[0]);
    }

    private function waiterFor(string $resource): Waiter
    {
        $waiter = Waiter::start(self::$server->dsn(), $resource)->ready()->wait();
        $waiting = fn () => str_contains(self::$server->command('CLIENT', 'LIST'), 'flags=b')
            && self::$server->command('EXISTS', "lock~{lock:$resource}:waiter");
        eventually($waiting, 'it waits on Redis');

        return $waiter;
    }

    public function testItShowsOwnerFenceRemainingTimeAndWaiters(): void
    {
        $predis = new Client(['scheme' => 'unix', 'path' => self::$server->socket()]);
        self::assertStringContainsString('0 locks held, 0 of them waited for; 0 clients wait', $this->top()->look(20));
        $this->heldLock('invoice:1')->detach();
        $tops = [$this->top(), $this->top(client: $predis)];
        foreach ($tops as $top) {
            self::assertStringContainsString('1 lock held, 0 of them', $top->look(20));
        }
        $lock = $this->heldLock('order:1', 50.0);
        $waiter = $this->waiterFor('order:1');
        foreach ($tops as $top) {
            $text = $top->look(20);
            self::assertStringContainsString('2 locks held, 1 of them waited for; 1 client waits', $text);
            [, $owner, $fence, $remaining, $waiters, $changes] = self::row($text, 'order:1');
            self::assertSame([$lock->token(), (string) $lock->fence(), 'yes', '0'], [$owner, $fence, $waiters, $changes]);
            self::assertMatchesRegularExpression('/^(4\d\.\d|50\.0) s$/', $remaining);
            self::assertSame('-', self::row($text, 'invoice:1')[4]);
            self::assertLessThan(strpos($text, 'invoice:1'), strpos($text, 'order:1'), 'first who is waited for, then who was met more often');
        }
        self::assertStringNotContainsString('order:1', $this->top('invoice:')->look(20));
        $lock->release();
        self::assertTrue($waiter->outcome()->answer);
        $waiter->end();
    }

    public function testWhatWasMetStaysAndTheHottestComesFirst(): void
    {
        $top = $this->top();
        $this->heldLock('quiet')->detach();
        foreach ([1, 2, 3] as $time) {
            $hot = $this->heldLock('hot');
            $text = $top->look(20);
            $hot->release();
        }
        self::assertSame('2', self::row($text, 'hot')[5], 'it has changed hands twice');
        self::assertLessThan(strpos($text, 'quiet'), strpos($text, 'hot'));

        self::$server->command('DEL', 'lock:quiet');
        $text = $top->look(1);
        self::assertSame(['hot', '(free)', '-', '-', '-', '2'], self::row($text, 'hot'));
        self::assertStringContainsString('and 1 more', $text);
    }

    public function testAClientThatMayNotAskForClientsShowsTheRest(): void
    {
        self::$server->command('ACL', 'SETUSER', 'guest', 'on', '>secret', '~*', '+scan', '+get', '+pttl');
        $client = new Redis();
        $client->connect(self::$server->socket());
        $client->auth(['guest', 'secret']);
        $this->heldLock('order:1')->detach();

        self::assertStringContainsString("1 lock held, 0 of them waited for.\n", $this->top(client: $client)->look(20));
    }

    public function testTheRatesComeFromThePageThatPrometheusReads(): void
    {
        $page = Janitor::path('.prom');
        $write = static fn (int $acquired, int $contended): int|false => file_put_contents($page, <<<TEXT
            # HELP redis_lease_acquires_total Calls of acquire().
            # TYPE redis_lease_acquires_total counter
            redis_lease_acquires_total{outcome="acquired"} $acquired
            redis_lease_acquires_total{outcome="contended"} $contended
            redis_lease_acquires_total{outcome="unknown"} 3
            redis_lease_prefix_contention_total{prefix="order:\"a\""} $contended

            TEXT);
        $write(100, 50);
        $top = $this->top(metrics: $page);
        $before = hrtime(true);
        self::assertStringNotContainsString('acquisitions/s', $top->look(20), 'a rate takes two looks');
        $write(1_000_100, 50);
        usleep(50_000);
        self::assertSame(1, preg_match('~acquisitions/s: acquired (\d+)$~m', $text = $top->look(20), $found), $text);
        $seconds = (hrtime(true) - $before) / 1e9;
        self::assertGreaterThanOrEqual((int) (1_000_000 / $seconds), (int) $found[1]);
        self::assertLessThanOrEqual(1_000_000 / 0.05, (int) $found[1]);

        $write(1_000_100, 1_050);
        self::assertMatchesRegularExpression('~acquisitions/s: contended \d+\ncontended/s, by prefix: order:"a" \d+\n~', $top->look(20));
        $write(5, 5);
        self::assertStringNotContainsString('/s', $top->look(20), 'a worker that begins anew counts from zero');
        unlink($page);
        self::assertStringContainsString("$page cannot be read", $top->look(20));
    }

    public function testItKnowsTheCountersAsTheExtensionHasThem(): void
    {
        $page = Janitor::path('.prom');
        file_put_contents($page, Metrics::prometheus());
        $tops = [$this->top(), $this->top(metrics: $page)];
        foreach ($tops as $top) {
            $top->look(20);
        }
        $this->heldLock('order:1')->release();
        file_put_contents($page, Metrics::prometheus());
        foreach ($tops as $top) {
            self::assertMatchesRegularExpression('~acquisitions/s: acquired \d~', $top->look(20));
        }
    }

    public function testTheRatesOfAWebServersWorkersComeFromItsPage(): void
    {
        $code = '$lock = new DistributedLock("order:1"); $lock->acquire() && $lock->release(); putenv("METRICS_TOKEN=secret");';
        $page = var_export(dirname(__DIR__, 2) . '/examples/metrics.php', true);
        $web = WebServer::start("$code require $page;", ['redis_lease.dsn' => self::$server->dsn()]);
        $top = $this->top(metrics: "http://127.0.0.1:{$web->port}/");
        self::assertStringContainsString('cannot be read', $top->look(20), 'it takes the token');
        putenv('METRICS_TOKEN=secret');
        try {
            $top->look(20);
            self::assertMatchesRegularExpression('~acquisitions/s: acquired \d~', $top->look(20));
        } finally {
            putenv('METRICS_TOKEN');
            $web->stop();
        }
    }

    public function testWithoutCountersThereAreNoRates(): void
    {
        $worker = self::worker(<<<'PHP'
            require $args['bridge'];
            $outcomes = new RedisLease\Bridge\Inspect\Outcomes(null);
            say([$outcomes->rates(), $outcomes->rates(), $outcomes->trouble()]);
            PHP, ['bridge' => dirname(__DIR__, 2) . '/bridge/autoload.php'], ['redis_lease.metrics' => '0']);
        self::assertSame([null, null, null], $worker->hear());
        $worker->finish();
    }

    public function testItLooksAgainUntilItIsStopped(): void
    {
        $shown = [];
        $write = static function (string $text) use (&$shown): void {
            $shown[] = $text;
            if (count($shown) === 3) {
                throw new OverflowException('stopped');
            }
        };
        try {
            $this->top()->show($write, '0.1', '20', false, true);
            self::fail('it goes on until it is stopped');
        } catch (OverflowException) {
            self::assertStringStartsWith("\e[H\e[J", $shown[2]);
        }
        $this->top()->show(static function (string $text) use (&$shown): void {
            $shown = [$text];
        }, '2', '20', true, true);
        self::assertStringStartsNotWith("\e", $shown[0]);
    }

    public function testAServerThatRestartsIsShownAsAwayAndItGoesOn(): void
    {
        foreach (['phpredis', 'Predis'] as $which) {
            $server = RedisServer::start();
            $client = new Client(['scheme' => 'unix', 'path' => $server->socket(), 'database' => 1]);
            if ($which === 'phpredis') {
                $client = new Redis();
                $client->connect($server->socket());
                $client->select(1);
            }
            $connection = new Connection($server->dsn() . '?db=1', 5.0, 5.0);
            $hold = static function (string $name) use ($connection): void {
                $lock = new DistributedLock($name, 30.0, connection: $connection);
                self::assertTrue($lock->acquire());
                $lock->detach();
            };
            $hold('before');
            $top = new Top(new Inspector(new LeaseFactory($connection), $client));
            $away = 0;
            $write = static function (string $text) use ($server, $hold, &$away): void {
                if (str_contains($text, 'before') && $away === 0) {
                    $server->kill();
                } elseif (str_contains($text, 'Redis does not answer: ')) {
                    self::assertSame(1, substr_count($text, "\n"));
                    if (++$away === 2) {
                        $server->restart(false);
                        $hold('after');
                    }
                } elseif (str_contains($text, 'after')) {
                    throw new OverflowException('stopped');
                }
                $away < 100 || self::fail('it does not come back');
            };
            try {
                $top->show($write, '0.1', '20', false, false);
            } catch (OverflowException) {
                self::assertGreaterThanOrEqual(2, $away, $which);
            }
            $server->stop();
            // What is wrong from the beginning is a mistake.
            try {
                $top->show(static fn () => self::fail('nothing is seen'), '0.1', '20', false, false);
                self::fail($which);
            } catch (RedisException | PredisException) {
            }
        }
    }

    public function testItFitsIntoATerminal(): void
    {
        for ($number = 1; $number <= 30; $number++) {
            $this->heldLock("order:$number:" . str_repeat('long', 1_000))->detach();
        }
        $this->heldLock('order:31')->detach();
        $shown = null;
        $write = static function (string $text) use (&$shown): void {
            $shown = $text;
            throw new OverflowException('stopped');
        };
        foreach ([[80, 24], [40, 6], [200, 40], [10, 1]] as [$columns, $rows]) {
            putenv("COLUMNS=$columns");
            putenv("LINES=$rows");
            try {
                $this->top()->show($write, '2', '20', false, true);
            } catch (OverflowException) {
            } finally {
                putenv('COLUMNS');
                putenv('LINES');
            }
            $lines = explode("\n", substr($shown, strlen("\e[H\e[J")));
            self::assertSame('', array_pop($lines));
            self::assertLessThanOrEqual($columns, max(array_map(mb_strwidth(...), $lines)), $shown);
            self::assertLessThan(max($rows, 6), count($lines), $shown);
            if ($columns >= 80) {
                self::assertMatchesRegularExpression('/^RESOURCE .* CHANGES$/m', $shown);
                $row = '/^order:\d+:long.*… +[0-9a-f]{8}.* \d{16} +\d\d\.\d s +- +0$/m';
                self::assertMatchesRegularExpression($row, $shown);
            }
        }
        self::assertStringContainsString(' ' . self::stored('order:31') . ' ', $this->top('order:31')->look(20, 100));
    }

    public function testOptionsOutOfRangeAreRefused(): void
    {
        foreach ([['0', '20'], ['x', '20'], ['3601', '20'], ['2', '0'], ['2', 'all']] as [$interval, $limit]) {
            try {
                $this->top()->show(static fn () => self::fail('it looks'), $interval, $limit, true, false);
                self::fail("$interval, $limit");
            } catch (InvalidArgumentException $refusal) {
                self::assertMatchesRegularExpression('/--(interval|limit) must be/', $refusal->getMessage());
            }
        }
    }
}
