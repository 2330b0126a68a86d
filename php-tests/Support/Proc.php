<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

/** What the kernel tells about a process. */
final class Proc
{
    /**
     * Seconds in which the process was ready to run and had no CPU, since it began: no call is to be
     * blamed for that. 0.0 where the kernel does not count.
     */
    public static function runDelay(int|string $pid = 'self'): float
    {
        $counts = @file_get_contents("/proc/$pid/schedstat");

        return $counts === false ? 0.0 : (int) explode(' ', $counts)[1] / 1e9;
    }

    /** Resident memory, in kB. */
    public static function memory(int|string $pid = 'self'): int
    {
        preg_match('/^VmRSS:\s+(\d+)/m', (string) file_get_contents("/proc/$pid/status"), $found);

        return (int) $found[1];
    }

    /** Open file descriptors. */
    public static function descriptors(int|string $pid = 'self'): int
    {
        return count(scandir("/proc/$pid/fd")) - 2;
    }

    /** Runs the action: its result, and the seconds it took, without those in which there was no CPU for it. */
    public static function timed(callable $action): array
    {
        $delay = self::runDelay();
        [$result, $seconds] = timed($action);

        return [$result, max(0.0, $seconds - max(0.0, self::runDelay() - $delay))];
    }
}
