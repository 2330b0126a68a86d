<?php

/*
 * The program of FaultProxy: passes bytes on between clients and one server, and breaks the line
 * where it is told to. It never changes or reorders a byte.
 *
 * Arguments: the server's address, as stream_socket_client() takes it. Standard input takes one command a
 * line, a JSON object with "do" and what that needs; each is answered by a line once it is in force.
 * The first line of the output is the port that clients find it on.
 */

declare(strict_types=1);

namespace RedisLease\Tests\Support\Proxy;

const CHUNK = 65536;
/** How long an orphaned server connection may take to answer what was sent on it. */
const DRAIN = 5.0;

final class Line
{
    /** @var array<string, list<array{float, string}>> what is under way, with the time it is due */
    public array $queue = ['request' => [], 'reply' => []];
    /** @var array<string, string> what arrived while its direction was held */
    public array $held = ['request' => '', 'reply' => ''];
    /** @var array<string, bool> */
    public array $isHeld = ['request' => false, 'reply' => false];
    /** Whether the end of the client's stream is still to be told to the server. */
    public bool $clientEnded = false;
    public ?float $drainBy = null;

    /**
     * @param resource|null $client
     * @param resource|null $server
     */
    public function __construct(public $client, public $server)
    {
    }

    public function isOver(): bool
    {
        return $this->client === null && $this->server === null;
    }
}

final class Proxy
{
    /** @var resource|null */
    private $listener = null;
    private string $address = 'tcp://127.0.0.1:0';
    /** @var array<int, Line> */
    private array $lines = [];
    private int $accepted = 0;
    private string $forNew = 'pass';
    /** @var array{direction: string, after: int, how: string, later: string}|null */
    private ?array $plan = null;
    private bool $fired = false;
    /** @var array<string, string> all that was asked and answered since the last plan */
    private array $seen = ['request' => '', 'reply' => ''];
    /** @var array<string, float> */
    private array $delay = ['request' => 0.0, 'reply' => 0.0];
    private string $input = '';

    public function __construct(private string $upstream)
    {
        $this->listen();
        $this->address = 'tcp://' . stream_socket_get_name($this->listener, false);
        $this->answer(['port' => (int) substr(strrchr($this->address, ':'), 1)]);
        stream_set_blocking(STDIN, false);
    }

    public function run(): never
    {
        for (;;) {
            $read = [STDIN];
            if ($this->listener !== null) {
                $read[] = $this->listener;
            }
            $owners = [];
            foreach ($this->lines as $line) {
                foreach (['client', 'server'] as $side) {
                    if ($line->$side !== null && !($side === 'client' && $line->clientEnded)) {
                        $read[] = $line->$side;
                        $owners[(int) $line->$side] = [$line, $side];
                    }
                }
            }
            $wait = min(5.0, max(0.0, $this->nextDue() - microtime(true)));
            $write = $except = null;
            if (@stream_select($read, $write, $except, (int) $wait, (int) (fmod($wait, 1.0) * 1e6)) === false) {
                continue;
            }
            foreach ($read as $stream) {
                if ($stream === STDIN) {
                    $this->readCommands();
                } elseif ($stream === $this->listener) {
                    $this->accept();
                } else {
                    [$line, $side] = $owners[(int) $stream];
                    if ($line->$side === $stream) {
                        $this->readFrom($line, $side);
                    }
                }
            }
            $this->moveDue();
            $this->lines = array_filter($this->lines, static fn (Line $line) => !$line->isOver());
        }
    }

    private function listen(): void
    {
        $context = stream_context_create(['socket' => ['so_reuseaddr' => true, 'tcp_nodelay' => true, 'backlog' => 128]]);
        $this->listener = stream_socket_server($this->address, $code, $why, context: $context)
            ?: throw new \RuntimeException($why);
    }

    private function accept(): void
    {
        $client = @stream_socket_accept($this->listener, 0.0);
        if ($client === false) {
            return;
        }
        $this->accepted++;
        stream_set_blocking($client, false);
        if ($this->forNew === 'reject') {
            self::reset($client);
            return;
        }
        $server = @stream_socket_client($this->upstream, $code, $why, 1.0);
        if ($server === false) {
            // As it would be without us: nobody is there.
            self::reset($client);
            return;
        }
        stream_set_blocking($server, false);
        $line = new Line($client, $server);
        if ($this->forNew === 'hang') {
            $line->isHeld = ['request' => true, 'reply' => true];
        }
        $this->lines[$this->accepted] = $line;
    }

