<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Table;

/** Writers of many leases at once, as no lock would let them. */
trait Races
{
    public function testWhateverTheInterleavingNoFenceEverFallsAndEveryValueIsItsFences(): void
    {
        [$seen, $refused] = [0, 0];
        // On a busy machine a whole race may pass between two looks.
        for ($race = 0; $race < 5 && $seen <= 2; $race++) {
            [$more, $also] = $this->race(writers: 4, rounds: 100, after: $race * 400);
            $seen += $more;
            $refused += $also;
        }

        self::assertGreaterThan(0, $refused, 'the writers never met');
        self::assertGreaterThan(2, $seen, 'the observer saw too little to prove anything');
    }

    /** @return array{int, int} how many fences were seen stored, and how many writes were refused */
    private function race(int $writers, int $rounds, int $after): array
    {
        $workers = [];
        for ($number = 0; $number < $writers; $number++) {
            $workers[] = $this->writer(<<<'PHP'
                say('ready');
                hear();
                $refused = 0;
                for ($round = 0; $round < $args['rounds']; $round++) {
                    $fence = $args['after'] + $round * $args['writers'] + $args['number'] + 1;
                    for (;;) {
                        try {
                            if (!$items->update(1, ['name' => "of $fence"], $fence) || $round % 3 === 0) {
                                $items->put(1, ['name' => "of $fence"], $fence);
                            }
                        } catch (RedisLease\Bridge\StaleFenceException) {
                            $refused++;
                        } catch (PDOException $failure) {
                            if ($failure->errorInfo[0] === '40001') {
                                continue;       // chosen to end a deadlock
                            }
                            throw $failure;
                        }
                        break;
                    }
                }
                say($refused);
                PHP, compact('number', 'writers', 'rounds', 'after'));
        }
        foreach ($workers as $worker) {
            $worker->hear();
        }
        foreach ($workers as $worker) {
            $worker->say('go');
        }

        [$last, $seen] = [$after, 0];
        do {
            $running = array_filter($workers, static fn ($worker) => !$worker->hasSaid());
            [$name, $fence] = $this->stored(1) ?? ['of 0', 0];
            self::assertSame("of $fence", $name);
            self::assertGreaterThanOrEqual($last, $fence, 'a fence fell');
            $seen += $fence > $last ? 1 : 0;
            $last = $fence;
        } while ($running !== []);

        $refused = 0;
        foreach ($workers as $worker) {
            $refused += $worker->hear(60.0);
            $worker->finish();
        }
        $highest = $after + $writers * $rounds;
        self::assertSame(["of $highest", $highest], $this->stored(1));

        return [$seen, $refused];
    }
}
