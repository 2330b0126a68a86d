<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Inspect;

/**
 * How the extension names the keys that lie beside a lock's, and whether a key is one of them.
 *
 * @internal
 */
final class Keys
{
    private const SLOTS = 16_384;

    /** @var array<string, array<int, int>> what stands before a number in its hash tag, to slot to the least number */
    private static array $numbers = [];

    /** @param string $what fence or waiter */
    public static function beside(string $prefix, string $resource, string $what): string
    {
        $lock = $prefix . $resource;
        $start = self::start($prefix);
        if (strpbrk($lock, '{}') === false) {
            return $start . '{' . $lock . "}:$what";
        }
        // A name with a hash tag of its own.
        $stem = "$start$resource/";
        if (self::tag($lock) !== null && self::slot($stem) === self::slot($lock)) {
            return $stem . $what;
        }
        // Its braces make no tag: a number that leads to the same slot is the tag.
        $open = strpos($start, '{');
        $afterOpen = $open === false ? '' : substr($start, $open + 1);
        [$head, $inTag] = match (true) {
            $open === false => [$start . '{', ''],
            !str_contains($afterOpen, '}') => [$start, $afterOpen],
            default => ['~{', ''],
        };

        return $head . self::number($inTag, self::slot($lock)) . '}' . $resource . '|' . $what;
    }

    /**
     * Whether the key stands beside a lock's: with most prefixes such keys do not begin with it. A lock that is named
     * like one is said to be one too.
     */
    public static function isBeside(string $prefix, string $key): bool
    {
        $start = self::start($prefix);

        return str_starts_with($start, $prefix)
            && str_starts_with($key, $start)
            && preg_match('~[{}].*(?:\}:|/|\|)(?:fence|waiter|mark:.*)$~sD', $key) === 1;
    }

    private static function start(string $prefix): string
    {
        return (preg_match('/[{}]$/D', $prefix) === 1 ? $prefix : substr($prefix, 0, -1)) . '~';
    }

    private static function tag(string $key): ?string
    {
        return preg_match('/^[^{]*\{([^}]+)\}/', $key, $found) === 1 ? $found[1] : null;
    }

    private static function slot(string $key): int
    {
        return self::crc16(self::tag($key) ?? $key) % self::SLOTS;
    }

    /** The least one that, behind what is in its tag, leads to the slot. */
    private static function number(string $inTag, int $slot): int
    {
        $known = &self::$numbers[$inTag];
        $known ??= [];
        $before = self::crc16($inTag);
        for ($number = 0; !isset($known[$slot]); $number++) {
            $known[self::crc16((string) $number, $before) % self::SLOTS] ??= $number;
        }

        return $known[$slot];
    }

    private static function crc16(string $bytes, int $crc = 0): int
    {
        foreach (unpack('C*', $bytes) as $byte) {
            $crc ^= $byte << 8;
            for ($bit = 0; $bit < 8; $bit++) {
                $crc = (($crc << 1) ^ (($crc & 0x8000) !== 0 ? 0x1021 : 0)) & 0xFFFF;
            }
        }

        return $crc;
    }
}
