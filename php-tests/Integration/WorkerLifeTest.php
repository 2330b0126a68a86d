<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use RedisLease\Tests\Support\ServerTestCase;
use RedisLease\Tests\Support\WebServer;

use function RedisLease\Tests\Support\eventually;

/** A worker that serves many requests keeps its connection, and nothing else, from one to the next. */
final class WorkerLifeTest extends ServerTestCase
{
    private WebServer $web;

    protected function tearDown(): void
    {
        $this->web->stop();
    }

    public function testTheConnectionIsTheSameInEveryRequest(): void
    {
        $this->serve(<<<'PHP'
            $lock = new DistributedLock('order:1', 60.0);
            echo json_encode([$lock->acquire(), $lock->fence()]);
            PHP);
        $last = 0;
        $clients = [];
        for ($request = 0; $request < 5; $request++) {
            [$acquired, $fence] = json_decode($this->web->get());
            self::assertTrue($acquired, "request $request");
            self::assertGreaterThan($last, $fence);
            $last = $fence;
            self::assertNull(self::stored('order:1'), "request $request left its lock behind");
            $clients[] = $this->otherClients();
        }

        self::assertCount(1, $clients[0]);
        foreach ($clients as $client) {
            self::assertSame($clients[0], $client);
        }
    }

    public function testARequestThatBreaksOffLeavesTheNextOneAWorkingConnection(): void
    {
        $this->serve(<<<'PHP'
            $lock = new DistributedLock('order:1', 60.0);
            echo json_encode($lock->acquire());
            flush();
            match ($_SERVER['REQUEST_URI']) {
                '/exit' => exit,
                '/throw' => throw new Exception('boom'),
                '/memory' => str_repeat('x', PHP_INT_MAX >> 8),
                '/nested' => $lock->synchronized(static fn () => str_repeat('x', PHP_INT_MAX >> 8)),
                '/time' => (static function () { set_time_limit(1); for (;;); })(),
                default => null,
            };
            PHP);
        $clients = [];
        foreach (['/', '/exit', '/', '/throw', '/', '/memory', '/', '/nested', '/', '/time', '/'] as $path) {
            self::assertStringStartsWith('true', $this->web->get($path), $path);
            self::assertNull(self::stored('order:1'), "$path left its lock behind");
            $clients[] = $this->otherClients();
        }
        self::assertCount(1, array_unique($clients, SORT_REGULAR), 'one client for all');
    }

    public function testADetachedLockGoesFromRequestToRequest(): void
    {
        $this->serve(<<<'PHP'
            parse_str(parse_url($_SERVER['REQUEST_URI'], PHP_URL_QUERY) ?? '', $query);
            if (isset($query['token'])) {
                $lock = DistributedLock::restore('order:1', $query['token']);
                echo json_encode($lock->renew() && $lock->release());
            } else {
                $lock = new DistributedLock('order:1', 60.0);
                $lock->acquire();
                echo $lock->detach();
            }
            PHP);
        $token = $this->web->get('/');
        self::assertSame($token, self::stored('order:1'));

        self::assertSame('true', $this->web->get("/?token=$token"));
        self::assertNull(self::stored('order:1'));
    }

    public function testASettingChangedInOneRequestDoesNotReachTheNext(): void
    {
        $this->serve(<<<'PHP'
            if ($_SERVER['REQUEST_URI'] === '/change') {
                ini_set('redis_lease.prefix', 'changed:');
                ini_set('redis_lease.ttl', '500');
            }
            $lock = new DistributedLock('order:1');
            $lock->acquire();
            $lock->detach();
            echo ini_get('redis_lease.prefix'), ini_get('redis_lease.ttl');
            PHP);

        self::assertSame('changed:500', $this->web->get('/change'));
        self::assertSame('lock:10', $this->web->get('/'));
        self::assertIsString(self::stored('order:1'));
        self::assertGreaterThan(400_000, self::$server->command('PTTL', 'changed:order:1'));
    }

    public function testManyRequestsLeaveNoDescriptorBehind(): void
    {
        if (!is_dir('/proc/self/fd')) {
            self::markTestSkipped('there is no /proc here');
        }
        $this->serve(<<<'PHP'
            $lock = new DistributedLock('order:1');
            $lock->acquire();
            if ($_SERVER['REQUEST_URI'] === '/close') {
                RedisLease\Connection::default()->close();
            }
            echo 'done';
            PHP);
        $this->web->get();
        $descriptors = fn () => count(scandir('/proc/' . $this->web->pid() . '/fd'));
        $before = $descriptors();
        for ($request = 0; $request < 50; $request++) {
            $this->web->get($request % 2 === 0 ? '/' : '/close');
            self::$server->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
        }
        $this->web->get();

        // The web server's own connection of the last request may still be closing.
        eventually(static fn () => $descriptors() <= $before, 'there are no more descriptors than after one request');
    }

    private function serve(string $code): void
    {
        $this->web = WebServer::start($code, ['redis_lease.dsn' => self::$server->dsn(), 'redis_lease.command_timeout' => '5']);
    }

    /** @return list<string> the ids of the server's clients, without the test's own */
    private function otherClients(): array
    {
        $own = self::$server->command('CLIENT', 'ID');
        preg_match_all('/^id=(\d+)/m', self::$server->command('CLIENT', 'LIST', 'TYPE', 'normal'), $found);

        return array_values(array_diff($found[1], [(string) $own]));
    }
}
