<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Inspect;

/** A lock as it stands in Redis, at the moment in which it was looked at. */
final class Lease
{
    /** Bytes of a name that are shown. */
    private const LONGEST = 200;

    /**
     * @param string|null $owner the token; null while the lock is handed to a waiter
     * @param int|null $fence null where it is not known
     * @param float|null $ttl seconds; null where it is not known; INF when it never ends, which no lease does: another
     *     program's key
     * @param bool|null $isWaitedFor whether somebody waits for it, or did until a few seconds ago; null: not asked
     */
    public function __construct(
        public readonly string $resource,
        public readonly ?string $owner,
        public readonly ?int $fence,
        public readonly ?float $ttl,
        public readonly ?bool $isWaitedFor = null,
    ) {
    }

    /** Whether it looks like a token that the extension made. */
    public static function isToken(string $value): bool
    {
        return preg_match('/^[0-9a-f]{32}$/D', $value) === 1;
    }

    /**
     * For a console's table. Bytes that are no printable text are shown as \xNN, and of a very long name its beginning.
     * A value that is no token may be another program's secret: it is not shown.
     *
     * @return list<string>
     */
    public function row(): array
    {
        return [
            self::name($this->resource),
            match (true) {
                $this->owner === null => '(handed over)',
                self::isToken($this->owner) => $this->owner,
                default => '(not a token)',
            },
            $this->fence === null ? '-' : (string) $this->fence,
            match ($this->ttl) {
                null => '-',
                INF => 'never ends',
                default => sprintf('%.1f s', $this->ttl),
            },
        ];
    }

    public static function name(string $resource): string
    {
        $name = self::printable($resource);
        $length = strlen($resource);

        return $length <= self::LONGEST ? $name : mb_substr($name, 0, self::LONGEST) . "... ($length bytes)";
    }

    public static function printable(string $bytes): string
    {
        $isText = preg_match('/^[^\p{C}]*$/u', $bytes) === 1;

        return $isText ? $bytes : preg_replace_callback(
            '/[^ -~]/',
            static fn (array $byte): string => sprintf('\x%02x', ord($byte[0])),
            $bytes,
        );
    }
}
