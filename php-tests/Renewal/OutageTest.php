<?php

declare(strict_types=1);

namespace RedisLease\Tests\Renewal;

use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\Monitor;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\Worker;

use function RedisLease\Tests\Support\eventually;

/** Redis goes away under a lease that is renewed: shorter than the validity costs nothing, longer ends it then, and not later. */
final class OutageTest extends RenewalTestCase
{
    /** Watches a lock until it is lost or the test says so, and tells when it saw what. */
    private const WATCH = <<<'PHP'
        $lock = $new($args['resource'], $args['ttl'], $args['abort'] ?? false, new Connection($args['to'], 0.3, 0.3));
        $lock->acquire();
        stream_set_blocking(STDIN, false);
        $end = 0.0;
        $thrown = null;
        say('held');
        try {
            for ($i = 0; ; $i++) {
                $before = $now();
                $end = max($end, $before + $lock->remaining());
                if (!$lock->isHeld() && !($args['abort'] ?? false)) {
                    break;
                }
                if ($i % 100 === 0) {
                    $delay(true);
                    if (fgets(STDIN) !== false) {
                        break;
                    }
                }
            }
        } catch (LeaseLostException $lost) {
            $thrown = [$now(), $lost->loss, $lost->resource, $lost->getMessage(), $lost->result];
        }
        say(['held' => $lock->isHeld(), 'at' => $now(), 'end' => $end, 'thrown' => $thrown, 'loss' => $lock->loss(), 'delay' => $delay(), 'remaining' => $lock->remaining()]);
        stream_set_blocking(STDIN, true);
        hear();
        say($lock->release());
        PHP;

    private static function watch(string $to, float $ttl, bool $abort = false, string $resource = 'order:1'): Worker
    {
        $worker = self::renewing(self::WATCH, compact('to', 'ttl', 'abort', 'resource'));
        $worker->hear();

        return $worker;
    }

    /** @param list<string> $resources */
    private static function awaitRenewals(Monitor $monitor, array $resources): void
    {
        $missing = $resources;
        eventually(static function () use ($monitor, &$missing): bool {
            $missing = array_diff($missing, array_column(array_filter(self::scripts($monitor), static fn ($run) => $run[0] === 'renew'), 1));

            return $missing === [];
        }, 'all of them are renewed: ' . implode(', ', $resources), 10.0);
    }

    public function testAnOutageShorterThanTheValidityCostsNothing(): void
    {
        $server = RedisServer::start();
        // Each line to a server breaks in its own way, all at the same time; then the server itself hangs.
        $breaks = [
            'reset' => static fn (FaultProxy $proxy) => $proxy->cut('reset'),
            'closed' => static fn (FaultProxy $proxy) => $proxy->cut(),
            'refused' => static fn (FaultProxy $proxy) => [$proxy->newConnections('refuse'), $proxy->cut('reset')],
            'answers that never come' => static fn (FaultProxy $proxy) => $proxy->hold('reply'),
            'requests that never arrive' => static fn (FaultProxy $proxy) => $proxy->hold('request'),
        ];
        $monitor = Monitor::start($server);
        $proxies = $workers = [];
        foreach (array_keys($breaks) as $how) {
            $proxies[$how] = FaultProxy::start($server);
            $workers[$how] = self::watch($proxies[$how]->dsn(), 4.0, resource: $how);
        }
        self::awaitRenewals($monitor, array_keys($breaks));
        foreach ($breaks as $how => $break) {
            $break($proxies[$how]);
        }
        usleep(1_000_000);
        $proxies['refused']->newConnections('pass');
        self::awaitRenewals($monitor, array_keys($breaks));
        $server->pause();
        usleep(800_000);
        $server->resume();
        self::awaitRenewals($monitor, array_keys($breaks));
        foreach ($workers as $how => $worker) {
            $worker->say();
            $seen = $worker->hear();
            self::assertTrue($seen['held'], "$how: " . json_encode($seen));
            self::assertNull($seen['loss'], $how);
            $worker->say();
            self::assertTrue($worker->hear(), $how);
            $worker->finish();
        }
        $monitor->close();
        $server->stop();
    }

