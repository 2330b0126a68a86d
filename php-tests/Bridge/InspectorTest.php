<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge;

use DistributedLock;
use LogicException;
use Predis\Client;
use Redis;
use RedisCluster;
use RedisLease\Bridge\Inspect\Inspector;
use RedisLease\Bridge\Inspect\Lease;
use RedisLease\Bridge\LeaseFactory;
use RedisLease\Connection;
use RedisLease\Tests\Bridge\Database\Needs;
use RedisLease\Tests\Support\RedisCluster as Cluster;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\ServerTestCase;
use RedisLease\Tests\Support\Waiter;
use Symfony\Component\Cache\Adapter\RedisAdapter;
use TypeError;

use function RedisLease\Tests\Support\eventually;

/** What an operator sees of the leases in Redis. */
final class InspectorTest extends ServerTestCase
{
    public static function setUpBeforeClass(): void
    {
        Needs::module('redis', 'php-redis');
        Needs::library('php-predis', 'Predis/autoload.php');
        Needs::library('php-symfony-framework-bundle', 'Symfony/Component/Cache/autoload.php');
        parent::setUpBeforeClass();
    }

    /** @return array<string, Redis|Client> with what would hide or change the keys, if it were used */
    private function clients(): array
    {
        $redis = new Redis();
        $redis->connect(self::$server->socket());
        $redis->setOption(Redis::OPT_PREFIX, 'app:');
        $redis->setOption(Redis::OPT_SERIALIZER, Redis::SERIALIZER_PHP);

        return [
            'phpredis' => $redis,
            'Predis' => new Client(['scheme' => 'unix', 'path' => self::$server->socket()], ['prefix' => 'app:']),
        ];
    }

    private function inspector(?object $client = null): Inspector
    {
        return new Inspector(new LeaseFactory($this->connection()), $client);
    }

    public function testItListsWhatBeginsWithThePrefixAndTheBeginning(): void
    {
        $names = ['order:1', 'order:{eu}:2', 'a*b', 'a?b', "bytes \xff\n"];
        $locks = array_map(fn (string $name) => $this->heldLock($name, 50.0), $names);
        self::$server->command('SET', 'another key', 'x');
        self::$server->command('RPUSH', 'lock:of another type', 'x');
        foreach ($this->clients() as $which => $client) {
            $seen = [];
            foreach ($this->inspector($client)->list() as $lease) {
                $seen[$lease->resource] = $lease;
            }
            self::assertEqualsCanonicalizing($names, array_map(strval(...), array_keys($seen)), $which);
            foreach ($locks as $number => $lock) {
                $lease = $seen[$names[$number]];
                self::assertSame([$lock->token(), $lock->fence()], [$lease->owner, $lease->fence], "$which: {$names[$number]}");
                self::assertGreaterThan(40.0, $lease->ttl, $which);
                self::assertLessThanOrEqual(50.0, $lease->ttl, $which);
            }
            $beginning = [...$this->inspector($client)->list('a*')];
            self::assertSame(['a*b'], array_column($beginning, 'resource'), $which);
        }
    }

    public function testWhateverThePrefixOnlyLocksAreListed(): void
    {
        $names = ['n', '{t}n', 'a{b', '~a/fence', 'fence'];
        foreach (['', '~', 'app~', 'app', 'lock:', 'app{', '{app}'] as $prefix) {
            self::$server->flush();
            // With a brace in the prefix one of the names is that of a fence.
            $names = array_values(array_diff($names, str_contains($prefix, '{') ? ['~a/fence'] : []));
            $leases = new LeaseFactory(new Connection(self::$server->dsn(), 5.0, 5.0, $prefix), 30.0);
            foreach ([...$names, 'released'] as $name) {
                $lock = $leases->create($name);
                self::assertTrue($lock->acquire());
                $name === 'released' ? $lock->release() : $lock->detach();
            }
            // Their releases leave marks.
            $leases->restore('{released}', 'token')->release();
            foreach ($this->clients() as $which => $client) {
                $listed = [...(new Inspector($leases, $client, $prefix))->list()];
                self::assertEqualsCanonicalizing($names, array_column($listed, 'resource'), "$which: $prefix");
            }
        }
    }

