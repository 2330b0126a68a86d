<?php

declare(strict_types=1);

namespace RedisLease\Tests\Fault;

use DistributedLock;
use PHPUnit\Framework\TestCase;
use RedisLease\Connection;
use RedisLease\ConnectionException;
use RedisLease\OutcomeUnknownException;
use RedisLease\Tests\Support\Certificates;
use RedisLease\Tests\Support\FaultProxy;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\Worker;
use Throwable;

use function RedisLease\Tests\Support\eventually;

/** rediss://: who is trusted, who is not, and what the one who must mend it is told. */
final class TlsTest extends TestCase
{
    private const HERE = 'DNS:localhost,IP:127.0.0.1';

    private static Certificates $ca;
    /** @var list<RedisServer> */
    private array $servers = [];

    public static function setUpBeforeClass(): void
    {
        self::$ca = new Certificates();
    }

    protected function tearDown(): void
    {
        array_map(static fn (RedisServer $server) => $server->stop(), $this->servers);
    }

    public function testALockIsTakenAndReleasedOverTls(): void
    {
        [$server, $address] = $this->server(self::$ca->issue(self::HERE));
        $named = gethostbyname('localhost') === 'localhost' ? $address : 'localhost' . strrchr($address, ':');
        foreach (["rediss://$address/2", "rediss://$named/2", "valkeys://$address/2"] as $dsn) {
            $connection = new Connection($dsn . '?ca=' . self::$ca->ca(), 2.0, 2.0);
            self::assertIsFloat(current($connection->ping()));
            $lock = new DistributedLock('order:1', 30.0, connection: $connection);
            self::assertTrue($lock->acquire() && $lock->renew());
            self::assertSame($lock->token(), $server->connect(2)->command('GET', 'lock:order:1'));
            self::assertSame($lock->token(), $lock->owner());
            self::assertTrue($lock->release());
            $long = new DistributedLock(random_bytes(65_536), 30.0, connection: $connection);
            self::assertTrue($long->acquire() && $long->renew() && $long->release(), 'more than one TLS record');
            $connection->close();
        }
    }

    public function testAWaiterIsWokenOverTls(): void
    {
        [, $address] = $this->server(self::$ca->issue(self::HERE));
        $dsn = "rediss://$address?ca=" . self::$ca->ca();
        $lock = new DistributedLock('order:1', 30.0, connection: new Connection($dsn, 2.0, 2.0));
        self::assertTrue($lock->acquire());
        $worker = Worker::start(<<<'PHP'
            $lock = new DistributedLock('order:1', 30.0, connection: new Connection($args['dsn'], 2.0, 2.0));
            say($lock->acquire());
            say($lock->acquire(20.0));
            PHP, ['dsn' => $dsn]);
        self::assertFalse($worker->hear());
        self::assertTrue($lock->release());
        self::assertTrue($worker->hear(5.0));
        $worker->finish();
    }

    public function testOneSessionServesTheWorkersWholeLife(): void
    {
        [$server, $address] = $this->server(self::$ca->issue(self::HERE));
        $connection = new Connection("rediss://$address?ca=" . self::$ca->ca(), 2.0, 2.0);
        $connection->ping();
        $made = self::connectionsMade($server);
        for ($i = 0; $i < 200; $i++) {
            $lock = new DistributedLock("order:$i", 30.0, connection: $connection);
            self::assertTrue($lock->acquire() && $lock->release());
        }
        self::assertSame($made, self::connectionsMade($server));

        $server->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
        self::assertTrue($lock->acquire(), 'a session that was cut is replaced');
        self::assertTrue($lock->release());
        $connection->close();
    }

    public function testAServerThatWantsAClientCertificateGetsIt(): void
    {
        [, $address] = $this->server(self::$ca->issue(self::HERE), clients: 'yes');
        [$certificate, $key] = self::$ca->issue('');
        $dsn = "rediss://$address?ca=" . self::$ca->ca();
        self::assertIsFloat(current((new Connection("$dsn&cert=$certificate&key=$key", 2.0, 2.0))->ping()));

        $this->assertUnavailable('?cert=', $dsn, 'no certificate');
        [$strange, $strangeKey] = (new Certificates('Another CA'))->issue('');
        $this->assertUnavailable('TLS', "$dsn&cert=$strange&key=$strangeKey", 'a certificate of another CA');
        $this->assertUnavailable('?cert=', "$dsn&cert=$certificate&key=$strangeKey", 'a key of another certificate');
    }

