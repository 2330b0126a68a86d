<?php

/*
 * One process of a measurement: a peer, its connection, and one lock. It does what its input says, line by
 * line, and answers each with a line of JSON. Times are of the monotonic clock, which all processes share.
 *
 * Usage: php bench/worker.php CLASS ADDRESS NAME
 */

declare(strict_types=1);

use RedisLease\Bench\Address;

require __DIR__ . '/autoload.php';

[, $class, $address, $name] = $argv;
$peer = new $class(new Address($address), $name);

// The busiest moment of a run is no time to make objects that earlier ones left: nothing here is cyclic.
gc_disable();

$cpu = static function (): int {
    $usage = getrusage();

    return 1000 * (1_000_000 * ($usage['ru_utime.tv_sec'] + $usage['ru_stime.tv_sec'])
        + $usage['ru_utime.tv_usec'] + $usage['ru_stime.tv_usec']);
};

$say = static function (mixed $answer): void {
    fwrite(STDOUT, (is_string($answer) ? $answer : json_encode($answer)) . "\n");
};

$sleepUntil = static function (int $moment): void {
    $left = intdiv($moment - hrtime(true), 1000);
    if ($left > 0) {
        usleep($left);
    }
};

while (($line = fgets(STDIN)) !== false) {
    $words = explode(' ', trim($line));
    switch ($words[0]) {
        case 'cycles': // count: WALL_NS CPU_NS, no JSON, as the floor answers
            $cpuBefore = $cpu();
            $before = hrtime(true);
            $peer->cycles((int) $words[1]);
            $wall = hrtime(true) - $before;
            $say($wall . ' ' . ($cpu() - $cpuBefore));
            break;
        case 'acquire': // when it was held
            $peer->acquire();
            $say(hrtime(true));
            break;
        case 'release': // at this moment; the answer waits until the lock has long changed hands
            $sleepUntil((int) $words[1]);
            $before = hrtime(true);
            $peer->release();
            usleep(2000);
            $say($before);
            break;
        case 'sections': // count, begin at this moment, ns each: a list of [asked, held, done]
            $sections = [];
            $sleepUntil((int) $words[2]);
            $pause = intdiv((int) $words[3], 1000);
            for ($i = 0; $i < (int) $words[1]; $i++) {
                $asked = hrtime(true);
                $peer->acquire();
                $held = hrtime(true);
                usleep($pause);
                $sections[] = [$asked, $held, hrtime(true)];
                $peer->release();
            }
            $say($sections);
            break;
    }
}
