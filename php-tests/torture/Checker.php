<?php

declare(strict_types=1);

namespace RedisLease\Tests\torture;

/**
 * Proves from a history that every promise was kept, or says where not. It knows nothing of how the lock
 * works: only what owners were told, what was in Redis, and what befell both.
 */
final class Checker
{
    private const SECOND = 1_000_000_000;
    /** A call may end that long after its deadline. */
    private const LATE = 100_000_000;

    private readonly History $history;
    /** @var list<string> */
    private array $violations = [];
    /** @var array<string, int> */
    private array $counts = [
        'grants' => 0, 'grants in a moment when data was lost' => 0, 'writes' => 0, 'late writes refused' => 0, 'samples' => 0,
    ];

    /** @param list<array<string, mixed>> $events in the order of time */
    public function __construct(array $events)
    {
        $this->history = new History($events);
        $this->violations = $this->history->bad;
        $this->ownersDoNotOverlap();
        $this->fencesRise();
        $this->lateWritesAreRefused();
        $this->whatIsValidIsInRedis();
        $this->whatIsValidIsNotLost();
        $this->locksFreeThemselves();
        $this->callsKeepTheirDeadlines();
        foreach ($this->history->calls as $call) {
            $answer = is_bool($call['answer']) ? var_export($call['answer'], true) : $call['answer'] ?? 'killed';
            $this->counts["{$call['op']}: $answer"] = ($this->counts["{$call['op']}: $answer"] ?? 0) + 1;
        }
    }

    /** @return list<string> */
    public function violations(): array
    {
        return array_values(array_unique($this->violations));
    }

    /** @return array<string, int> how much there was to check */
    public function counts(): array
    {
        ksort($this->counts);

        return $this->counts;
    }

    private function ownersDoNotOverlap(): void
    {
        foreach ($this->history->spans as $resource => $spans) {
            usort($spans, static fn (array $one, array $other) => $one['from'] <=> $other['from']);
            $earlier = [];
            foreach ($spans as $span) {
                $epoch = $this->history->epoch($span['begun'], $span['from']);
                if ($epoch === null) {
                    $this->counts['grants in a moment when data was lost']++;
                    continue;
                }
                $goesOn = static fn (array $one) => $one['until'] > $span['from'];
                $earlier[$epoch] = array_filter($earlier[$epoch] ?? [], $goesOn);
                foreach ($earlier[$epoch] as $other) {
                    if ($other['token'] !== $span['token'] && $span['until'] > $span['from']) {
                        $how = "{$other['token']} until {$other['until']}, {$span['token']} from {$span['from']}";
                        $this->violate('two owners', $resource, $how);
                    }
                }
                $earlier[$epoch][] = $span;
            }
        }
    }

    private function fencesRise(): void
    {
        $owners = $highest = $waiting = [];
        foreach ($this->history->grants as $grant) {
            $this->counts['grants']++;
            $key = "{$grant['r']} {$grant['fence']}";
            $isConfirmation = ($owners[$key] ?? null) === $grant['token'];
            if (!$isConfirmation && isset($owners[$key])) {
                $this->violate('one fence twice', $grant['r'], "{$grant['fence']} for {$owners[$key]} and {$grant['token']}");
            }
            $owners[$key] = $grant['token'];

            // A grant counts from when its owner knew of it, against those that were asked for later.
            $waiting[$grant['r']][] = $grant;
            foreach ($waiting[$grant['r']] as $index => $known) {
                if ($known['t'] < $grant['begun']) {
                    $highest[$grant['r']] = max($highest[$grant['r']] ?? 0, $known['fence']);
                    unset($waiting[$grant['r']][$index]);
                }
            }
            if (!$isConfirmation && $grant['fence'] <= ($highest[$grant['r']] ?? 0)) {
                $this->violate('a fence that does not rise', $grant['r'], "{$grant['fence']} after {$highest[$grant['r']]}");
            }
        }
    }

    private function lateWritesAreRefused(): void
    {
        $writes = $this->history->writes;
        usort($writes, static fn ($one, $other) => [$one['r'], $one['number']] <=> [$other['r'], $other['number']]);
        $last = $by = [];
        foreach ($writes as $write) {
            $this->counts['writes']++;
            $resource = $write['r'];
            if (!$write['accepted']) {
                $this->counts['late writes refused']++;
                if ($write['fence'] >= $write['last']) {
                    $this->violate('a good write refused', $resource, "{$write['fence']} at {$write['last']}");
                }
                continue;
            }
            $highest = max($write['last'], $last[$resource] ?? 0);
            if ($write['fence'] < $highest) {
                $this->violate('a late write accepted', $resource, "{$write['fence']} after $highest");
            }
            $last[$resource] = max($last[$resource] ?? 0, $write['fence']);
            $by["$resource {$write['fence']}"] ??= $write['token'];
            if ($write['token'] !== null && $by["$resource {$write['fence']}"] !== $write['token']) {
                $this->violate('two writers with one fence', $resource, (string) $write['fence']);
            }
        }
    }

