<?php

declare(strict_types=1);

namespace RedisLease\Tests\torture;

/**
 * What happened, put in order for the Checker: calls with their begin and end, and for each token the spans in which
 * its owner relied on it. Times are nanoseconds.
 *
 * A call has op, r (the resource), pid, t0 and t, before and token (its handle's token then and now), answer, ttl.
 */
final class History
{
    private const SETTLES = 100_000_000;

    /** @var list<array<string, mixed>> finished or not; t is the end, or the death of the process */
    public array $calls = [];
    /** @var array<string, list<array{token: string, begun: int, from: int, until: int, claimed: int}>> by resource */
    public array $spans = [];
    /** @var list<array<string, mixed>> in the order of time */
    public array $grants = [];
    /** @var list<array<string, mixed>> */
    public array $writes = [];
    /** @var list<array<string, mixed>> */
    public array $samples = [];
    /** @var list<array<string, mixed>> the server's losses of data, from the kill to the restart */
    public array $losses = [];
    /** @var list<array<string, mixed>> what single nodes of several lost */
    public array $lostCopies = [];
    /** How many nodes there are; a majority of them decides. */
    public int $nodes = 1;
    /** @var list<array{t0: int, t: int}> all times in which a command could be under way for longer */
    public array $outages = [];
    /** @var array<int, list<array{t0: int, t: int}>> by process */
    public array $stops = [];
    /** @var array<string, int> when nobody could rely on a token any more, by its own doing */
    public array $given = [];
    /** @var list<string> */
    public array $bad = [];
    public ?bool $endedFree = null;
    public int $end = 0;

    /** @param list<array<string, mixed>> $events in the order of time */
    public function __construct(array $events)
    {
        $open = $begun = $cuts = [];
        foreach ($events as $event) {
            $this->end = max($this->end, $event['t']);
            $pid = $event['pid'] ?? 0;
            switch ($event['e']) {
                case 'begin':
                    $begun[$pid] = $event['t'];
                    $open["$pid:{$event['id']}"] = $event;
                    break;
                case 'end':
                    $begin = $open["$pid:{$event['id']}"];
                    unset($open["$pid:{$event['id']}"]);
                    $this->call($event + ['before' => $begin['token']], $cuts);
                    break;
                case 'grant':
                case 'renewed':
                    $this->spans[$event['r']][] = [
                        'token' => $event['token'], 'begun' => $begun[$pid], 'from' => $event['t'],
                        'until' => $event['until'], 'claimed' => $event['until'],
                    ];
                    if ($event['e'] === 'grant') {
                        $this->grants[] = $event + ['begun' => $begun[$pid]];
                    }
                    break;
                case 'ends':
                    $cuts[] = [$event['r'], $event['token'], $event['t']];
                    break;
                case 'died':
                    foreach ($open as $key => $begin) {
                        if ($begin['pid'] === $pid) {
                            unset($open[$key]);
                            $this->unfinished($begin, $event['t'], $cuts);
                        }
                    }
                    break;
                case 'write':
                    $this->writes[] = $event;
                    break;
                case 'sample':
                    $this->samples[] = $event;
                    break;
                case 'nodes':
                    $this->nodes = $event['count'];
                    break;
                case 'lost data':
                    $this->nodes === 1 ? $this->losses[] = $event : $this->lostCopies[] = $event;
                    $this->outages[] = $event;
                    break;
                case 'away':
                    $this->outages[] = $event;
                    break;
                case 'stopped':
                    $this->stops[$pid][] = $event;
                    break;
                case 'bad':
                    $this->bad[] = $event['what'];
                    break;
                case 'end of run':
                    $this->endedFree = $event['free'];
                    break;
            }
        }
        foreach ($open as $begin) {
            $this->unfinished($begin, $this->end, $cuts);
        }
        array_walk($cuts, fn (array $cut) => $this->cut(...$cut));
    }

    /** Between which losses of data it happened; null where that cannot be told. */
    public function epoch(int $begun, int $ended): ?int
    {
        $epoch = 0;
        foreach ($this->losses as $loss) {
            if ($loss['t0'] < $ended && $loss['t'] > $begun) {
                return null;
            }
            $epoch += (int) ($loss['t'] <= $begun);
        }

        return $epoch;
    }

    /** Whether no node lost any data in that time. */
    public function isWhole(int $begun, int $ended): bool
    {
        foreach ($this->lostCopies as $loss) {
            if ($loss['t0'] < $ended && $loss['t'] > $begun) {
                return false;
            }
        }

        return $this->epoch($begun, $ended) !== null;
    }

    /** So many nodes may be without it, or have it still, and it proves nothing. */
    public function minority(): int
    {
        return $this->nodes - intdiv($this->nodes, 2) - 1;
    }

    /**
     * When a call's last command had arrived at the latest. That of an unanswered one outlives outages. So does an
     * answered one's first sending, held up in an outage of its time while a second one, on a new connection, was
     * answered. Of several nodes a majority's answers end the call, and the others' may be under way.
     */
    public function arrived(array $call): int
    {
        $arrived = $this->settled($call['t0'], $call['t']);
        $isQuiet = $arrived === $call['t'] + self::SETTLES;

        return is_bool($call['answer']) && $this->nodes === 1 && $isQuiet ? $call['t'] : $arrived;
    }

    /** When whatever was under way between these two moments had arrived. */
    public function settled(int $from, int $to): int
    {
        $arrived = $to + self::SETTLES;
        foreach ($this->outages as $outage) {
            if ($outage['t0'] <= $arrived && $outage['t'] >= $from) {
                $arrived = max($arrived, $outage['t'] + self::SETTLES);
            }
        }

        return $arrived;
    }

    /** The part of a span of time in which the process had been stopped. */
    public function stopped(int $pid, int $from, int $to): int
    {
        $sum = 0;
        foreach ($this->stops[$pid] ?? [] as $stop) {
            $sum += max(0, min($to, $stop['t']) - max($from, $stop['t0']));
        }

        return $sum;
    }

    private function call(array $call, array &$cuts): void
    {
        $call['ttl'] = (int) ($call['ttl'] * 1e9);
        $this->calls[] = $call;
        $before = $call['before'];
        $gaveItUp = match ($call['op']) {
            'release' => true,
            'renew' => $call['answer'] === false,
            'acquire' => $call['answer'] !== true || $call['token'] !== $before,
            default => false,
        };
        if ($before !== null && $gaveItUp) {
            $cuts[] = [$call['r'], $before, $call['t0']];
        }
        if ($call['op'] === 'release' && is_bool($call['answer']) && $before !== null) {
            $this->given[$before] = min($this->given[$before] ?? PHP_INT_MAX, $call['t']);
        }
    }

    private function unfinished(array $begin, int $died, array &$cuts): void
    {
        $rest = ['t0' => $begin['t'], 't' => $died, 'before' => $begin['token'], 'answer' => null, 'took' => 0, 'delay' => 0];
        $this->call($rest + $begin, $cuts);
    }

    /** From then on nobody relied on the token: it was given back, or found lost. */
    private function cut(string $resource, ?string $token, int $at): void
    {
        foreach ($this->spans[$resource] ?? [] as $index => $span) {
            if ($span['token'] === $token && $span['from'] <= $at) {
                $this->spans[$resource][$index]['until'] = min($span['until'], $at);
            }
        }
    }
}
