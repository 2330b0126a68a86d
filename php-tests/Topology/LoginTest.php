<?php

declare(strict_types=1);

namespace RedisLease\Tests\Topology;

use DistributedLock;
use PHPUnit\Framework\TestCase;
use RedisLease\Connection;
use RedisLease\LeaseException;
use RedisLease\Tests\Support\Certificates;
use RedisLease\Tests\Support\RedisCluster;
use RedisLease\Tests\Support\Sentinels;
use RedisLease\Tests\Support\Waiter;

/** Passwords, ACL users and TLS on sentinels, on what they watch over, and on the servers of a cluster. */
final class LoginTest extends TestCase
{
    private const SECRET = 'hunter2secret';
    private const OTHER = 'other2secret';
    private const USER = 'user worker on >' . self::SECRET . ' ~lock:* ~lock~* +@all';
    private const ASKER = 'user asker on >' . self::OTHER . ' +ping +sentinel';

    public function testPasswordsOfSentinelsAndServersDiffer(): void
    {
        $group = Sentinels::start(3, 1, password: self::SECRET, sentinelPassword: self::OTHER);
        try {
            $servers = ':' . self::SECRET . '@';
            $this->assertServes($group->dsn('?sentinel_pass=' . self::OTHER, $servers));
            foreach ($group->sentinels as $sentinel) {
                $this->assertRefused($group->dsn('', $servers), "127.0.0.1:{$sentinel->port()}: NOAUTH");
            }
            $this->assertRefused($group->dsn('?sentinel_pass=' . self::SECRET . 'x', $servers), 'WRONGPASS');
            $this->assertRefused($group->dsn('?sentinel_pass=' . self::OTHER), 'NOAUTH');
            $this->assertRefused($group->dsn('?sentinel_pass=' . self::OTHER, ':' . self::SECRET . 'x@'), 'WRONGPASS');
        } finally {
            $group->stop();
        }
    }

    public function testAclUsersOfSentinelsAndServersDiffer(): void
    {
        $group = Sentinels::start(1, 1, users: [self::USER], sentinelUsers: [self::ASKER]);
        try {
            $worker = 'worker:' . self::SECRET . '@';
            $this->assertServes($group->dsn('?sentinel_user=asker&sentinel_pass=' . self::OTHER, $worker));
            $this->assertServes($group->dsn('', $worker));
            $this->assertRefused($group->dsn('?sentinel_user=nobody&sentinel_pass=' . self::OTHER, $worker), 'WRONGPASS');
            $this->assertRefused($group->dsn('', 'nobody:' . self::SECRET . '@'), 'WRONGPASS');
        } finally {
            $group->stop();
        }
    }

    public function testAClustersServersHaveOneLogin(): void
    {
        $cluster = RedisCluster::start(users: [self::USER], password: self::OTHER);
        try {
            foreach ([':' . self::OTHER . '@', 'worker:' . self::SECRET . '@'] as $login) {
                $this->assertServes($cluster->dsn($login));
            }
            $this->assertRefused($cluster->dsn(), 'NOAUTH');
            $this->assertRefused($cluster->dsn('worker:' . self::SECRET . 'x@'), 'WRONGPASS');
        } finally {
            $cluster->stop();
        }
    }

    public function testSentinelsAndServersSpeakTls(): void
    {
        $ca = new Certificates();
        $group = Sentinels::start(1, 0, more: self::tls($ca) + ['tls-replication' => 'yes']);
        try {
            $dsn = str_replace('redis+', 'rediss+', $group->dsn('?ca=' . $ca->ca()));
            $this->assertServes($dsn);
            $this->assertRefused(str_replace($ca->ca(), (new Certificates('Another CA'))->ca(), $dsn), 'TLS: ');
        } finally {
            $group->stop();
        }
    }

    public function testAClustersServersSpeakTls(): void
    {
        $ca = new Certificates();
        $cluster = RedisCluster::start(settings: self::tls($ca) + ['tls-cluster' => 'yes']);
        try {
            $dsn = str_replace('redis+', 'rediss+', $cluster->dsn()) . '?ca=' . $ca->ca();
            $this->assertServes($dsn);
            $this->assertRefused(str_replace($ca->ca(), (new Certificates('Another CA'))->ca(), $dsn), 'TLS: ');
        } finally {
            $cluster->stop();
        }
    }

    /** Several locks, so that each server of a cluster is met, and a waiter that is woken. */
    private function assertServes(string $dsn): void
    {
        $connection = new Connection($dsn, 2.0, 2.0);
        foreach (['one', 'two', 'three', 'four', 'five', 'six'] as $name) {
            $lock = new DistributedLock($name, 30.0, connection: $connection);
            self::assertTrue($lock->acquire() && $lock->renew() && $lock->release());
        }
        foreach ($connection->ping() as $address => $sign) {
            self::assertIsFloat($sign, $address);
        }
        self::assertTrue($lock->acquire());
        $waiter = Waiter::start($dsn, 'six');
        $waiter->ready()->wait(20.0);
        self::assertFalse((new DistributedLock('six', 30.0, connection: $connection))->acquire(0.2), 'a wait in vain');
        self::assertTrue($lock->release());
        self::assertTrue($waiter->outcome(10.0)->answer);
        $waiter->end();
        $this->assertNoSecretIn($this->dump($connection, $lock));
        $connection->close();
    }

    private function assertRefused(string $dsn, string $said): void
    {
        $connection = new Connection($dsn, 2.0, 2.0);
        $lock = new DistributedLock('one', 30.0, connection: $connection);
        try {
            $lock->acquire();
        } catch (LeaseException $refused) {
            self::assertStringContainsString($said, $refused->getMessage());
            $this->assertNoSecretIn((string) $refused . print_r(get_object_vars($refused), true) . $this->dump($connection, $lock));

            return;
        }
        self::fail("it was to be refused with $said");
    }

    private function assertNoSecretIn(string $shown): void
    {
        self::assertStringContainsString('127.0.0.1', $shown);
        foreach ([self::SECRET, self::OTHER] as $secret) {
            self::assertStringNotContainsString($secret, $shown);
        }
    }

    private function dump(Connection $connection, DistributedLock $lock): string
    {
        ob_start();
        var_dump($connection, $lock);

        return ob_get_clean() . print_r($connection, true) . var_export($lock, true) . print_r($connection->ping(), true);
    }

    /** @return array<string, string> */
    private static function tls(Certificates $ca): array
    {
        [$certificate, $key] = $ca->issue('DNS:localhost,IP:127.0.0.1');

        return [
            'tls-cert-file' => $certificate, 'tls-key-file' => $key, 'tls-ca-cert-file' => $ca->ca(),
            'tls-auth-clients' => 'no',
        ];
    }
}
