<?php

declare(strict_types=1);

namespace RedisLease\Tests\Docs\Mishaps;

use RedisLease\Tests\Support\Certificates;
use RedisLease\Tests\Support\PhpProcess;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\Worker;

/** What is said of a TLS session that cannot be made. */
final class Tls
{
    private const HERE = 'IP:127.0.0.1';

    private static ?Certificates $authority = null;

    /** @return list<string> */
    public static function messages(): array
    {
        $ca = self::ca();
        $another = new Certificates('Another CA');
        $plain = Worker::start(<<<'PHP'
            $listener = stream_socket_server('tcp://127.0.0.1:0');
            say(stream_socket_get_name($listener, false));
            $client = stream_socket_accept($listener);
            fwrite($client, "+OK\r\n");
            hear();
            PHP);
        $said = [Told::ofAcquire("rediss://{$plain->hear()}?ca=$ca")];
        $plain->say();
        $plain->finish();
        $itself = self::authority()->selfSigned(self::HERE);
        [$ours, $other] = [self::authority()->issue(''), $another->issue('')];
        $cases = [
            [$another->issue(self::HERE), 'no', "?ca=$ca", 'rediss'],
            [self::authority()->issue(self::HERE, begins: -9, ends: -2), 'no', "?ca=$ca", 'rediss'],
            [self::authority()->issue(self::HERE, begins: 2, ends: 9), 'no', "?ca=$ca", 'rediss'],
            [$itself, 'no', "?ca=$itself[0]", 'rediss'],
            [self::authority()->issue('DNS:elsewhere.test'), 'no', "?ca=$ca", 'rediss'],
            [self::authority()->issue(self::HERE), 'yes', "?ca=$ca", 'rediss'],
            [self::authority()->issue(self::HERE), 'no', '?ca=/no/such/file', 'rediss'],
            [self::authority()->issue(self::HERE), 'no', '?ca=/dev/null', 'rediss'],
            [self::authority()->issue(self::HERE), 'no', "?ca=$ca&cert=$ours[0]&key=$other[1]", 'rediss'],
            [self::authority()->issue(self::HERE), 'yes', "?ca=$ca&cert=$other[0]&key=$other[1]", 'rediss'],
            [self::authority()->issue(self::HERE), 'no', '', 'redis'],
        ];
        foreach ($cases as [$certificate, $asksForOurs, $options, $scheme]) {
            $port = (string) RedisServer::freePort();
            $server = RedisServer::start(settings: [
                'tls-port' => $port, 'tls-cert-file' => $certificate[0], 'tls-key-file' => $certificate[1],
                'tls-ca-cert-file' => $ca, 'tls-auth-clients' => $asksForOurs,
            ]);
            $said[] = Told::ofAcquire("$scheme://127.0.0.1:$port$options");
            $server->stop();
        }

        return [...$said, self::ofASystemWithoutAuthorities()];
    }

    private static function ofASystemWithoutAuthorities(): string
    {
        $plain = RedisServer::start(tcp: true);
        $code = "(new DistributedLock('a', connection: new RedisLease\\Connection('rediss://127.0.0.1:{$plain->port()}')))->acquire();";
        $process = PhpProcess::startProgram([
            'env', 'SSL_CERT_FILE=/dev/null', 'SSL_CERT_DIR=/no/such/directory', ...PhpProcess::interpreter(), '-r', $code,
        ]);
        $process->wait();
        $plain->stop();

        return $process->errors();
    }

    /** The file of the CA. */
    public static function ca(): string
    {
        return self::authority()->ca();
    }

    private static function authority(): Certificates
    {
        return self::$authority ??= new Certificates();
    }
}
