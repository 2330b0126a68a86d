<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Table;

/** Writers of many leases at once, as no lock would let them. */
trait Races
{
    public function testWhateverTheInterleavingNoFenceEverFallsAndEveryValueIsItsFences(): void
    {
        [$writers, $rounds] = [4, 100];
        $workers = [];
        for ($number = 0; $number < $writers; $number++) {
            $workers[] = $this->writer(<<<'PHP'
                say('ready');
                hear();
                $refused = 0;
                for ($round = 0; $round < $args['rounds']; $round++) {
                    $fence = $round * $args['writers'] + $args['number'] + 1;
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
                PHP, compact('number', 'writers', 'rounds'));
        }
        foreach ($workers as $worker) {
            $worker->hear();
        }
        foreach ($workers as $worker) {
            $worker->say('go');
        }

        [$last, $seen] = [0, 0];
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
        self::assertSame(['of ' . $writers * $rounds, $writers * $rounds], $this->stored(1));
        self::assertGreaterThan(0, $refused, 'the writers never met');
        self::assertGreaterThan(2, $seen, 'the observer saw too little to prove anything');
    }
}
