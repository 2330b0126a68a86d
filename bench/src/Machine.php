<?php

declare(strict_types=1);

namespace RedisLease\Bench;

use RedisLease\Tests\Support\RedisServer;
use RuntimeException;

/** What a run was taken on: figures mean nothing without it. */
final class Machine
{
    /** @return array<string, string> */
    public static function description(RedisServer $server): array
    {
        $server = $server->command('INFO', 'server');
        $version = preg_match('/^(valkey|redis)_version:(\S+)/m', strstr($server, 'valkey_version') ?: $server, $found)
            ? "$found[1] $found[2]" : 'unknown';

        return [
            'date' => gmdate('Y-m-d H:i') . ' UTC',
            'processor' => self::processor() . ', ' . self::cores() . ' cores',
            'kernel' => php_uname('s') . ' ' . php_uname('r'),
            'server' => ucfirst($version) . ', a private one on this machine',
            'PHP' => PHP_VERSION . (PHP_ZTS ? ' ZTS' : ' NTS') . ', CLI, without opcache and JIT',
            'peers' => self::peers(),
            'this extension' => phpversion('redis_lease') . ', commit ' . self::commit(),
            'load at start' => self::load(),
        ];
    }

    public static function cores(): int
    {
        return max(1, preg_match_all('/^processor\s*:/m', (string) @file_get_contents('/proc/cpuinfo')));
    }

    /**
     * Two processors that share no core, or null when there are none.
     *
     * @return array{int, int}|null
     */
    public static function twoCores(): ?array
    {
        $siblings = (string) @file_get_contents('/sys/devices/system/cpu/cpu0/topology/thread_siblings_list');
        preg_match_all('/\d+/', $siblings, $numbers);
        for ($processor = 1; $processor < self::cores(); $processor++) {
            if (!in_array((string) $processor, $numbers[0], true)) {
                return [0, $processor];
            }
        }

        return null;
    }

    /** Keeps a process, and all its threads, on one processor; null lets it go. */
    public static function pin(int $pid, ?int $processor): void
    {
        $processor ??= '0-' . (self::cores() - 1);
        exec("taskset -acp $processor $pid 2>&1", $output, $code);
        if ($code !== 0) {
            throw new RuntimeException(implode("\n", $output));
        }
    }

    public static function load(): string
    {
        return implode(' ', array_map(static fn (float $load) => sprintf('%.2f', $load), sys_getloadavg()));
    }

    private static function processor(): string
    {
        preg_match('/^model name\s*:\s*(.+)$/m', (string) @file_get_contents('/proc/cpuinfo'), $found);

        return $found[1] ?? php_uname('m');
    }

    private static function peers(): string
    {
        $peers = [];
        foreach (Contest::PEERS as $peer) {
            $package = $peer::package();
            if ($package !== null) {
                $version = trim((string) shell_exec("dpkg-query -W -f '\${Version}' $package 2>/dev/null"));
                $peers[$package] = $package . ' ' . ($peer::isThere() ? $version : '(absent)');
            }
        }

        return implode(', ', $peers);
    }

    private static function commit(): string
    {
        $git = 'git -C ' . escapeshellarg(dirname(__DIR__)) . ' ';
        $commit = trim((string) shell_exec($git . 'rev-parse --short HEAD 2>/dev/null'));
        if ($commit === '') {
            return 'unknown';
        }
        $changed = trim((string) shell_exec($git . 'status --porcelain -- ../src ../Cargo.* 2>/dev/null'));

        return $commit . ($changed === '' ? '' : ' with changes');
    }
}