    public function testInAnOutageLongerThanTheValidityTheLeaseEndsWithItAndNotLater(): void
    {
        foreach (['hangs', 'is gone'] as $what) {
            $server = RedisServer::start();
            $plain = self::watch($server->dsn(), 1.0);
            $what === 'hangs' ? $server->pause() : $server->kill();
            $seen = $plain->hear();
            self::assertFalse($seen['held']);
            self::assertSame(0.0, $seen['remaining']);
            self::assertSame('unreachable', $seen['loss'], $what);
            self::assertSoon($seen['end'], $seen['at'], $seen['delay'], "$what: at the end of the validity");
            $plain->kill();
            if ($what === 'hangs') {
                $server->resume();
            }
            $server->stop();
        }
    }

    public function testARenewalThatIsNeverAnsweredIsWhyTheLeaseEndsHoweverLongTheTimeOutsAre(): void
    {
        $server = RedisServer::start();
        $worker = self::renewing(<<<'PHP'
            $lock = $new('order:1', 0.9, false, new Connection($args['slow'], 5.0, 5.0));
            $lock->acquire();
            say('held');
            // Until a renewal has been answered, and another hangs.
            while ($lock->isHeld());
            say([$lock->loss(), $lock->remaining()]);
            hear();
            say([$lock->release(), $lock->loss()]);
            PHP, ['slow' => $server->dsn()]);
        self::assertSame('held', $worker->hear());
        usleep(450_000);
        $server->pause();
        self::assertSame(['unreachable', 0.0], $worker->hear());
        $server->resume();
        $worker->say();
        // Its key may still be there; what was told of the lease stays told.
        self::assertContains($worker->hear(), [[true, 'unreachable'], [false, 'unreachable']]);
        $worker->finish();
        $server->stop();
    }

    public function testThenRunningPhpCodeIsInterrupted(): void
    {
        foreach (['hangs', 'is gone'] as $what) {
            $server = RedisServer::start();
            $worker = self::watch($server->dsn(), 1.0, true);
            $what === 'hangs' ? $server->pause() : $server->kill();
            $seen = $worker->hear();
            self::assertNotNull($seen['thrown'], $what);
            [$at, $loss, $resource, $message] = $seen['thrown'];
            self::assertSame(['unreachable', 'order:1'], [$loss, $resource], $what);
            self::assertStringContainsString('Lock "order:1": the lease is lost', $message);
            self::assertFalse($seen['held']);
            self::assertSoon($seen['end'], $at, $seen['delay'], "$what: interrupted");
            $worker->kill();
            if ($what === 'hangs') {
                $server->resume();
            }
            $server->stop();
        }
    }

    /** A lease on a server that hangs must not cost the one on another. */
    public function testAServerThatHangsDoesNotKeepTheLeasesOnOthersWaiting(): void
    {
        $hung = RedisServer::start();
        $worker = self::renewing(<<<'PHP'
            $first = $new('order:1', 30.0, false, new Connection($args['hung'], 3.0, 3.0));
            $first->acquire();
            $first->renew(30.0);
            $hanging = $new('order:2', 3.0, false, new Connection($args['hung'], 3.0, 3.0));
            $hanging->acquire();
            say('held');
            hear();
            $lock = $new('order:3', 0.6);
            $lock->acquire();
            $lost = 0;
            for ($start = $now(); $now() - $start < 4.0;) {
                $lost += $lock->isHeld() ? 0 : 1;
                usleep(500);
            }
            say([$lost, $hanging->loss()]);
            $lock->release();
            posix_kill(getmypid(), SIGKILL);
            PHP, ['hung' => $hung->dsn()], ['extension' => 'posix']);
        $worker->hear();
        $hung->pause();
        $worker->say();
        self::assertSame([0, 'unreachable'], $worker->hear());
        $worker->wait();
        $hung->resume();
        $hung->stop();
    }

    public function testWhatTheServerRefusesIsTriedAgainUntilTheValidityEnds(): void
    {
        $server = RedisServer::start();
        $worker = self::watch($server->dsn(), 1.5);
        $server->command('REPLICAOF', '127.0.0.1', '1');
        usleep(700_000);
        $server->command('REPLICAOF', 'NO', 'ONE');
        usleep(1_000_000);
        $worker->say();
        self::assertTrue($worker->hear()['held'], 'a passing refusal');
        $server->command('REPLICAOF', '127.0.0.1', '1');
        $worker->kill();

        $server->command('REPLICAOF', 'NO', 'ONE');
        $server->flush();
        $worker = self::watch($server->dsn(), 1.0);
        $server->command('REPLICAOF', '127.0.0.1', '1');
        $seen = $worker->hear();
        self::assertSame([false, 'unreachable'], [$seen['held'], $seen['loss']]);
        $worker->kill();
        $server->stop();
    }
}
