<?php

declare(strict_types=1);

namespace RedisLease\Bench;

use RedisLease\Tests\Support\Monitor;

/** One worker, one lock, nobody else: acquire and release. */
final class Uncontended
{
    private const FLOOR_SLEEPING = 'floor: C socket, SET + DEL, sleeping';
    private const FLOOR_SPINNING = 'floor: C socket, SET + DEL, spinning';
    private const FLOOR_OURS = 'floor: C socket, our scripts, spinning';

    private const PLACEMENT = ' A client that sleeps has two speeds here: together with the server on one core, '
        . 'where no processor has to be woken, or on two. Which of them it gets changes from round to round.';

    public function __construct(private readonly Contest $contest)
    {
    }

    public function run(): void
    {
        $some = [Contest::RAW, Contest::SYMFONY, Contest::LARAVEL, Contest::OURS, Contest::SLEEPING, Contest::ANEW];
        $contest = $this->contest;
        $cores = Machine::twoCores();
        $where = $cores === null ? 'on the only core' : 'server and client on a core each';

        $rounds = $this->measure($contest->tcp, array_diff(array_keys(Contest::PEERS), Contest::APART), $cores);
        $this->show("Uncontended acquire + release, TCP loopback, $where", $rounds);
        $placed = $this->measure($contest->tcp, $some, null);
        $this->show('The same, where the scheduler puts them', $placed, self::PLACEMENT);
        $this->show("The same, unix socket, $where", $this->measure($contest->unix, $some, $cores));

        $this->judge($rounds, $placed);
        $this->draw($rounds);
    }

    /**
     * @param list<string> $titles
     * @param array{int, int}|null $cores for the server and for the clients
     */
    private function measure(Address $address, array $titles, ?array $cores): Rounds
    {
        $template = $this->template($address);
        $processes = [
            self::FLOOR_SPINNING => $this->floor('spin', $address),
            self::FLOOR_SLEEPING => $this->floor('sleep', $address),
            self::FLOOR_OURS => $this->floor('spin', $address, $template),
        ] + $this->contest->workers($titles, $address);

        return $this->contest->cycles($processes, $cores);
    }

    private function floor(string $way, Address $address, ?string $template = null): Process
    {
        $command = [$this->contest->floor, $way, $address->text, 'lock:' . $this->contest->name()];

        return Process::start($template === null ? $command : [...$command, $template]);
    }

    /** A file with the two commands that the extension sends, as the floor takes them. */
    private function template(Address $address): string
    {
        $worker = $this->contest->worker(Contest::OURS, $address);
        $worker->tell('cycles 1');
        $worker->line();
        $monitor = Monitor::start($this->contest->server);
        $worker->tell('cycles 1');
        $worker->line();
        $commands = $monitor->commands();
        $monitor->close();

        $text = '';
        $token = array_values(preg_grep('/^[0-9a-f]{32}$/', $commands[0]->words))[0];
        foreach ($commands as $command) {
            $bytes = '*' . count($command->words) . "\r\n";
            foreach ($command->words as $word) {
                $word = str_replace($token, str_repeat('T', 32), $word);
                $word = preg_replace('/^\d{16}$/', str_repeat('F', 16), $word);
                $bytes .= '$' . strlen($word) . "\r\n$word\r\n";
            }
            $text .= strlen($bytes) . "\n$bytes";
        }
        $file = dirname($this->contest->floor) . '/template';
        file_put_contents($file, $text);

        return $file;
    }

    private function show(string $title, Rounds $rounds, string $remark = ''): void
    {
        $this->contest->report->section(
            $title,
            "Each in a process of its own, {$rounds->rounds} interleaved rounds of {$rounds->cycles} cycles, "
            . "{$rounds->warmUp} rounds before them thrown away. Ratios are to phpredis by hand, round by round; "
            . 'medians; CPU in µs per cycle, of the client process and of the server\'s thread. '
            . $rounds->disturbance() . $remark,
        );
        $this->contest->report->table($rounds->table(Contest::RAW));
    }

    private function judge(Rounds $rounds, Rounds $placed): void
    {
        $ratio = $rounds->ratio(...);
        $symfony = array_filter([
            $ratio(Contest::OURS, Contest::SYMFONY_KEPT, 'wall'),
            $ratio(Contest::ANEW, Contest::SYMFONY, 'wall'),
        ]);
        $bars = $this->contest->bars;
        $bars->atMost('uncontended cycle, to phpredis by hand', 0.50, $ratio(Contest::OURS, Contest::RAW, 'wall'));
        $bars->atMost('the same with redis_lease.spin=0', 1.05, $ratio(Contest::SLEEPING, Contest::RAW, 'wall'));
        $bars->atMost('uncontended cycle, to Symfony Lock', 0.25, $symfony === [] ? null : max($symfony));
        $bars->atMost('CPU of the client per cycle, to phpredis', 1.00, $ratio(Contest::OURS, Contest::RAW, 'client'));
        $ratio = $placed->ratio(...);
        $bars->told('where the scheduler puts them: to phpredis by hand', $ratio(Contest::OURS, Contest::RAW, 'wall'));
        $bars->told('and with redis_lease.spin=0', $ratio(Contest::SLEEPING, Contest::RAW, 'wall'));
    }

    private function draw(Rounds $rounds): void
    {
        $titles = array_filter(
            [self::FLOOR_SPINNING, Contest::OURS, Contest::SLEEPING, Contest::ANEW, ...array_keys(Contest::PEERS)],
            $rounds->has(...),
        );
        $this->contest->chart->panel('Uncontended acquire + release, µs', array_map(
            static fn (string $title) => $rounds->median($title, 'wall'),
            array_combine($titles, $titles),
        ), '%.0f');
        $this->contest->chart->panel('CPU of the client per cycle, µs', array_map(
            static fn (string $title) => $rounds->median($title, 'client'),
            array_combine($titles, $titles),
        ), '%.0f');
    }
}