    /** With an empty prefix every string would do: a session, a password, a hash in a cache. */
    public function testWithoutAPrefixOnlyWhatIsSurelyALeaseIsListed(): void
    {
        $leases = new LeaseFactory(new Connection(self::$server->dsn(), 5.0, 5.0, ''), 30.0);
        $lock = $leases->create('order:1');
        self::assertTrue($lock->acquire());
        $foreign = ['session' => 'secret', 'hash' => md5('secret'), 'half' => 'reserved:', 'passing' => 'reserved:x'];
        foreach ($foreign as $key => $value) {
            self::$server->command('SET', $key, $value, 'PX', 60_000);
        }
        // A fence of an earlier lease, whose name another program has now.
        self::$server->command('SET', 'page', md5('page'), 'PX', 60_000);
        self::$server->command('SET', '~{page}:fence', '1800000000000000:' . $lock->token());
        self::$server->command('SET', 'order:2', 'reserved:' . md5('token'), 'PX', 60_000);
        self::$server->command('SET', '~{order:2}:fence', '1800000000000000:' . md5('token'));
        foreach ($this->clients() as $which => $client) {
            $listed = [...(new Inspector($leases, $client, ''))->list()];
            $rows = array_map(static fn (Lease $lease): array => array_slice($lease->row(), 0, 2), $listed);
            $expected = [['order:1', $lock->token()], ['order:2', '(handed over)']];
            self::assertEqualsCanonicalizing($expected, $rows, $which);
        }
    }

    /** Names whose braces decide where the fence lies: the extension names it, and the list finds it. */
    public function testTheFenceIsFoundWhateverTheBraces(): void
    {
        $names = ['n', '{t}n', 'a{b', 'a}b', '}{', '{}', '{}n', 'a{}b{c}', '{a}{b}', '{{a}}', '{t', 't}'];
        foreach (['', 'lock:', 'app{', '{app}', '{app}:', 'app}', 'a{p}p:', '{}', 'a{}b', 'x{y', '}', '{'] as $prefix) {
            self::$server->flush();
            $leases = new LeaseFactory(new Connection(self::$server->dsn(), 5.0, 5.0, $prefix), 30.0);
            $expected = [];
            foreach ($names as $name) {
                $lock = $leases->create($name);
                self::assertTrue($lock->acquire());
                $expected[$name] = $lock->fence();
                $lock->detach();
            }
            $inspector = new Inspector($leases, $this->clients()['phpredis'], $prefix);
            $fences = array_column([...$inspector->list()], 'fence', 'resource');
            ksort($expected);
            ksort($fences);
            self::assertSame($expected, $fences, "prefix $prefix");
        }
    }

    public function testAVeryLongNameIsShownByItsBeginning(): void
    {
        $this->heldLock($name = str_repeat('long', 15_000))->detach();
        [$lease] = [...$this->inspector($this->clients()['phpredis'])->list()];
        self::assertSame($name, $lease->resource);
        self::assertSame(str_repeat('long', 50) . '... (60000 bytes)', $lease->row()[0]);
    }

    public function testThousandsAreListedOnceEach(): void
    {
        for ($number = 0; $number < 3_000; $number++) {
            self::$server->command('SET', "lock:$number", 'x', 'PX', 60_000);
        }
        foreach ($this->clients() as $which => $client) {
            self::assertCount(3_000, [...$this->inspector($client)->list()], $which);
        }
    }

    public function testItShowsOneLeaseWithAndWithoutAClient(): void
    {
        $lock = $this->heldLock('order:1');
        $lazy = RedisAdapter::createConnection('redis:' . self::$server->socket(), ['lazy' => true]);
        foreach ([null, $lazy, static fn (): object => $lazy, ...$this->clients()] as $client) {
            $inspector = $this->inspector($client);
            self::assertNull($inspector->show('order:2'));
            $lease = $inspector->show('order:1');
            self::assertSame($lock->token(), $lease->owner);
            self::assertSame($client === null ? null : $lock->fence(), $lease->fence);
            self::assertSame($client === null ? '-' : '30.0 s', preg_replace('/^2\d\.\d/', '30.0', $lease->row()[3]));
        }
    }

    public function testTheExtensionSaysWhoHasItAndADisagreementIsTold(): void
    {
        $this->heldLock('of another database')->detach();
        $lock = new DistributedLock('order:1', 30.0, connection: new Connection(self::$server->dsn() . '?db=1', 5.0, 5.0));
        self::assertTrue($lock->acquire());
        $leases = new LeaseFactory(new Connection(self::$server->dsn() . '?db=1', 5.0, 5.0));
        foreach ($this->clients() as $which => $client) {
            $inspector = new Inspector($leases, $client);
            self::assertSame(['order:1', $lock->token(), '-', '-'], $inspector->show('order:1')?->row(), $which);
            self::assertStringContainsString('client sees no such lock', $inspector->look('order:1')->doubt);
            $free = $inspector->look('of another database');
            self::assertNull($free->lease, $which);
            self::assertStringContainsString('sees it with the owner ' . self::stored('of another database'), $free->doubt);
            self::$server->command('SET', 'lock:foreign', 'secret');
            self::assertStringContainsString('sees it with the owner (not a token)', $inspector->look('foreign')->doubt);
            self::assertNull($inspector->look('order:2')->doubt);
        }
    }

