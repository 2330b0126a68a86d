<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

use RuntimeException;

/** One line of a MONITOR transcript. */
final class MonitorLine
{
    /** @param list<string> $words */
    private function __construct(
        public readonly int $database,
        public readonly bool $fromScript,
        public readonly array $words,
    ) {
    }

    public static function parse(string $line): self
    {
        if (!preg_match('/^\+?\d+\.\d+ \[(\d+) (.*?)\] (".*")$/s', $line, $parts)) {
            throw new RuntimeException("not a MONITOR line: $line");
        }
        preg_match_all('/"((?:[^"\\\\]|\\\\.)*)"/s', $parts[3], $words);

        return new self((int) $parts[1], $parts[2] === 'lua', array_map(self::unescape(...), $words[1]));
    }

    public function name(): string
    {
        return strtoupper($this->words[0]);
    }

    public function __toString(): string
    {
        return ($this->fromScript ? 'script: ' : '') . implode(' ', $this->words);
    }

    private static function unescape(string $word): string
    {
        $named = ['n' => "\n", 'r' => "\r", 't' => "\t", 'a' => "\x07", 'b' => "\x08", '"' => '"', '\\' => '\\'];

        return preg_replace_callback(
            '/\\\\(?:x([0-9a-f]{2})|(.))/s',
            static fn (array $m) => isset($m[2]) ? $named[$m[2]] ?? $m[2] : chr(hexdec($m[1])),
            $word,
        );
    }
}
