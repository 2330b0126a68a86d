<?php

declare(strict_types=1);

/**
 * Many processes that start one action at the same instant.
 */
final class Crowd
{
    /** Between the last process being ready and the start. */
    private const START_DELAY = 0.05;

    /**
     * @param Closure(int): (Closure(): string) $prepare called in each process with its number, from 1; what it
     *     returns is called at the start and gives the outcome
     *
     * @return array<int, array{outcome: string, seconds: float}> per number, the seconds counted from the start
     */
    public static function rush(int $size, Closure $prepare): array
    {
        $lines = [];
        for ($number = 1; $number <= $size; $number++) {
            [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
            $pid = pcntl_fork();
            if ($pid === -1) {
                throw new RuntimeException('no more processes can be started');
            }
            if ($pid === 0) {
                // Or a process would not see the end of its line when the parent is killed.
                array_map(fclose(...), [$ours, ...$lines]);
                self::takePart($theirs, $number, $prepare);
            }
            fclose($theirs);
            $lines[$number] = $ours;
        }

        $ready = array_filter($lines, fgets(...));      // each says so in a line
        $start = sprintf("%.6F\n", microtime(true) + self::START_DELAY);
        foreach ($ready as $line) {
            fwrite($line, $start);
        }

        $answers = [];
        foreach ($lines as $number => $line) {
            $answers[$number] = json_decode((string) stream_get_contents($line), true)
                ?? ['outcome' => 'crashed', 'seconds' => 0.0];
        }
        while (pcntl_wait($status) > 0);

        return $answers;
    }

    /** @param resource $line */
    private static function takePart($line, int $number, Closure $prepare): never
    {
        try {
            $action = $prepare($number);
        } catch (Throwable $e) {
            $action = static fn (): never => throw $e;
        }
        fwrite($line, "ready\n");
        $start = (float) fgets($line);
        if ($start === 0.0) {
            exit(1);        // the parent is gone
        }
        usleep((int) max(0, ($start - microtime(true)) * 1e6));

        try {
            $outcome = $action();
        } catch (Throwable $e) {
            $outcome = $e::class . ': ' . $e->getMessage();
        }
        fwrite($line, json_encode(
            ['outcome' => $outcome, 'seconds' => microtime(true) - $start],
            JSON_INVALID_UTF8_SUBSTITUTE,
        ));
        exit(0);
    }
}