    private function readFrom(Line $line, string $side): void
    {
        $direction = $side === 'client' ? 'request' : 'reply';
        $bytes = @fread($line->$side, CHUNK);
        if ($bytes === '' || $bytes === false) {
            if ($bytes === false || feof($line->$side)) {
                $this->ended($line, $side);
            }
            return;
        }
        $this->seen[$direction] .= $bytes;
        if ($side === 'server' && $line->client === null) {
            return; // The answer to an orphan's command is for nobody.
        }
        $plan = $this->plan;
        if ($line->isHeld[$direction]) {
            $line->held[$direction] .= $bytes;
        } elseif ($plan !== null && !$this->fired && $plan['direction'] === $direction
            && strlen($this->seen[$direction]) >= $plan['after']) {
            $passes = max(0, strlen($bytes) - (strlen($this->seen[$direction]) - $plan['after']));
            $this->send($line, $direction, substr($bytes, 0, $passes));
            $line->held[$direction] .= substr($bytes, $passes);
            $this->fire($line, $plan);
        } elseif ($this->delay[$direction] > 0.0 || $line->queue[$direction] !== []) {
            // Nothing overtakes what came before, also when the delay gets shorter.
            $before = end($line->queue[$direction])[0] ?? 0.0;
            $line->queue[$direction][] = [max($before, microtime(true) + $this->delay[$direction]), $bytes];
        } else {
            $this->send($line, $direction, $bytes);
        }
    }

    private function fire(Line $line, array $plan): void
    {
        $this->fired = true;
        $this->setForNew($plan['later']);
        if ($plan['how'] === 'hold') {
            $line->isHeld = ['request' => true, 'reply' => true];
        } else {
            $this->cut($line, $plan['how']);
        }
    }

    /** Ends the client's side now; the server's as soon as it has answered what it got whole. */
    private function cut(Line $line, string $how): void
    {
        if ($line->client !== null) {
            $how === 'reset' ? self::reset($line->client) : fclose($line->client);
            $line->client = null;
        }
        $line->clientEnded = false;
        $this->orphan($line);
    }

    private function orphan(Line $line): void
    {
        $line->held = ['request' => '', 'reply' => ''];
        $line->isHeld = ['request' => false, 'reply' => false];
        $line->queue = ['request' => [], 'reply' => []];
        if ($line->server !== null) {
            @stream_socket_shutdown($line->server, STREAM_SHUT_WR);
            $line->drainBy = microtime(true) + DRAIN;
        }
    }

    private function ended(Line $line, string $side): void
    {
        if ($side === 'server') {
            fclose($line->server);
            $line->server = null;
            if ($line->client !== null && !$line->isHeld['reply'] && $line->queue['reply'] === []) {
                fclose($line->client);
                $line->client = null;
            }
        } elseif ($line->held['request'] !== '' || $line->queue['request'] !== []) {
            // A command that is under way stays so when its client is gone.
            $line->clientEnded = true;
        } else {
            fclose($line->client);
            $line->client = null;
            $this->orphan($line);
        }
    }

    private function send(Line $line, string $direction, string $bytes): void
    {
        $to = $direction === 'request' ? $line->server : $line->client;
        $deadline = microtime(true) + 1.0;
        while ($to !== null && $bytes !== '' && microtime(true) < $deadline) {
            $written = @fwrite($to, $bytes);
            if ($written === false) {
                return; // The other side is gone; reading from it will tell.
            }
            $bytes = substr($bytes, $written);
        }
    }

    private function nextDue(): float
    {
        $due = [INF];
        foreach ($this->lines as $line) {
            array_push($due, $line->drainBy ?? INF, $line->queue['request'][0][0] ?? INF, $line->queue['reply'][0][0] ?? INF);
        }

        return min($due);
    }