    private function whatIsValidIsInRedis(): void
    {
        $samples = $this->history->samples;
        foreach ($this->history->spans as $resource => $spans) {
            usort($spans, static fn (array $one, array $other) => $one['from'] <=> $other['from']);
            $first = 0;
            foreach ($spans as $span) {
                while (isset($samples[$first]) && $samples[$first]['t'] < $span['from']) {
                    $first++;
                }
                $without = [];
                for ($index = $first; isset($samples[$index]) && $samples[$index]['t'] < $span['until']; $index++) {
                    $without += array_filter([$samples[$index]['node'] ?? 0 => $this->missing($span, $resource, $samples[$index])]);
                }
                // Who was once without it, and lost nothing, was without it when a majority granted it.
                if (count($without) > $this->history->minority()) {
                    $this->violate('valid, and not in Redis', $resource, implode('; ', $without));
                }
            }
        }
    }

    /** How a sample shows that the lock was not there; null if it does not. */
    private function missing(array $span, string $resource, array $sample): ?string
    {
        $isWithin = isset($sample['seen'][$resource]) && $sample['t1'] <= $span['until'];
        $seen = $sample['seen'][$resource][0] ?? 'nothing';
        if (!$isWithin || $seen === $span['token'] || !$this->history->isWhole($span['begun'], $sample['t1'])) {
            return null;
        }

        return "{$span['token']} from {$span['from']} until {$span['until']}, $seen at {$sample['t']}";
    }

    /** A lease that was still to be relied on cannot be found lost, unless Redis lost it or somebody gave it back. */
    private function whatIsValidIsNotLost(): void
    {
        foreach ($this->history->calls as $call) {
            $before = $call['before'];
            if ($call['answer'] !== false || $before === null || $call['op'] === 'synchronized') {
                continue;
            }
            if (($this->history->given[$before] ?? PHP_INT_MAX) < $call['t']) {
                continue;
            }
            foreach ($this->history->spans[$call['r']] ?? [] as $span) {
                $isValid = $span['token'] === $before && $span['from'] < $call['t0']
                    && $span['claimed'] > $call['t'] && $span['until'] >= $call['t0'];
                if ($isValid && $this->history->isWhole($span['begun'], $call['t'])) {
                    $this->violate('lost while it was valid', $call['r'], "$before by {$call['op']} at {$call['t0']}");
                }
            }
        }
    }

    private function locksFreeThemselves(): void
    {
        [$byToken, $nameless] = $this->lastTraces();
        $again = [];
        foreach ($this->history->samples as $sample) {
            $this->counts['samples']++;
            foreach ($sample['seen'] as $resource => [$token, $left]) {
                if ($token === null) {
                    continue;
                }
                if ($left === -1) {
                    $this->violate('a lock without an end', $resource, $token);
                }
                if (str_starts_with($token, 'reserved:')) {
                    if ($left > 1_000) {
                        $this->violate('a reservation without an end', $resource, "$left ms");
                    }
                    continue;
                }
                $given = $this->history->given[$token] ?? PHP_INT_MAX;
                if ($sample['t'] > $given && ($this->history->nodes === 1 || $sample['t'] > $this->history->settled($given, $given))) {
                    $again[$token][$sample['node'] ?? 0] = true;
                    if (count($again[$token]) > $this->history->minority()) {
                        $this->violate('given back, and there again', $resource, $token);
                    }
                }
                $until = $byToken[$token] ?? null;
                foreach ($until === null ? $nameless : [] as $call) {
                    if ($call['r'] === $resource && $call['t0'] <= $sample['t1']) {
                        $until = max($until ?? 0, $this->history->arrived($call) + $call['ttl']);
                    }
                }
                if ($until === null) {
                    $this->violate('a token that nobody asked for', $resource, $token);
                } elseif ($sample['t'] > $until + self::SECOND) {
                    $this->violate('taken for longer than its TTL and a second', $resource, $token);
                }
            }
        }
        if ($this->history->endedFree === false) {
            $this->violations[] = 'a lock was still taken at the end of the run';
        }
    }

    /**
     * @return array{array<string, int>, list<array<string, mixed>>} when each token's TTL is over, and the calls
     *     that may have left a token that nobody could write down
     */
    private function lastTraces(): array
    {
        $byToken = $nameless = [];
        foreach ($this->history->grants as $grant) {
            $until = $grant['t'] + (int) ($grant['ttl'] * self::SECOND);
            $byToken[$grant['token']] = max($byToken[$grant['token']] ?? 0, $until);
        }
        foreach ($this->history->calls as $call) {
            if ($call['op'] === 'release') {
                continue;
            }
            foreach (array_unique(array_filter([$call['token'], $call['before']])) as $token) {
                $byToken[$token] = max($byToken[$token] ?? 0, $this->history->arrived($call) + $call['ttl']);
            }
            // On several nodes a wait that ended well may have had tries before, each with a token of its own, that
            // got one node and gave it back.
            $mayHaveTried = $call['answer'] !== true || $this->history->nodes > 1;
            if ($mayHaveTried && in_array($call['op'], ['acquire', 'synchronized'], true)) {
                $nameless[] = $call;
            }
        }

        return [$byToken, $nameless];
    }

    private function callsKeepTheirDeadlines(): void
    {
        foreach ($this->history->calls as $call) {
            // A child's count begins anew, with its parent's still standing in its first reading.
            $took = $call['took'] - max(0, $call['delay']) - $this->history->stopped($call['pid'], $call['t0'], $call['t']);
            if ($took > $call['limit'] * self::SECOND + self::LATE) {
                $how = sprintf('%s: %.3f s of %.3f s', $call['op'], $took / 1e9, $call['limit']);
                $this->violate('a call past its deadline', $call['r'], $how);
            }
        }
    }

    private function violate(string $rule, string $resource, string $how): void
    {
        $this->violations[] = "$rule: $resource: $how";
    }
}
