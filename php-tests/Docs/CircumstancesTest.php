<?php

declare(strict_types=1);

namespace RedisLease\Tests\Docs;

use PDO;
use RedisLease\OutcomeUnknownException;
use RedisLease\Tests\Bridge\Database\MariaDb;
use RedisLease\Tests\Support\Markdown;
use RedisLease\Tests\Support\ServerTestCase;
use RedisLease\Tests\Support\Worker;

/** Examples in the circumstances that they are written for, which running the page does not bring about. */
final class CircumstancesTest extends ServerTestCase
{
    public function testAnUnknownOutcomeReachesTheCallerWhileRedisIsStillAway(): void
    {
        $example = self::example('docs/unknown-outcomes.md', 'catch (RedisLease\OutcomeUnknownException $unknown)');
        $worker = Worker::start(<<<PHP
            \$connection = new Connection(\$args['dsn'], 0.5, 0.5);
            is_float(current(\$connection->ping())) || throw new Error('no connection');
            \$lock = new DistributedLock('order:42', 30.0, connection: \$connection);
            posix_kill(\$args['server'], SIGSTOP);
            try {
                $example
            } catch (Throwable \$thrown) {
                say([\$thrown::class, \$thrown->getMessage()]);
            }
            hear();
            PHP, ['dsn' => self::$server->dsn(), 'server' => self::$server->pid()], phpIni: true);
        [$class, $message] = $worker->hear();
        self::$server->resume();
        self::assertSame(OutcomeUnknownException::class, $class, $message);
        self::assertSame('PONG', self::$server->command('PING'));

        // What the comment promises: the end of the request settles it.
        $worker->say();
        $worker->finish();
        self::assertNull(self::stored('order:42'));
    }

    /** As PDO comes, and with each way in which MySQL's driver binds. */
    public function testTheFenceIsCheckedOnMariaDb(): void
    {
        $example = self::example('docs/fencing.md', 'fence <= :limit');
        $ini = ['redis_lease.dsn' => self::$server->dsn()];
        $database = MariaDb::start();
        $database->connect()->exec('CREATE TABLE invoice (id INT PRIMARY KEY, status VARCHAR(9), fence BIGINT)');
        foreach ([true, false] as $emulates) {
            foreach ([true, false] as $countsFound) {
                $attributes = [PDO::ATTR_EMULATE_PREPARES => $emulates, PDO::MYSQL_ATTR_FOUND_ROWS => $countsFound];
                $database->connect()->exec("REPLACE INTO invoice VALUES (42, 'new', NULL)");
                $worker = Worker::start(<<<PHP
                    \$pdo = new PDO(\$args['database'], \$args['user'], '', \$args['attributes']);
                    $example
                    \$counted = [\$write->rowCount()];
                    foreach ([0, 0, -1] as \$later) {
                        \$fence = \$lock->fence() + \$later;
                        \$write->execute(['status' => 'paid', 'fence' => \$fence, 'limit' => \$fence, 'id' => 42]);
                        \$counted[] = \$write->rowCount();
                    }
                    say(\$counted);
                    \$write->execute(['status' => 'paid', 'fence' => \$fence, 'limit' => \$fence, 'id' => 43]);
                    say(\$write->rowCount());
                    PHP, ['database' => $database->dsn(), 'user' => $database->user(), 'attributes' => $attributes], $ini, phpIni: true);
                $again = $countsFound ? 1 : 0;
                self::assertSame([1, $again, $again, 0], $worker->hear(), json_encode($attributes));
                self::assertSame(0, $worker->hear(), 'there is no such row');
                $worker->finish();
            }
        }
        $database->stop();
        self::assertStringContainsString('`PDO::MYSQL_ATTR_FOUND_ROWS`', Markdown::page('docs/fencing.md')->section('Checking it')->text);
    }

    /** The example of that page that has this text in it. */
    private static function example(string $page, string $text): string
    {
        $examples = array_filter(Markdown::page($page)->examples(), static fn (string $code) => str_contains($code, $text));
        self::assertCount(1, $examples, "$page: $text");

        return current($examples);
    }
}
