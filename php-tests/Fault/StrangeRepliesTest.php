<?php

declare(strict_types=1);

namespace RedisLease\Tests\Fault;

use DistributedLock;
use PHPUnit\Framework\TestCase;
use RedisLease\Connection;
use RedisLease\ConnectionException;
use RedisLease\OutcomeUnknownException;
use RedisLease\ServerException;
use RedisLease\Tests\Support\FakeServer;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\Proc;
use RedisLease\Tests\Support\Worker;
use Throwable;

/** What no real server can be brought to say: it is not taken for an answer, and costs no more than the time-outs. */
final class StrangeRepliesTest extends TestCase
{
    private const NONSENSE = [
        'a negative fence' => ":-7\r\n",
        'a fence that is a string' => "\$1\r\n5\r\n",
        'a fence past all numbers' => ":9223372036854775808\r\n",
        'a word without its number' => "*1\r\n\$4\r\nlost\r\n",
        'a word too many' => "*3\r\n\$4\r\nlost\r\n:0\r\n:0\r\n",
        'another word' => "*2\r\n\$4\r\nLOST\r\n:0\r\n",
        'a word of another type' => "*2\r\n+lost\r\n:0\r\n",
        'OK' => "+OK\r\n",
        'an empty array' => "*0\r\n",
        'a null array' => "*-1\r\n",
        'an array of nulls' => "*2\r\n\$-1\r\n\$-1\r\n",
        'a nested array' => "*1\r\n*2\r\n\$4\r\nlost\r\n:0\r\n",
        'a web server' => "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        'zero bytes' => "\0\0\0\0\r\n",
        'TLS' => "\x15\x03\x01\x00\x02\x02\x46\r\n",
        'a length that is no number' => "\$abc\r\nabc\r\n",
        'a huge string' => "\$99999999999\r\n",
        'a huge array' => "*2147483647\r\n",
        'a length past all numbers' => "\$99999999999999999999999999\r\n",
        'nesting without end' => 'DEEP',
    ];

    private FakeServer $server;

    protected function setUp(): void
    {
        $this->server = FakeServer::start();
    }

    protected function tearDown(): void
    {
        $this->server->stop();
    }

    public function testNonsenseIsNeverTakenForAnAnswer(): void
    {
        foreach (self::NONSENSE as $what => $bytes) {
            $this->server->answerWith($bytes === 'DEEP' ? str_repeat("*1\r\n", 10_000) : $bytes);
            foreach (['acquire', 'renew', 'release', 'forceRelease'] as $call) {
                // A busy machine may take up the time before anything is sent, which is no answer to what is asked here.
                for ($try = 0; $try === 0 || ($caught instanceof ConnectionException && $try < 5); $try++) {
                    $connection = new Connection($this->server->dsn(), 0.02, 0.02);
                    $lock = DistributedLock::restore('order:1', 'a token', 30.0, $connection);
                    [$caught, $seconds] = Proc::timed(static fn () => self::caught(static fn () => $lock->$call()));
                }

                self::assertInstanceOf(OutcomeUnknownException::class, $caught, "$call: $what");
                self::assertFalse($lock->isHeld(), "$call: $what");
                self::assertLessThan(0.04 + 0.1, $seconds, "$call: $what");
                $connection->close();
            }
        }
    }

    public function testAFenceIsAPositiveNumberOrThereIsNoLease(): void
    {
        foreach ([":0\r\n", ":-7\r\n", ":-9223372036854775808\r\n", "+5\r\n", "\$1\r\n5\r\n", "\$-1\r\n", "*1\r\n:5\r\n"] as $bytes) {
            $this->server->answerWith($bytes);
            $connection = new Connection($this->server->dsn(), 0.02, 0.02);
            $lock = new DistributedLock('order:1', 30.0, connection: $connection);
            self::assertInstanceOf(OutcomeUnknownException::class, self::caught(static fn () => $lock->acquire()), $bytes);
            self::assertFalse($lock->isHeld(), $bytes);
            self::assertNull($lock->fence(), $bytes);
            $connection->close();
        }
    }

    public function testAnOwnerIsAStringOrNothing(): void
    {
        foreach (["+OK\r\n", ":1\r\n", "*0\r\n", "HTTP/1.1 400\r\n\r\n"] as $bytes) {
            $this->server->answerWith($bytes);
            $connection = new Connection($this->server->dsn(), 0.02, 0.02);
            $lock = new DistributedLock('order:1', 30.0, connection: $connection);
            self::assertInstanceOf(OutcomeUnknownException::class, self::caught(static fn () => $lock->owner()), $bytes);
            $connection->close();
        }
    }

    public function testBytesThatFollowAReplyAreNotTheNextOne(): void
    {
        $this->server->answerWith(":5\r\n*2\r\n\$4\r\nlost\r\n:1\r\n");
        $lock = new DistributedLock('order:1', 30.0, connection: new Connection($this->server->dsn(), 1.0, 1.0));
        self::assertTrue($lock->acquire());
        for ($i = 0; $i < 5; $i++) {
            self::assertTrue($lock->renew(), 'the answer to an earlier command was taken for this one');
        }
        self::assertSame(5, $lock->fence());
        $lock->detach();
    }