    private function moveDue(): void
    {
        $now = microtime(true);
        foreach ($this->lines as $line) {
            foreach (['request', 'reply'] as $direction) {
                while (($line->queue[$direction][0][0] ?? INF) <= $now) {
                    $this->send($line, $direction, array_shift($line->queue[$direction])[1]);
                }
            }
            if ($line->clientEnded && $line->queue['request'] === [] && $line->held['request'] === '') {
                $line->clientEnded = false;
                $this->ended($line, 'client');
            }
            if ($line->server === null && $line->client !== null && $line->queue['reply'] === [] && !$line->isHeld['reply']) {
                fclose($line->client);
                $line->client = null;
            }
            if (($line->drainBy ?? INF) <= $now && $line->server !== null) {
                fclose($line->server);
                $line->server = null;
            }
        }
    }

    private function readCommands(): void
    {
        $bytes = fread(STDIN, CHUNK);
        if (($bytes === '' || $bytes === false) && feof(STDIN)) {
            exit(0);
        }
        $this->input .= $bytes;
        while (($end = strpos($this->input, "\n")) !== false) {
            $command = json_decode(substr($this->input, 0, $end), true, 8, JSON_THROW_ON_ERROR);
            $this->input = substr($this->input, $end + 1);
            $this->answer($this->obey($command));
        }
    }

    private function obey(array $command): array
    {
        switch ($command['do']) {
            case 'plan':
                $this->plan = $command['plan'];
                $this->fired = false;
                $this->seen = ['request' => '', 'reply' => ''];
                break;
            case 'new':
                $this->setForNew($command['how']);
                break;
            case 'lead':
                $this->upstream = $command['upstream'];
                break;
            case 'delay':
                $this->delay = $command['seconds'];
                break;
            case 'cut':
                foreach ($this->lines as $line) {
                    $this->cut($line, $command['how']);
                }
                break;
            case 'hold':
                foreach ($this->lines as $line) {
                    $line->isHeld = array_merge($line->isHeld, array_fill_keys($command['directions'], true));
                }
                break;
            case 'deliver':
                return ['delivered' => $this->deliver()];
            case 'count':
                return ['open' => $this->count(true), 'orphans' => $this->count(false), 'accepted' => $this->accepted];
            case 'seen':
                return array_map(base64_encode(...), $this->seen) + ['fired' => $this->fired];
        }

        return [];
    }

    /** Passes on all that was held, whether its client still lives or not. */
    private function deliver(): array
    {
        $delivered = [];
        foreach ($this->lines as $line) {
            $line->isHeld = ['request' => false, 'reply' => false];
            foreach (['request', 'reply'] as $direction) {
                if ($line->held[$direction] !== '') {
                    $bytes = $line->held[$direction];
                    $line->held[$direction] = '';
                    $this->send($line, $direction, $bytes);
                    if ($direction === 'request') {
                        $delivered[] = base64_encode($bytes);
                    }
                }
            }
        }

        return $delivered;
    }

    /** @return int lines with a living client; or without, and with nothing held back: the server is still at them */
    private function count(bool $withClient): int
    {
        $counted = static fn (Line $line) => match (true) {
            $line->client === null => !$withClient && $line->server !== null,
            $line->clientEnded => !$withClient && $line->held['request'] === '' && $line->queue['request'] === [],
            default => $withClient,
        };

        return count(array_filter($this->lines, $counted));
    }

    private function setForNew(string $how): void
    {
        $this->forNew = $how;
        if ($how === 'refuse' && $this->listener !== null) {
            fclose($this->listener);
            $this->listener = null;
        } elseif ($how !== 'refuse' && $this->listener === null) {
            $this->listen();
        }
    }

    /** Ends a TCP connection with a reset instead of an orderly end. */
    private static function reset($stream): void
    {
        socket_set_option(socket_import_stream($stream), SOL_SOCKET, SO_LINGER, ['l_onoff' => 1, 'l_linger' => 0]);
        fclose($stream);
    }

    private function answer(array $answer): void
    {
        fwrite(STDOUT, json_encode($answer, JSON_THROW_ON_ERROR) . "\n");
    }
}

(new Proxy($argv[1]))->run();
