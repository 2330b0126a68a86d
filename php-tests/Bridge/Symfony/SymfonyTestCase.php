<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Symfony;

use RedisLease\Bridge\Symfony\LeaseStore;
use RedisLease\Bridge\Symfony\LockFactory;
use RedisLease\Tests\Bridge\Database\Needs;
use RedisLease\Tests\Support\ServerTestCase;
use RedisLease\Tests\Support\Worker;
use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\Key;

/** A test class with Symfony's Lock component beside the server. */
abstract class SymfonyTestCase extends ServerTestCase
{
    private const PREPARE = <<<'PHP'
        require 'Symfony/Component/Lock/autoload.php';
        require $args['bridge'];
        use RedisLease\Bridge\Symfony\LeaseStore;
        use RedisLease\Bridge\Symfony\LockFactory;
        use Symfony\Component\Lock\Key;
        $connection = new Connection($args['dsn'], 5.0, 5.0);
        $store = new LeaseStore($connection);
        $factory = new LockFactory($store);

        PHP;

    public static function setUpBeforeClass(): void
    {
        Needs::module('mbstring', 'php-mbstring');
        Needs::library('php-symfony-lock', 'Symfony/Component/Lock/autoload.php');
        parent::setUpBeforeClass();
    }

    protected function store(float $initialTtl = 300.0, float $longestWait = 300.0): LeaseStore
    {
        return new LeaseStore($this->connection(), $initialTtl, $longestWait);
    }

    protected function factory(float $longestWait = 300.0): LockFactory
    {
        return new LockFactory($this->store(longestWait: $longestWait));
    }

    /** A process whose snippet finds $store, $factory and $connection, and $args beside them. */
    protected static function symfonyWorker(string $snippet, array $args = [], array $ini = []): Worker
    {
        $args += ['dsn' => self::$server->dsn(), 'bridge' => dirname(__DIR__, 3) . '/bridge/autoload.php'];

        return Worker::start(self::PREPARE . $snippet, $args, $ini, phpIni: true);
    }

    protected static function assertConflict(callable $action, string $what = ''): void
    {
        $conflict = null;
        try {
            $action();
        } catch (LockConflictedException $conflict) {
        }
        self::assertNotNull($conflict, "there should have been a conflict: $what");
    }

    /** The key as another process gets it. */
    protected static function passedOn(Key $key): Key
    {
        return unserialize(serialize($key));
    }
}