    public function testTheInnerWordOfAnErrorThatAnOldServerWrapsCounts(): void
    {
        $wrapped = '-ERR Error running script (call to f_0123456789): @user_script:3: @user_script: 3: %s';
        $said = [
            sprintf($wrapped, "-READONLY You can't write against a read only replica.") => 'READONLY',
            sprintf($wrapped, "-OOM command not allowed when used memory > 'maxmemory'.") => 'OOM',
            sprintf($wrapped, 'WRONGTYPE Operation against a key holding the wrong kind of value') => 'WRONGTYPE',
            sprintf($wrapped, '-MISCONF Redis is configured to save RDB snapshots') => 'MISCONF',
            '-MOVED 3999 127.0.0.1:6381' => 'MOVED',
            '-TRYAGAIN Multiple keys request during rehashing of slot' => 'TRYAGAIN',
            '-ERR max number of clients reached' => 'ERR',
            '-LOADING' => 'LOADING',
        ];
        foreach ($said as $reply => $code) {
            $this->server->answerWith("$reply\r\n");
            $connection = new Connection($this->server->dsn(), 0.5, 0.5);
            $lock = new DistributedLock('order:1', 30.0, connection: $connection);
            $caught = self::caught(static fn () => $lock->acquire());
            self::assertInstanceOf(ServerException::class, $caught, $reply);
            self::assertSame($code, $caught->redisCode, $reply);
            $connection->close();
        }
    }

    public function testAReplyThatNeverEndsCostsNoMoreThanTheTimeouts(): void
    {
        // Each of these would be followed for ever by who waits for "the rest" anew after every byte.
        $endless = [
            'a trickle' => "usleep(2000) ?? fwrite(\$client, 'x');",
            'a flood of one line' => "fwrite(\$client, str_repeat('x', 1 << 20));",
            'a flood of replies' => "fwrite(\$client, str_repeat(\"+OK\\r\\n\", 1000));",
            'a flood of elements' => "fwrite(\$client, str_repeat(\"*3\\r\\n\", 1000));",
        ];
        foreach ($endless as $what => $send) {
            $socket = Janitor::path('.endless');
            $server = Worker::start(<<<PHP
                \$listener = stream_socket_server('unix://' . \$args['socket']);
                say('listening');
                for (;;) {
                    \$client = stream_socket_accept(\$listener, 60.0);
                    fread(\$client, 8192);
                    fwrite(\$client, "+PONG\\r\\n+OK\\r\\n");
                    fread(\$client, 8192);
                    fwrite(\$client, '+');
                    do {
                        \$sent = @$send
                    } while (\$sent !== false);
                }
                PHP, ['socket' => $socket]);
            self::assertSame('listening', $server->hear());
            $lock = new DistributedLock('order:1', 30.0, connection: new Connection("unix://$socket", 0.1, 0.1));
            $before = Proc::memory();
            [$caught, $seconds] = Proc::timed(static fn () => self::caught(static fn () => $lock->acquire()));

            self::assertInstanceOf(OutcomeUnknownException::class, $caught, $what);
            self::assertLessThan(0.2 + 0.1, $seconds, $what);
            self::assertLessThan(4_000, Proc::memory() - $before, "$what: kB kept");
            $server->kill();
        }
    }

    public function testAnAnswerThatComesByteByByteIsAnAnswer(): void
    {
        $socket = Janitor::path('.slow');
        $server = Worker::start(<<<'PHP'
            $listener = stream_socket_server('unix://' . $args['socket']);
            say('listening');
            $client = stream_socket_accept($listener, 60.0);
            while (($commands = fread($client, 8192)) !== '') {
                $count = preg_match_all('/^\*/m', $commands);
                foreach (str_split(str_repeat(":1234567890\r\n", $count)) as $byte) {
                    fwrite($client, $byte);
                    usleep(300);
                }
            }
            PHP, ['socket' => $socket]);
        self::assertSame('listening', $server->hear());
        $lock = new DistributedLock('order:1', 30.0, connection: new Connection("unix://$socket", 5.0, 5.0));
        self::assertTrue($lock->acquire());
        self::assertSame(1_234_567_890, $lock->fence());
        self::assertTrue($lock->renew());
        $lock->detach();
        $server->kill();
    }

    public function testAServerThatEndsEveryConnectionAtOnceIsUnavailableOrUnknown(): void
    {
        $socket = Janitor::path('.closing');
        $server = Worker::start(<<<'PHP'
            $listener = stream_socket_server('unix://' . $args['socket']);
            say('listening');
            for (;;) {
                fclose(stream_socket_accept($listener, 60.0));
            }
            PHP, ['socket' => $socket]);
        self::assertSame('listening', $server->hear());
        $lock = new DistributedLock('order:1', 30.0, connection: new Connection("unix://$socket", 0.1, 0.1));
        [$caught, $seconds] = Proc::timed(static fn () => self::caught(static fn () => $lock->acquire()));
        self::assertContains($caught === null ? null : $caught::class, [ConnectionException::class, OutcomeUnknownException::class]);
        self::assertLessThan(0.2 + 0.1, $seconds);
        $server->kill();
    }

    private static function caught(callable $action): ?Throwable
    {
        try {
            $action();
        } catch (Throwable $caught) {
            return $caught;
        }

        return null;
    }
}
