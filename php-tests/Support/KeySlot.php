<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

/** Where Redis Cluster puts a key: CRC16 of the hash tag, or of the key where it has none. */
final class KeySlot
{
    public static function of(string $key): int
    {
        $open = strpos($key, '{');
        if ($open !== false) {
            $close = strpos($key, '}', $open + 1);
            if ($close !== false && $close !== $open + 1) {
                $key = substr($key, $open + 1, $close - $open - 1);
            }
        }

        return self::crc16($key) % 16384;
    }

    private static function crc16(string $bytes): int
    {
        $crc = 0;
        for ($i = 0; $i < strlen($bytes); $i++) {
            $crc ^= ord($bytes[$i]) << 8;
            for ($bit = 0; $bit < 8; $bit++) {
                $crc = ($crc << 1) ^ ($crc & 0x8000 ? 0x1021 : 0);
            }
            $crc &= 0xFFFF;
        }

        return $crc;
    }
}
