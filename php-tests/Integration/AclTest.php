<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

use PHPUnit\Framework\TestCase;
use RedisLease\Tests\Support\Markdown;
use RedisLease\Tests\Support\RedisCluster;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\Sentinels;
use RedisLease\Tests\Support\Worker;

use function RedisLease\Tests\Support\eventually;

/** An ACL user needs what docs/security.md lists, and nothing less. */
final class AclTest extends TestCase
{
    private const USER = 'worker';
    private const LOGIN = self::USER . ':secret';

    /** Every command that leases need on one server. */
    private const LIFE = <<<'PHP'
        $connection = new Connection($args['dsn'], 5.0, 5.0);
        $lock = static fn () => new DistributedLock('order:1', 30.0, connection: $connection);
        $tries = [
            static fn () => $connection->ping(),
            static function () use ($lock) {
                [$holder, $waiter, $next] = [$lock(), $lock(), $lock()];
                $holder->acquire();
                $holder->renew(60.0);
                $holder->owner();
                $waiter->acquire(0.05);
                $holder->release();
                // Nobody is there for the reservation.
                $next->acquire();
                $next->forceRelease();
            },
        ];
        $said = [];
        foreach ($tries as $try) {
            try {
                $try();
            } catch (LeaseException $exception) {
                $said[] = $exception->getMessage();
            }
        }
        say($said);
        PHP;

    public function testWhatTheDocumentationListsIsEnoughAndNothingOfItCanBeLeftOut(): void
    {
        $server = RedisServer::start();
        $dsn = $server->dsn(['user' => self::USER, 'pass' => 'secret', 'db' => '1']);
        $this->assertMinimal([$server], self::rules(), $dsn);
        $server->stop();
    }

    public function testIndependentNodesNeedInfo(): void
    {
        $servers = array_map(static fn () => RedisServer::start(), range(1, 3));
        $dsn = implode(' ', array_map(
            static fn (RedisServer $server) => $server->dsn(['user' => self::USER, 'pass' => 'secret']),
            $servers,
        ));
        $this->assertMinimal($servers, self::rules(), $dsn, self::also('independent nodes'));
        array_map(static fn (RedisServer $server) => $server->stop(), $servers);
    }

    public function testConfirmedGrantsNeedWaitAndRole(): void
    {
        $server = RedisServer::start(tcp: true, settings: ['repl-diskless-sync-delay' => '0']);
        $replica = RedisServer::start(settings: ['replicaof' => '127.0.0.1 ' . $server->port()]);
        eventually(
            static fn () => str_contains((string) $server->command('INFO', 'replication'), 'state=online'),
            'the replica follows',
        );
        $dsn = $server->dsn(['user' => self::USER, 'pass' => 'secret', 'wait_replicas' => '1']);
        // ROLE tells how many replicas there are, where too few confirm.
        self::assertSame(['+wait', '+role'], self::also('wait_replicas'));
        $this->assertMinimal([$server], [...self::rules(), '+role'], $dsn, ['+wait']);
        $replica->stop();
        $server->stop();
    }

    public function testSentinelNeedsRoleAndTheSentinelsOneCommand(): void
    {
        $group = Sentinels::start(sentinels: 1, replicas: 0);
        $rules = '+sentinel|get-master-addr-by-name';
        self::assertContains($rules, self::also('Sentinel'));
        $group->sentinels[0]->command('ACL', 'SETUSER', 'watcher', 'reset', 'on', '>s', $rules);
        $dsn = $group->dsn('?sentinel_user=watcher&sentinel_pass=s');
        $dsn = str_replace('://', '://' . self::LOGIN . '@', $dsn);
        $this->assertMinimal($group->servers, self::rules(), $dsn, ['+role']);
        // It may not name the connection, and does not need to.
        self::assertSame(['command client|setname'], array_unique(self::refusals($group->sentinels)));
        $group->stop();
    }

    public function testAClusterNeedsItsSlots(): void
    {
        $cluster = RedisCluster::start(primaries: 1);
        $dsn = str_replace('://', '://' . self::LOGIN . '@', $cluster->dsn());
        $also = array_values(array_diff(self::also('Cluster'), ['+asking']));
        $this->assertMinimal($cluster->primaries, self::rules(), $dsn, $also);
        $cluster->stop();
    }

    /**
     * @param list<RedisServer> $servers
     * @param list<string> $rules
     * @param list<string> $also what this way to use them needs beside the rules; only of these each is left out
     */
    private function assertMinimal(array $servers, array $rules, string $dsn, array $also = []): void
    {
        self::assertSame([], self::live($servers, [...$rules, ...$also], $dsn));
        self::assertSame([], self::refusals($servers), 'all that is listed');
        $removable = $also === [] ? preg_grep('/^\+/', $rules) : $also;
        self::assertNotSame([], $removable);
        foreach ($removable as $rule) {
            self::live($servers, array_values(array_diff([...$rules, ...$also], [$rule])), $dsn);
            self::assertNotSame([], self::refusals($servers), "without $rule");
        }
    }

    /**
     * @param list<RedisServer> $servers
     * @param list<string> $rules
     * @return list<string> what was thrown
     */
    private static function live(array $servers, array $rules, string $dsn): array
    {
        foreach ($servers as $server) {
            $server->command('FLUSHALL');
            $server->command('SCRIPT', 'FLUSH');
            $server->command('ACL', 'SETUSER', self::USER, 'reset', 'on', '>secret', ...$rules);
            $server->command('ACL', 'LOG', 'RESET');
        }
        $worker = Worker::start(self::LIFE, ['dsn' => $dsn]);
        $said = $worker->hear();
        $worker->finish();

        return $said;
    }

    /**
     * @param list<RedisServer> $servers
     * @return list<string>
     */
    private static function refusals(array $servers): array
    {
        $refused = [];
        foreach ($servers as $server) {
            foreach ($server->command('ACL', 'LOG') as $entry) {
                $facts = array_column(array_chunk($entry, 2), 1, 0);
                $refused[] = $facts['reason'] . ' ' . $facts['object'];
            }
        }

        return $refused;
    }

    /** @return list<string> the documented rules, after the password */
    private static function rules(): array
    {
        [$example] = self::documented()->examples('sh');
        self::assertSame(1, preg_match("/ACL SETUSER worker on '>secret' (.*)/s", $example, $found));

        return preg_split('/[\s\\\\]+/', trim(str_replace("'", '', $found[1])));
    }

    /** @return list<string> what the table lists for this */
    private static function also(string $where): array
    {
        $rows = array_column(self::documented()->rows(), 1, 0);
        self::assertArrayHasKey($where, $rows);
        preg_match_all('/`(\+[^`]+)`/', $rows[$where], $rules);

        return $rules[1];
    }

    private static function documented(): Markdown
    {
        return Markdown::page('docs/security.md')->section('The ACL user');
    }
}
