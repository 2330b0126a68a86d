<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use RedisLease\Tests\Support\Certificates;
use RedisLease\Tests\Support\RedisServer;

/** Three independent servers that are reached over TLS. */
final class QuorumOfTlsNodesTest extends QuorumConformanceTestCase
{
    private static Certificates $ca;
    /** @var list<int> */
    private static array $ports = [];

    protected static function startServers(): array
    {
        self::$ca = new Certificates();
        [$certificate, $key] = self::$ca->issue('IP:127.0.0.1');
        self::$ports = array_map(static fn () => RedisServer::freePort(), range(1, self::NODES));

        return array_map(static fn (int $port) => RedisServer::start(settings: [
            'tls-port' => (string) $port,
            'tls-cert-file' => $certificate,
            'tls-key-file' => $key,
            'tls-ca-cert-file' => self::$ca->ca(),
            'tls-auth-clients' => 'no',
        ]), self::$ports);
    }

    protected static function dsn(): string
    {
        $ca = self::$ca->ca();

        return implode(' ', array_map(static fn (int $port) => "rediss://127.0.0.1:$port?ca=$ca", self::$ports));
    }
}
