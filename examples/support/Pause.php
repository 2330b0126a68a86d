<?php

declare(strict_types=1);

/**
 * Two workers in processes of their own. The first is stopped in the middle of its work until the second has done
 * the same work, and goes on then: what a paused virtual machine, a swapped-out process or a long garbage
 * collection does to a worker.
 */
final class Pause
{
    /** Of the first worker's work, in seconds of CPU: so time for which it is stopped does not count. */
    private const WORK_SECONDS = 0.3;

    private readonly float $start;

    /** @param Closure(float, string, string): void $tell told what happens: after how many seconds, to whom, what */
    public function __construct(private readonly Closure $tell)
    {
        $this->start = microtime(true);
    }

    /**
     * @param Closure(string, Closure(string): void, Closure(): void): void $worker called in each process with its
     *     name, what it can say, and the work that takes it a while
     *
     * @return array{A: list<string>, B: list<string>} what each has said
     */
    public function play(Closure $worker): array
    {
        [$a, $ofA] = $this->fork('A', $worker);
        try {
            $said = ['A' => [$this->hear('A', $ofA)], 'B' => []];

            posix_kill($a, SIGSTOP);
            pcntl_waitpid($a, $status, WUNTRACED);
            if (!pcntl_wifstopped($status)) {
                throw new RuntimeException('worker A ended before it could be stopped');
            }
            $this->tell('A', 'is stopped in the middle of its work');

            [$b, $ofB] = $this->fork('B', $worker);
            $said['B'] = $this->hearAll('B', $ofB);
            pcntl_waitpid($b, $status);

            $this->tell('A', 'goes on');
        } finally {
            posix_kill($a, SIGCONT);
        }
        array_push($said['A'], ...$this->hearAll('A', $ofA));
        pcntl_waitpid($a, $status);

        return $said;
    }

    /** @return array{int, resource} the process, and the line on which it says something */
    private function fork(string $name, Closure $worker): array
    {
        [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $pid = pcntl_fork();
        if ($pid === -1) {
            throw new RuntimeException('no more processes can be started');
        }
        if ($pid === 0) {
            fclose($ours);
            $say = static function (string $what) use ($theirs): void {
                fwrite($theirs, "$what\n");
            };
            try {
                $worker($name, $say, self::work(...));
            } catch (Throwable $e) {
                $say(strtr($e::class . ': ' . $e->getMessage(), "\n", ' '));
            }
            exit(0);
        }
        fclose($theirs);

        return [$pid, $ours];
    }

    /** Plain PHP code. */
    private static function work(): void
    {
        $used = static function (): float {
            $usage = getrusage();

            return $usage['ru_utime.tv_sec'] + $usage['ru_utime.tv_usec'] / 1e6
                + $usage['ru_stime.tv_sec'] + $usage['ru_stime.tv_usec'] / 1e6;
        };
        for ($end = $used() + self::WORK_SECONDS; $used() < $end;) {
            hash('sha256', 'invoice 42');
        }
    }

    /**
     * @param resource $line
     * @return list<string>
     */
    private function hearAll(string $who, $line): array
    {
        for ($all = []; ($said = $this->hear($who, $line)) !== null; $all[] = $said);

        return $all;
    }

    /** @param resource $line */
    private function hear(string $who, $line): ?string
    {
        $said = fgets($line);
        if ($said === false) {
            return null;
        }
        $this->tell($who, rtrim($said));

        return rtrim($said);
    }

    private function tell(string $who, string $what): void
    {
        ($this->tell)(microtime(true) - $this->start, $who, $what);
    }
}
