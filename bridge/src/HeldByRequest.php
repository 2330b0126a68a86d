<?php

declare(strict_types=1);

namespace RedisLease\Bridge;

use DistributedLock;
use RedisLease\LeaseException;
use WeakMap;
use WeakReference;

/**
 * What a request holds, or a job, in a worker that serves one after the other: Octane, RoadRunner, Swoole, a worker of a
 * queue. PHP ends no request there, so the extension cannot give back what one of them left behind, in a service or a
 * static property.
 *
 *     $held = new HeldByRequest();
 *     $leases = new LeaseFactory(held: $held);
 *     // For each request: $held->begin(), and whatever happens $held->end().
 *
 * What is held already when a request begins stays at its end: it is the worker's own, or that of the request inside of
 * which it runs. Where requests run side by side in coroutines of Swoole, each gives back what was made in its own.
 */
final class HeldByRequest
{
    /** Seconds that one end spends on failures, be it in the middle of the last one. */
    private const FOR_FAILURES = 0.05;

    /** @var WeakMap<DistributedLock, array{int, bool}> the coroutine it was made in, and whether it stays in Redis */
    private WeakMap $leases;
    /**
     * By coroutine the requests that have begun, each inside of the one before, and what was held when it did.
     *
     * @var array<int, list<array{WeakReference<object>|null, WeakMap<DistributedLock, true>}>>
     */
    private array $open = [];
    /** @var array<int, array{DistributedLock, float, bool}> to be given back; until when, and if it was tried in vain */
    private array $owed = [];

    public function __construct()
    {
        $this->leases = new WeakMap();
    }

    /** @param bool $stays at the request's end nothing here renews it any more; it stays in Redis for its TTL */
    public function add(DistributedLock $lease, bool $stays = false): DistributedLock
    {
        $this->leases[$lease] = [self::coroutine(), $stays];

        return $lease;
    }

    /**
     * A request begins, inside of the one that has begun and has not ended.
     *
     * @param object|null $request what stands for it, to be named at its end. When this object is gone, or begins again,
     *     without an end, the request is over as well: the end of the next one gives back what it left. Without an
     *     object, only its end ends it.
     */
    public function begin(?object $request = null): void
    {
        $open = $this->open[self::coroutine()] ?? [];
        $place = self::place($open, $request);
        $before = $open[$place][1] ?? new WeakMap();
        if (!isset($open[$place])) {
            foreach ($this->held() as $lease) {
                $before[$lease] = true;
            }
        }
        $reference = $request === null ? null : WeakReference::create($request);
        $this->open[self::coroutine()] = [...array_slice($open, 0, $place), [$reference, $before]];
    }

    /**
     * The request ends, and with it those inside of it. Never throws, as at the end of any request. After a release that
     * found no answer for as long as the time-outs say, it leaves the rest to the next end.
     *
     * @param object|null $request as in begin(); null ends the one that began last. One that has not begun, or has ended
     *     already, changes nothing.
     */
    public function end(?object $request = null): void
    {
        $open = $this->open[self::coroutine()] ?? [];
        $place = $request === null ? self::place($open, null) - 1 : self::place($open, $request);
        $new = isset($open[$place]) ? $this->owe($open[$place][1]) : [];
        $open = array_slice($open, 0, max(0, $place));
        if ($open === []) {
            unset($this->open[self::coroutine()]);
            // Inside of a request not: that may have taken one of them anew.
            $new = array_keys($this->owed);
        } else {
            $this->open[self::coroutine()] = $open;
        }
        $this->giveBack($new);
    }

    /** The worker ends, and with it what was its own. Never throws. */
    public function stop(): void
    {
        unset($this->open[self::coroutine()]);
        $this->owe(new WeakMap());
        $this->giveBack(array_keys($this->owed));
    }

    /**
     * Where the request stands among them; if nowhere, the first place that is free or that of a request whose object
     * is gone.
     *
     * @param list<array{WeakReference<object>|null, WeakMap<DistributedLock, true>}> $open
     */
    private static function place(array $open, ?object $request): int
    {
        foreach ($open as $place => [$reference]) {
            if ($request !== null && $reference?->get() === $request) {
                return $place;
            }
        }
        for ($place = count($open); $place > 0; $place--) {
            $reference = $open[$place - 1][0];
            if ($reference === null || $reference->get() !== null) {
                break;
            }
        }

        return $place;
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

    /**
     * Notes what is to be given back.
     *
     * @param WeakMap<DistributedLock, true> $before what stays
     *
     * @return list<int> what was noted
     */
    private function owe(WeakMap $before): array
    {
        $noted = [];
        foreach ($this->held() as $lease) {
            if (isset($before[$lease])) {
                continue;
            }
            if ($this->leases[$lease][1]) {
                $lease->detach();

                continue;
            }
            $noted[] = $id = spl_object_id($lease);
            $this->owed[$id] = [$lease, self::now() + $lease->remaining(), $this->owed[$id][2] ?? false];
        }

        return $noted;
    }

    /** @param list<int> $ids of what is owed */
    private function giveBack(array $ids): void
    {
        $spent = 0.0;
        // What was not tried yet comes first: it may be another server's.
        usort($ids, fn (int $one, int $other): int => $this->owed[$one][2] <=> $this->owed[$other][2]);
        foreach ($ids as $id) {
            [$lease, $until] = $this->owed[$id];
            $start = self::now();
            // When its time has passed, and nothing has renewed it, Redis has ended it.
            $isOver = $start >= $until && !$lease->isHeld();
            if (!$isOver && $spent > self::FOR_FAILURES) {
                continue;
            }
            try {
                $isOver || $lease->release();
                unset($this->owed[$id]);
            } catch (LeaseException) {
                // The response is out: there is nobody left to tell.
                $this->owed[$id] = [$lease, $until, true];
                $spent += self::now() - $start;
            }
        }
    }

    private static function now(): float
    {
        return hrtime(true) / 1e9;
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