    public function testAServerThatIsNotWhatItSeemsIsRefusedAndTheMessageSaysWhatToDo(): void
    {
        $other = new Certificates('Another CA');
        $ca = '?ca=' . self::$ca->ca();
        $cases = [
            'signed by another CA' => [$other->issue(self::HERE), $ca, '?ca='],
            'signed by itself' => [self::$ca->selfSigned(self::HERE), $ca, '?ca='],
            'signed by a CA that the system does not know' => [self::$ca->issue(self::HERE), '', '?ca='],
            'for another host' => [self::$ca->issue('DNS:elsewhere.test'), $ca, 'host name'],
            'expired' => [self::$ca->issue(self::HERE, begins: -9, ends: -2), $ca, 'expired'],
            'not valid yet' => [self::$ca->issue(self::HERE, begins: 2, ends: 9), $ca, 'clock'],
        ];
        foreach ($cases as $what => [$certificate, $options, $advice]) {
            [$server, $address] = $this->server($certificate);
            $this->assertUnavailable($advice, "rediss://$address$options", $what);
            self::assertSame([], $server->command('KEYS', '*'), $what);
            $server->stop();
        }
    }

    public function testACertificateThatSignedItselfIsTrustedWhenItIsNamed(): void
    {
        $certificate = self::$ca->selfSigned(self::HERE);
        [, $address] = $this->server($certificate);
        $pong = current((new Connection("rediss://$address?ca={$certificate[0]}", 2.0, 2.0))->ping());
        // As rustls has it, a CA's certificate is no server's: it may be refused, but not without a word why.
        self::assertTrue(is_float($pong) || str_contains($pong, 'TLS'), (string) $pong);
    }

    public function testAFileThatCannotBeUsedIsNamed(): void
    {
        [, $address] = $this->server(self::$ca->issue(self::HERE));
        $empty = Janitor::path('.pem');
        touch($empty);
        $this->assertUnavailable('/no/such/file', "rediss://$address?ca=/no/such/file", 'no such CA file');
        $this->assertUnavailable('?ca=', "rediss://$address?ca=$empty", 'an empty CA file');
        $ca = self::$ca->ca();
        $this->assertUnavailable('/no/such/key', "rediss://$address?ca=$ca&cert=$ca&key=/no/such/key", 'no such key');
    }

    public function testAFileThatWasMendedIsReadAnewWithoutANewWorker(): void
    {
        [, $address] = $this->server(self::$ca->issue(self::HERE));
        $file = Janitor::path('.pem');
        copy((new Certificates('Another CA'))->ca(), $file);
        $connection = new Connection("rediss://$address?ca=$file", 2.0, 2.0);
        self::assertIsString(current($connection->ping()));
        copy(self::$ca->ca(), $file);

        eventually(static fn () => is_float(current($connection->ping())), 'the new file is in use', 3.0);
    }

    public function testPlainTextAndTlsThatMeetSaySo(): void
    {
        [, $address] = $this->server(self::$ca->issue(self::HERE));
        foreach (["redis://$address" => 'rediss://'] as $dsn => $advice) {
            $caught = self::caught($dsn);
            self::assertContains($caught === null ? null : $caught::class, [ConnectionException::class, OutcomeUnknownException::class]);
            self::assertStringContainsString($advice, $caught->getMessage(), 'plain text to a TLS port');
        }
        $this->servers[] = $plain = RedisServer::start(tcp: true);
        $this->assertUnavailable('redis://', 'rediss://127.0.0.1:' . $plain->port() . '?ca=' . self::$ca->ca(), 'TLS to a plain port');
    }

