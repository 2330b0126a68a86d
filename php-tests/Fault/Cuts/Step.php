<?php

declare(strict_types=1);

namespace RedisLease\Tests\Fault\Cuts;

/** One step of the protocol: how it is provoked, and which of its bytes are the ones to cut. */
final class Step
{
    public const OURS = 'our token';
    public const THEIRS = 'theirs';

    /**
     * @param string $call the method that takes the step
     * @param string|null $holder who has the lock before: OURS, THEIRS, or null for nobody
     * @param bool $fresh on a connection that has to be made first
     * @param bool $cold on a server that does not know the scripts
     * @param array{int, int}|null $messages first and last message to cut in; null: all of them
     */
    private function __construct(
        public readonly string $name,
        public readonly string $call,
        public readonly ?string $holder = null,
        public readonly bool $fresh = false,
        public readonly bool $cold = false,
        public readonly bool $logsIn = false,
        public readonly ?array $messages = null,
    ) {
    }

    /** @return list<self> */
    public static function all(): array
    {
        return [
            new self('connect', 'acquire', fresh: true, messages: [0, 0]),
            new self('AUTH', 'acquire', fresh: true, logsIn: true, messages: [0, 0]),
            new self('SELECT', 'acquire', fresh: true, logsIn: true, messages: [1, 1]),
            new self('acquire by EVALSHA', 'acquire'),
            new self('acquire by EVAL after NOSCRIPT', 'acquire', cold: true),
            new self('acquire, contended', 'acquire', self::THEIRS),
            new self('acquire, held already', 'acquire', self::OURS),
            new self('renew', 'renew', self::OURS),
            new self('renew by EVAL after NOSCRIPT', 'renew', self::OURS, cold: true),
            new self("renew, another's by now", 'renew', self::THEIRS),
            new self('release', 'release', self::OURS),
            new self('release by EVAL after NOSCRIPT', 'release', self::OURS, cold: true),
            new self("release, another's by now", 'release', self::THEIRS),
            new self('owner', 'owner', self::THEIRS),
            new self('owner, free', 'owner'),
            new self('forceRelease', 'forceRelease', self::THEIRS),
            new self('forceRelease, free', 'forceRelease'),
        ];
    }

    /** Whether the lock under test has to have been held for the step to make sense. */
    public function needsOurLease(): bool
    {
        return $this->holder === self::OURS || in_array($this->call, ['renew', 'release'], true);
    }

    /** What the answer is when nothing goes wrong. */
    public function rightAnswer(): bool|string|null
    {
        return match ($this->call) {
            'acquire' => $this->holder !== self::THEIRS,
            'owner' => $this->holder,
            'forceRelease' => $this->holder !== null,
            default => $this->holder === self::OURS,
        };
    }

    /**
     * Where to cut, as counts of bytes that still pass.
     *
     * @param string $bytes all that goes in one direction when nothing is cut
     * @param bool $everywhere at every byte; else at the edges of each message and in its middle
     * @return list<int>
     */
    public function cuts(string $bytes, bool $everywhere): array
    {
        $edges = [0, ...self::messageEnds($bytes)];
        [$first, $last] = $this->messages ?? [0, count($edges) - 2];
        if ($everywhere) {
            return range($edges[$first], $edges[$last + 1]);
        }
        $cuts = [];
        for ($message = $first; $message <= $last; $message++) {
            [$from, $to] = [$edges[$message], $edges[$message + 1]];
            array_push($cuts, $from, $from + 1, intdiv($from + $to, 2), $to - 1, $to);
        }
        $cuts = array_values(array_unique($cuts));
        sort($cuts);

        return $cuts;
    }

    /** @return list<int> where each RESP message ends */
    private static function messageEnds(string $bytes): array
    {
        $ends = [];
        for ($at = 0; $at < strlen($bytes);) {
            $at = self::messageEnd($bytes, $at);
            $ends[] = $at;
        }

        return $ends;
    }

    private static function messageEnd(string $bytes, int $at): int
    {
        $kind = $bytes[$at];
        $lineEnd = strpos($bytes, "\r\n", $at) + 2;
        $number = (int) substr($bytes, $at + 1);
        if ($kind === '$') {
            return $number < 0 ? $lineEnd : $lineEnd + $number + 2;
        }
        if ($kind === '*') {
            for ($item = 0; $item < $number; $item++) {
                $lineEnd = self::messageEnd($bytes, $lineEnd);
            }
        }

        return $lineEnd;
    }
}
