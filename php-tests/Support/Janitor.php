<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

/**
 * Owns the scratch directory of a test run and sees to it that no process outlives the run, even
 * when PHPUnit itself is killed: a shell holds the other end of a pipe, and when that pipe closes
 * it kills what is still registered and removes the directory.
 */
final class Janitor
{
    private const WATCH = <<<'SH'
        trap '' HUP INT TERM
        pids=
        while read -r verb pid; do
            case $verb in
                watch) pids="$pids $pid" ;;
                forget)
                    kept=
                    for p in $pids; do [ "$p" = "$pid" ] || kept="$kept $p"; done
                    pids=$kept ;;
            esac
        done
        for p in $pids; do kill -9 "$p"; done
        rm -rf -- "$1"
        SH;

    private static ?string $scratch = null;
    /** @var resource|null */
    private static $watch = null;
    /** @var resource|null */
    private static $pipe = null;
    private static int $files = 0;

    /** A path in the scratch directory that nothing uses yet; short enough for a unix socket. */
    public static function path(string $suffix): string
    {
        self::start();

        return self::$scratch . '/' . ++self::$files . $suffix;
    }

    public static function directory(string $suffix): string
    {
        $path = self::path($suffix);
        mkdir($path, 0700);

        return $path;
    }

    /** A directory that a server which runs as this user, and not as us, can use. */
    public static function directoryOf(string $user, string $suffix): string
    {
        $path = self::directory($suffix);
        chmod(self::$scratch, 0711);
        chown($path, $user);

        return $path;
    }

    public static function watch(int $pid): void
    {
        self::start();
        fwrite(self::$pipe, "watch $pid\n");
    }

    public static function forget(int $pid): void
    {
        // Destructors run after the shutdown function below.
        if (is_resource(self::$pipe)) {
            fwrite(self::$pipe, "forget $pid\n");
        }
    }

    public static function remove(string $path): void
    {
        if (is_dir($path) && !is_link($path)) {
            foreach (array_diff(scandir($path), ['.', '..']) as $name) {
                self::remove("$path/$name");
            }
            rmdir($path);
        } elseif (file_exists($path) || is_link($path)) {
            unlink($path);
        }
    }

    private static function start(): void
    {
        if (self::$scratch !== null) {
            return;
        }
        // A unix socket's path ends at 107 bytes.
        $base = strlen(sys_get_temp_dir()) < 60 ? sys_get_temp_dir() : '/tmp';
        self::$scratch = $base . '/redis-lease-' . bin2hex(random_bytes(5));
        mkdir(self::$scratch, 0700);
        self::$watch = proc_open(
            ['sh', '-c', self::WATCH, 'janitor', self::$scratch],
            [0 => ['pipe', 'r'], 1 => ['file', '/dev/null', 'w'], 2 => ['file', '/dev/null', 'w']],
            $pipes,
        );
        self::$pipe = $pipes[0];
        register_shutdown_function(static function (): void {
            fclose(self::$pipe);
            proc_close(self::$watch);
        });
    }
}