    public function testAForkedChildDoesNotEndItsParentsSession(): void
    {
        [$server, $address] = $this->server(self::$ca->issue(self::HERE));
        $worker = Worker::start(<<<'PHP'
            $connection = new Connection($args['dsn'], 2.0, 2.0);
            $lock = new DistributedLock('order:1', 30.0, connection: $connection);
            $lock->acquire();
            say($lock->token());
            hear();
            foreach (['exit' => fn () => 0, 'close' => fn () => $connection->close(), 'use' => fn () => $lock->acquire()] as $how => $do) {
                if (($child = pcntl_fork()) === 0) {
                    $do();
                    exit;
                }
                pcntl_waitpid($child, $status);
                say($lock->renew());
            }
            hear();
            say($lock->release());
            PHP, ['dsn' => "rediss://$address?ca=" . self::$ca->ca()]);
        $token = $worker->hear();
        $made = self::connectionsMade($server);
        $worker->say();
        for ($child = 0; $child < 3; $child++) {
            self::assertTrue($worker->hear());
        }
        self::assertSame($token, $server->command('GET', 'lock:order:1'));
        self::assertSame($made + 1, self::connectionsMade($server), 'only the child that used it made one of its own');
        $worker->say();
        self::assertTrue($worker->hear());
        $worker->finish();
    }

    public function testASessionThatIsCutAnywhereLeavesATrueAnswer(): void
    {
        [$server, $address] = $this->server(self::$ca->issue(self::HERE));
        $proxy = FaultProxy::before("tcp://$address");
        $dsn = 'rediss://127.0.0.1:' . $proxy->port() . '?ca=' . self::$ca->ca();
        $outcomes = [];
        foreach (['request' => range(0, 900, 60), 'reply' => range(0, 1500, 75)] as $direction => $places) {
            foreach ($places as $index => $after) {
                $how = FaultProxy::HOWS[$index % 3];
                $server->flush();
                $connection = new Connection($dsn, 0.3, 0.2);
                $connection->close();
                $proxy->cut();
                $proxy->breakAfter($direction, $after, $how, later: $index % 2 === 0 ? 'pass' : 'refuse');
                $lock = new DistributedLock('order:1', 30.0, connection: $connection);
                $answer = null;
                try {
                    $answer = $lock->acquire();
                } catch (ConnectionException) {
                    self::assertNull($server->command('GET', 'lock:order:1'), "$direction $after $how: it was executed");
                } catch (OutcomeUnknownException $unknown) {
                    self::assertIsString($unknown->token);
                }
                self::assertNotFalse($answer, "$direction $after $how: nobody held it");
                if ($answer === true) {
                    self::assertSame($lock->token(), $server->command('GET', 'lock:order:1'), "$direction $after $how");
                }
                self::assertSame($answer === true, $lock->isHeld());
                $outcomes[] = $answer;
                $proxy->pass();
                Cuts\Runner::persist(static fn () => $lock->release());
            }
        }
        self::assertContains(true, $outcomes);
        self::assertContains(null, $outcomes);
        $proxy->stop();
    }

    private function assertUnavailable(string $advice, string $dsn, string $what): void
    {
        $caught = self::caught($dsn);
        self::assertInstanceOf(ConnectionException::class, $caught, "$what: $caught");
        self::assertStringContainsString($advice, $caught->getMessage(), $what);
    }

    private static function caught(string $dsn): ?Throwable
    {
        $connection = new Connection($dsn, 2.0, 0.5);
        try {
            (new DistributedLock('order:1', 30.0, connection: $connection))->acquire();
        } catch (Throwable $caught) {
            return $caught;
        } finally {
            $connection->close();
        }

        return null;
    }

    /**
     * @param array{string, string} $certificate of the server, and its key
     * @return array{RedisServer, string} the server, and the address where it speaks TLS
     */
    private function server(array $certificate, string $clients = 'no'): array
    {
        $probe = stream_socket_server('tcp://127.0.0.1:0');
        $address = stream_socket_get_name($probe, false);
        fclose($probe);
        $server = RedisServer::start(settings: [
            'tls-port' => substr(strrchr($address, ':'), 1),
            'tls-cert-file' => $certificate[0], 'tls-key-file' => $certificate[1],
            'tls-ca-cert-file' => self::$ca->ca(), 'tls-auth-clients' => $clients,
        ]);

        return [$this->servers[] = $server, $address];
    }

    private static function connectionsMade(RedisServer $server): int
    {
        preg_match('/total_connections_received:(\d+)/', $server->command('INFO', 'stats'), $found);

        return (int) $found[1];
    }
}
