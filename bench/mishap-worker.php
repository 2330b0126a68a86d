<?php

/*
 * A worker that things happen to: it holds, waits, is aborted by signals, and may be killed at any moment.
 * Does what its input says, line by line, and answers each with a line of JSON.
 *
 * Usage: php bench/mishap-worker.php DSN
 */

declare(strict_types=1);

final class Aborted extends Exception
{
}

ini_set('redis_lease.dsn', $argv[1]);

$isArmed = false;
pcntl_async_signals(true);
pcntl_signal(SIGUSR1, static function () use (&$isArmed): void {
    if ($isArmed) {
        throw new Aborted();
    }
});

$say = static function (mixed $answer): void {
    fwrite(STDOUT, json_encode($answer) . "\n");
};

$say('ready');
while (($line = fgets(STDIN)) !== false) {
    $words = explode(' ', trim($line));
    switch ($words[0]) {
        case 'acquire': // name, TTL, wait: when it was held, or null
            $lock = new DistributedLock($words[1], (float) $words[2]);
            $say($lock->acquire((float) $words[3]) ? hrtime(true) : null);
            break;
        case 'release': // when that was begun
            $before = hrtime(true);
            $lock->release();
            $say($before);
            break;
        case 'hold': // name, count, µs: takes the lock so many times, for so long each
            for ($i = 0; $i < (int) $words[2]; $i++) {
                $lock = new DistributedLock($words[1], 1.0);
                $lock->acquire(30.0);
                usleep((int) $words[3]);
                $lock->release();
            }
            $say(null);
            break;
        case 'waits': // name, count, longest wait: how many ended in which way, and how late the latest was, in ms
            $ended = ['held' => 0, 'timed out' => 0, 'aborted' => 0, 'late' => 0.0];
            for ($i = 0; $i < (int) $words[2]; $i++) {
                $lock = new DistributedLock($words[1], 1.0);
                $wait = (float) $words[3] * random_int(0, 1000) / 1000;
                $start = hrtime(true);
                $isHeld = null;
                try {
                    $isArmed = true;
                    $isHeld = $lock->acquire($wait);
                    $isArmed = false;
                } catch (Aborted) {
                    $isArmed = false;
                }
                $late = (hrtime(true) - $start) / 1e6 - 1000 * $wait;
                if ($lock->isHeld()) {
                    usleep(random_int(0, 2000));
                    $lock->release();
                }
                $ended['late'] = $isHeld === null ? $ended['late'] : max($ended['late'], $late);
                $ended[match ($isHeld) { true => 'held', false => 'timed out', null => 'aborted' }]++;
            }
            $say($ended);
            break;
    }
}
