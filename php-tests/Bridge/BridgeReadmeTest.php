<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge;

use PDO;
use Redis;
use RedisException;
use RedisLease\Bridge\FencedKey;
use RedisLease\Bridge\StaleFenceException;
use RedisLease\Tests\Bridge\Database\Needs;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\Markdown;
use RedisLease\Tests\Support\PhpProcess;
use RedisLease\Tests\Support\ServerTestCase;

/** A reader who copies an example of the package's README into an empty file can run it. */
final class BridgeReadmeTest extends ServerTestCase
{
    private string $directory;

    protected function setUp(): void
    {
        parent::setUp();
        Needs::module('pdo_sqlite', 'php-sqlite3');
        Needs::module('redis', 'php-redis');
        $this->directory = Janitor::directory('.project');
        mkdir($this->directory . '/vendor');
        $autoload = var_export(dirname(__DIR__, 2) . '/bridge/autoload.php', true);
        file_put_contents($this->directory . '/vendor/autoload.php', "<?php require $autoload;");
    }

    public function testTheExampleOfFencedTableRunsVerbatim(): void
    {
        $pdo = new PDO("sqlite:{$this->directory}/shop.sqlite");
        $pdo->exec('CREATE TABLE invoice (id INTEGER PRIMARY KEY, status TEXT)');
        $pdo->exec($this->statement('ALTER TABLE'));
        $example = $this->example('FencedTable');

        self::assertSame("There is no invoice 42.\n", $this->runExample($example));

        $pdo->exec("INSERT INTO invoice (id, status) VALUES (42, 'new')");
        self::assertSame('', $this->runExample($example));
        self::assertSame('paid', $pdo->query('SELECT status FROM invoice')->fetchColumn());

        $pdo->exec('UPDATE invoice SET fence = 9000000000000000');
        self::assertMatchesRegularExpression('/^table invoice, row 42: fence \d+ is stale/', $this->runExample($example));

        self::$server->command('SET', 'lock:invoice:42', 'another owner', 'PX', 60_000);
        self::assertStringContainsString('Somebody else', $this->runExample($example));
    }

    public function testTheExampleOfFencedKeyRunsVerbatim(): void
    {
        $example = $this->example('FencedKey');
        $here = str_replace("'127.0.0.1'", var_export(self::$server->socket(), true), $example);
        self::assertNotSame($example, $here);

        self::assertSame("12.50 12.50\n", $this->runExample($here));
        self::assertGreaterThan(0, self::$server->command('PTTL', 'price:42'));
    }

    public function testTheAclUserOfFencedKeyCanDoAllOfItAndNothingElse(): void
    {
        self::assertSame(1, preg_match('/^redis-cli ACL SETUSER (.*)$/m', self::readme()->text, $found));
        $rule = explode(' ', str_replace("'", '', $found[1]));
        self::$server->command('ACL', 'SETUSER', ...$rule);
        $redis = new Redis();
        $redis->connect(self::$server->socket());
        self::assertTrue($redis->auth(['worker', 'secret']));
        $price = new FencedKey($redis, 'price:42');

        $price->set('12.50', 7, ttl: 60.0);
        self::assertSame('12.50', $price->get());
        try {
            $price->set('late', 6);
            self::fail('fence 7 has written');
        } catch (StaleFenceException $late) {
            self::assertSame(7, $late->storedFence);
        }
        self::assertTrue($price->delete(7));
        $this->expectException(RedisException::class);
        $redis->get('another key');
    }

    public function testNoExampleIsLeftOut(): void
    {
        preg_match_all('/^## (\w+)/m', self::readme()->text, $names);
        $number = static fn (string $name): int => count(self::readme()->section($name)->blocks('php'));
        // Those of a framework have tests beside its others.
        $expected = ['Symfony' => 5, 'Laravel' => 3, 'FencedTable' => 1, 'FencedKey' => 1];
        self::assertSame($expected, array_filter(array_combine($names[1], array_map($number, $names[1]))));
    }

    private function runExample(string $example): string
    {
        file_put_contents($this->directory . '/example.php', $example);
        $interpreter = PhpProcess::interpreter(['redis_lease.dsn' => self::$server->dsn()], phpIni: true);
        $process = PhpProcess::startProgram(['env', '-C', $this->directory, ...$interpreter, 'example.php']);
        self::assertSame(0, $process->wait(), $process->everything());
        self::assertSame('', $process->errors());

        return $process->output();
    }

    private function example(string $section): string
    {
        return self::readme()->section($section)->examples()[0];
    }

    private function statement(string $begin): string
    {
        self::assertSame(1, preg_match("/`($begin [^`]*)`/", self::readme()->text, $found));

        return $found[1];
    }

    private static function readme(): Markdown
    {
        return Markdown::page('bridge/README.md');
    }
}