    public function testALockThatOneNodeHasLostIsHeldWhereMostHaveIt(): void
    {
        $others = [RedisServer::start(), RedisServer::start()];
        $dsn = implode(' ', [self::$server->dsn(), ...array_map(static fn (RedisServer $one): string => $one->dsn(), $others)]);
        $leases = new LeaseFactory(new Connection($dsn, 5.0, 5.0));
        $lock = $leases->create('order:1', 30.0);
        self::assertTrue($lock->acquire());
        // Two are enough for the grant; the third may have it later.
        foreach ([self::$server, ...$others] as $one) {
            eventually(static fn () => $one->command('GET', 'lock:order:1') === $lock->token(), 'each node has it');
        }
        $inspector = new Inspector($leases, $this->clients()['phpredis']);
        self::assertNull($inspector->look('order:1')->doubt);
        self::$server->command('DEL', 'lock:order:1');

        self::assertSame($lock->token(), $inspector->show('order:1')?->owner);
        self::assertStringContainsString('another node', $inspector->look('order:1')->doubt);
    }

    public function testAForeignKeyHasNoFenceAndALockInPassingNoOwner(): void
    {
        self::$server->command('SET', 'lock:order:1', 'of another program');
        self::$server->command('SET', 'lock~{lock:order:1}:fence', '1800000000000000:of an earlier one');
        self::$server->command('SET', 'lock:order:2', 'reserved:0123', 'PX', 60_000);
        foreach ($this->clients() as $client) {
            $inspector = $this->inspector($client);
            self::assertSame(['order:1', '(not a token)', '-', 'never ends'], $inspector->show('order:1')->row());
            self::assertSame('of another program', $inspector->show('order:1')->owner);
            self::assertSame('(handed over)', $inspector->show('order:2')->row()[1]);
        }
        self::assertSame('a\x1b[2J\xff', (new Lease("a\e[2J\xff", 'x', null, null))->row()[0]);
    }

    public function testItReleasesWhateverTheOwnerOrOnlyIfTheOwnerIsRight(): void
    {
        $lock = $this->heldLock('order:1');
        $inspector = $this->inspector();

        self::assertFalse($inspector->release('order:1', 'somebody else'));
        self::assertTrue($lock->renew());
        self::assertTrue($inspector->release('order:1', $lock->token()));
        self::assertFalse($inspector->release('order:1'));
        $next = $this->heldLock('order:1');
        self::assertTrue($inspector->release('order:1'));
        self::assertFalse($next->renew());
    }

    public function testWithoutAClientItSaysWhyItCannotList(): void
    {
        $this->expectException(LogicException::class);
        $this->expectExceptionMessage('the setting "client" names one');
        [...$this->inspector()->list()];
    }

    public function testAReleaseNeedsNoClientAndTheRestOneThatItKnows(): void
    {
        foreach ([static fn () => self::fail('it is asked for'), $this] as $client) {
            $this->heldLock('order:1')->detach();
            $inspector = $this->inspector($client);
            self::assertTrue($inspector->release('order:1'));
        }
        foreach ([$inspector->show(...), static fn (string $name): array => [...$inspector->list($name)]] as $look) {
            try {
                $look('order:1');
                self::fail('it is no client');
            } catch (TypeError $refusal) {
                self::assertStringContainsString('($client) must be', $refusal->getMessage());
            }
        }
    }

    public function testItListsEveryNodeOfACluster(): void
    {
        $cluster = Cluster::start();
        $connection = new Connection($cluster->dsn(), 5.0, 5.0);
        $locks = [];
        for ($number = 0; $number < 20; $number++) {
            $lock = new DistributedLock("order:$number", 30.0, connection: $connection);
            self::assertTrue($lock->acquire());
            $locks["order:$number"] = $lock;
        }
        $client = new RedisCluster(null, ['127.0.0.1:' . $cluster->servers()[0]->port()]);
        $inspector = new Inspector(new LeaseFactory($connection), $client);
        $waiter = Waiter::start($cluster->dsn(), 'order:7')->ready()->wait();
        eventually(static fn () => $inspector->waiting() === 1, 'it waits on one of the nodes');
        $listed = $waitedFor = [];
        foreach ($inspector->list(withWaiters: true) as $lease) {
            $listed[$lease->resource] = $lease->fence;
            $lease->isWaitedFor && $waitedFor[] = $lease->resource;
        }
        self::assertSame(['order:7'], $waitedFor);
        self::assertTrue($locks['order:7']->renew());
        $waiter->process->kill();
        $lazy = RedisAdapter::createConnection("redis:?host[127.0.0.1:{$cluster->servers()[0]->port()}]&redis_cluster=1", ['lazy' => true]);
        self::assertCount(20, [...(new Inspector(new LeaseFactory($connection), $lazy))->list()]);
        $fences = array_map(static fn (DistributedLock $lock): ?int => $lock->fence(), $locks);
        ksort($fences);
        ksort($listed);
        self::assertSame($fences, $listed);
    }
}
