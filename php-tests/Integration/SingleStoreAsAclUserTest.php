<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use RedisLease\Tests\Support\RedisServer;

/**
 * A user who may touch nothing but keys with our prefix, and run no administrator's command.
 */
final class SingleStoreAsAclUserTest extends StoreConformanceTestCase
{
    private const NAME = 'lease-user';
    private const PASSWORD = 's3cret:@/?#';

    protected static function startServers(): array
    {
        $user = 'user ' . self::NAME . ' on >' . self::PASSWORD . ' ~lock:* ~lock~* +@all -@admin -@dangerous';

        return [RedisServer::start(aclUsers: [$user])];
    }

    protected static function dsn(): string
    {
        return self::$servers[0]->dsn(['user' => self::NAME, 'pass' => self::PASSWORD]);
    }

    public function testThePrefixSeparatesApplications(): void
    {
        $this->expectException(\RedisLease\ServerException::class);
        $this->expectExceptionMessageMatches('/NOPERM/');

        (new \DistributedLock('order', 5.0, connection: $this->connection('other:')))->acquire();
    }
}
