<?php

declare(strict_types=1);

namespace RedisLease\Bridge;

use DistributedLock;
use RedisLease\LeaseException;
use WeakMap;

/**
 * What a request holds, or a job, in a worker that serves one after the other: Octane, RoadRunner, Swoole, a worker of a
 * queue. PHP ends no request there, so the extension cannot give back what one of them left behind, in a service or a
 * static property.
 *
 *     $held = new HeldByRequest();
 *     $leases = new LeaseFactory(held: $held);
 *     // For each request: $held->begin(), and whatever happens $held->end().
 *
 * What is held already when a request begins is the worker's own, and stays. Where requests run side by side in
 * coroutines of Swoole, each gives back what was made in its own.
 */
final class HeldByRequest
{
    /** @var WeakMap<DistributedLock, array{int, bool}> the coroutine it was made in, and whether it stays in Redis */
    private WeakMap $leases;
    /** @var WeakMap<DistributedLock, true> */
    private WeakMap $ofWorker;
    /** @var array<int, true> coroutines with a request that has begun */
    private array $open = [];

    public function __construct()
    {
        $this->leases = new WeakMap();
        $this->ofWorker = new WeakMap();
    }

    /** @param bool $stays at the request's end nothing here renews it any more; it stays in Redis for its TTL */
    public function add(DistributedLock $lease, bool $stays = false): DistributedLock
    {
        $this->leases[$lease] = [self::coroutine(), $stays];

        return $lease;
    }

    /**
     * A request begins. Within one that has begun already this does nothing: it may be a request inside of it, or the
     * next one after a failure that nobody told of.
     */
    public function begin(): void
    {
        if (isset($this->open[self::coroutine()])) {
            return;
        }
        $this->open[self::coroutine()] = true;
        foreach ($this->held() as $lease) {
            $this->ofWorker[$lease] = true;
        }
    }

    /** The request ends. Never throws, as at the end of any request: what Redis does not take back has its TTL. */
    public function end(): void
    {
        unset($this->open[self::coroutine()]);
        foreach ($this->held() as $lease) {
            if (!isset($this->ofWorker[$lease])) {
                $this->giveBack($lease);
            }
        }
        $this->ofWorker = new WeakMap();
    }

    /** The worker ends, and with it what was its own. Never throws. */
    public function stop(): void
    {
        $this->ofWorker = new WeakMap();
        $this->end();
    }

    /** @return list<DistributedLock> of this coroutine */
    private function held(): array
    {
        $held = [];
        foreach ($this->leases as $lease => [$coroutine]) {
            if ($coroutine === self::coroutine() && $lease->isHeld()) {
                $held[] = $lease;
            }
        }

        return $held;
    }

    private function giveBack(DistributedLock $lease): void
    {
        if ($this->leases[$lease][1]) {
            $lease->detach();

            return;
        }
        try {
            $lease->release();
        } catch (LeaseException) {
            // The response is out: there is nobody left to tell. When the object goes it tries once more.
        }
    }

    /** -1 outside of coroutines, as Swoole has it. */
    private static function coroutine(): int
    {
        foreach (['Swoole\Coroutine', 'OpenSwoole\Coroutine'] as $class) {
            if (class_exists($class, false)) {
                return $class::getCid();
            }
        }

        return -1;
    }
}
