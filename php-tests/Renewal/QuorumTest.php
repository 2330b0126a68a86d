<?php

declare(strict_types=1);

namespace RedisLease\Tests\Renewal;

use RedisLease\Tests\Support\RedisServer;

use function RedisLease\Tests\Support\eventually;

/** Automatic renewal on several independent nodes: a majority keeps the lease, and none means its end. */
final class QuorumTest extends RenewalTestCase
{
    private const WATCH = <<<'PHP'
        $lock = $new('order:1', 1.0, true, new Connection($args['nodes'], 0.3, 0.3));
        $lock->acquire();
        $end = 0.0;
        say('held');
        try {
            for ($start = $now(), $i = 0; $now() - $start < $args['seconds']; $i++) {
                $i % 100 === 0 && $delay(true);
                $before = $now();
                $end = max($end, $before + $lock->remaining());
            }
            say(['held' => $lock->isHeld()]);
            $start = $now();
            say([$lock->release(), $now() - $start]);
        } catch (LeaseLostException $lost) {
            say(['held' => $lock->isHeld(), 'loss' => $lost->loss, 'at' => $now(), 'end' => $end, 'delay' => $delay()]);
        }
        PHP;

    /** @var list<RedisServer> */
    private array $nodes;

    protected function setUp(): void
    {
        parent::setUp();
        $this->nodes = [RedisServer::start(), RedisServer::start(), RedisServer::start()];
    }

    protected function tearDown(): void
    {
        array_map(static fn (RedisServer $node) => $node->stop(), $this->nodes);
    }

    public function testALeaseIsKeptWhileOneNodeIsAwayAndOneThatLostItIsRefilled(): void
    {
        foreach (['kill', 'pause'] as $how) {
            $worker = self::renewing(self::WATCH, ['nodes' => $this->dsn(), 'seconds' => 5.0]);
            $worker->hear();
            $this->nodes[0]->flush();
            eventually(fn () => $this->nodes[0]->command('EXISTS', 'lock:order:1') === 1, 'the node that lost it has it again', 4.0);
            $this->nodes[1]->$how();
            self::assertSame(['held' => true], $worker->hear(), $how);
            [$released, $seconds] = $worker->hear();
            self::assertTrue($released, $how);
            self::assertLessThan(0.5, $seconds, $how);
            $worker->finish();
            foreach ([0, 2] as $place) {
                self::assertSame(0, $this->nodes[$place]->command('EXISTS', 'lock:order:1'), $how);
            }
            $how === 'kill' ? $this->nodes[1]->restart(false) : $this->nodes[1]->resume();
            array_map(static fn (RedisServer $node) => $node->flush(), $this->nodes);
        }
    }

    public function testWithoutAMajorityItEndsWithItsValidityAndStopsTheWork(): void
    {
        foreach (['pause', 'kill'] as $how) {
            $worker = self::renewing(self::WATCH, ['nodes' => $this->dsn(), 'seconds' => 20.0]);
            $worker->hear();
            usleep(500_000);
            $this->nodes[0]->$how();
            $this->nodes[1]->$how();
            $seen = $worker->hear();
            self::assertSame([false, 'unreachable'], [$seen['held'], $seen['loss'] ?? null], $how);
            self::assertSoon($seen['end'], $seen['at'], $seen['delay'], "$how: interrupted");
            $worker->kill();
            foreach ([0, 1] as $place) {
                $how === 'kill' ? $this->nodes[$place]->restart(false) : $this->nodes[$place]->resume();
            }
            array_map(static fn (RedisServer $node) => $node->flush(), $this->nodes);
        }
    }

    public function testAMajorityThatHasItNoMoreIsALossAtOnce(): void
    {
        $worker = self::renewing(self::WATCH, ['nodes' => $this->dsn(), 'seconds' => 20.0]);
        $worker->hear();
        $start = microtime(true);
        foreach ([0, 1] as $place) {
            $this->nodes[$place]->command('SET', 'lock:order:1', 'another', 'PX', 60_000);
        }
        $seen = $worker->hear();
        self::assertSame([false, 'taken'], [$seen['held'], $seen['loss'] ?? null]);
        self::assertLessThan(0.9, microtime(true) - $start, 'at the next renewal');
        $worker->finish();
        self::assertSame('another', $this->nodes[0]->command('GET', 'lock:order:1'));
    }

    private function dsn(): string
    {
        return implode(' ', array_map(static fn (RedisServer $node) => $node->dsn(), $this->nodes));
    }
}
