<?php

declare(strict_types=1);

namespace RedisLease\Tests\Quorum;

use RedisLease\Tests\Support\KeySlot;
use RedisLease\Tests\Support\Outcome;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\Waiter;

use function RedisLease\Tests\Support\eventually;

/** Forks, the ends of requests, and waits, with several nodes. */
final class LifecycleTest extends QuorumTestCase
{
    public static function setUpBeforeClass(): void
    {
        if (!function_exists('pcntl_fork')) {
            self::markTestSkipped('PHP was built without pcntl');
        }
        parent::setUpBeforeClass();
    }

    public function testAForkedChildNeverUsesItsParentsLinksAndItsParentsLockStays(): void
    {
        $ends = [
            'exit' => 'exit;',
            'releasing' => '$lock->release(); exit;',
            'a lock of its own' => '$own = new DistributedLock("own", 30.0, connection: $connection);
                $own->acquire() && $own->renew() && $own->release() || exit(1); exit;',
            'the same lock' => 'exit($lock->acquire() || $lock->isHeld() || $lock->token() !== null ? 1 : 0);',
            'closing' => '$connection->close(); exit;',
            'ping' => 'exit(array_filter($connection->ping(), "is_string") === [] ? 0 : 1);',
            'an error' => 'str_repeat("x", PHP_INT_MAX >> 8);',
        ];
        foreach ($ends as $how => $end) {
            $worker = self::worker(<<<PHP
                \$lock->acquire();
                ini_set('display_errors', '0');
                if ((\$child = pcntl_fork()) === 0) {
                    $end
                }
                // Both at once: on a shared link they would read each other's answers.
                for (\$i = 0; \$i < 200; \$i++) {
                    if (!\$lock->renew() || \$lock->owner() !== \$lock->token()) {
                        say('lost');
                    }
                }
                pcntl_waitpid(\$child, \$status);
                say([pcntl_wifexited(\$status), pcntl_wexitstatus(\$status), \$lock->token()]);
                hear();
                say([\$lock->isHeld(), \$lock->renew(), \$lock->release()]);
                PHP);
            [$isExited, $code, $token] = $worker->hear();
            self::assertTrue($isExited, $how);
            self::assertSame($how === 'an error' ? 255 : 0, $code, $how);
            self::assertSame([$token, $token, $token], self::copies(), $how);
            $worker->say();
            self::assertSame([true, true, true], $worker->hear(), $how);
            $worker->wait();
            self::assertNothingHeldAnywhere($how);
        }
    }

    public function testHoweverARequestEndsItsLocksAreFreeOnAllNodes(): void
    {
        $ends = [
            'return' => '', 'exit' => 'exit(3);', 'an exception' => 'throw new RuntimeException("boom");',
            'a fatal error' => 'ini_set("memory_limit", "4M"); str_repeat("x", 100_000_000);',
            'the time limit' => 'set_time_limit(1); for (;;);',
        ];
        $workers = [];
        foreach ($ends as $how => $end) {
            $workers[$how] = self::worker(<<<PHP
                for (\$i = 0; \$i < 5; \$i++) {
                    \$locks[] = \$one = new DistributedLock("\$args[resource]:\$i", 30.0, connection: \$connection);
                    \$one->acquire();
                }
                say('held');
                hear();
                ini_set('display_errors', '0');
                $end
                PHP, ['resource' => $how]);
            self::assertSame('held', $workers[$how]->hear());
            self::assertNotNull(self::copies("$how:4")[0] ?? self::copies("$how:4")[1]);
        }
        foreach ($workers as $how => $worker) {
            $worker->say();
            $worker->wait();
            self::assertSame([], preg_grep("/^lock:$how/", array_keys(self::keys(0))), "$how: freed before the process ended");
        }
        self::assertNothingHeldAnywhere();
    }

    public function testTheEndOfARequestWithAHungNodeTakesNoLongerThanACommand(): void
    {
        $worker = self::worker(<<<'PHP'
            $connection->ping();
            $lock->acquire();
            say('held');
            hear();
            PHP);
        $worker->hear();
        self::$servers[1]->pause();
        $begun = microtime(true);
        $worker->say();
        $worker->wait();
        self::assertLessThan(self::COMMAND + self::NOISE + 0.1, microtime(true) - $begun);
        self::mend();
        self::assertNothingHeldAnywhere();
    }

    public function testAReleaseWakesTheWaiter(): void
    {
        $holder = $this->lock(connection: $this->warm());
        self::assertTrue($holder->acquire());
        $waiter = Waiter::start(self::dsn(), 'order:1')->ready()->wait(20.0);
        self::awaitQueued();
        self::assertTrue($holder->release());
        $outcome = $waiter->outcome(20.0);
        self::assertTrue($outcome->answer);
        self::assertTrue($waiter->release());
        $waiter->end();
        self::assertNothingHeldAnywhere();
    }

    public function testAHandOffWorksWithTheHomeNodeHungOrDead(): void
    {
        foreach (['pause', 'kill'] as $fate) {
            $connection = $this->warm();
            $holder = $this->lock(connection: $connection);
            self::assertTrue($holder->acquire());
            $home = KeySlot::of('lock:order:1') % static::NODES;
            self::$servers[$home]->$fate();
            $timeouts = ['connectTimeout' => self::CONNECT, 'commandTimeout' => self::COMMAND];
            $waiter = Waiter::start(self::dsn(), 'order:1', prepare: '$connection->ping();', args: $timeouts);
            $waiter->ready()->wait(20.0);
            self::awaitQueued();
            self::assertTrue($holder->release());
            $released = Outcome::now();
            $outcome = $waiter->outcome(20.0);
            self::assertTrue($outcome->answer, $fate);
            self::assertLessThan(1.0, $outcome->at - $released, "$fate: without the end of a slice");
            self::assertTrue($waiter->release(), $fate);
            $waiter->end();
            $this->tearDown();
            $this->setUp();
        }
    }

    public function testAWaitGoesOnWhenItsHomeNodeIsKilledOrHangsAndEndsWithTheLock(): void
    {
        foreach (['kill', 'pause'] as $fate) {
            $holder = $this->lock(connection: $this->warm());
            self::assertTrue($holder->acquire());
            $waiter = Waiter::start(self::dsn(), 'order:1', args: ['connectTimeout' => 0.3, 'commandTimeout' => 0.3]);
            $waiter->ready()->wait(20.0);
            $home = self::awaitQueued();
            $home->$fate();
            self::assertTrue($holder->release(), $fate);
            $outcome = $waiter->outcome(20.0);
            self::assertTrue($outcome->answer, $fate);
            // A lost wake-up costs a slice of the wait.
            self::assertLessThan(2.0 + 1.0, $outcome->seconds, $fate);
            self::assertTrue($waiter->release(), $fate);
            $waiter->end();
            $this->tearDown();
            $this->setUp();
        }
    }

    public function testAWaitThroughAnOutageOfTheMajorityEndsWithTheLock(): void
    {
        $waiter = Waiter::start(self::dsn(), 'order:1', args: ['connectTimeout' => 0.2, 'commandTimeout' => 0.2])->ready();
        self::$servers[0]->kill();
        self::$servers[1]->pause();
        $waiter->wait(20.0);
        $until = microtime(true) + 0.5;
        eventually(static fn () => microtime(true) > $until, 'a while');
        self::mend();
        self::assertTrue($waiter->outcome(20.0)->answer);
        self::assertTrue($waiter->release());
        $waiter->end();
        self::assertNothingHeldAnywhere();
    }

    public function testPingShowsEveryNodeWithItsTimeOrItsOwnError(): void
    {
        $connection = $this->warm();
        $names = array_map(static fn (RedisServer $server) => $server->socket(), self::$servers);
        self::$servers[0]->pause();
        self::$servers[2]->kill();
        $answers = $connection->ping();

        self::assertSame($names, array_keys($answers));
        self::assertMatchesRegularExpression('/no answer/', $answers[$names[0]]);
        self::assertIsFloat($answers[$names[1]]);
        self::assertGreaterThan(0.0, $answers[$names[1]]);
        self::assertLessThan(self::COMMAND, $answers[$names[1]]);
        self::assertStringContainsString('cannot connect', $answers[$names[2]]);
        self::mend();
        self::drain($connection);
    }

    /** The node on whose wake list somebody waits. */
    private static function awaitQueued(): RedisServer
    {
        return eventually(static function (): ?RedisServer {
            foreach (self::$servers as $server) {
                $isAnswering = $server->isRunning() && !str_contains((string) file_get_contents("/proc/{$server->pid()}/stat"), ') T ');
                if ($isAnswering && preg_match('/^blocked_clients:[1-9]/m', $server->command('INFO', 'clients'))) {
                    return $server;
                }
            }

            return null;
        }, 'somebody waits');
    }
}
