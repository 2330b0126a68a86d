<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge;

use PHPUnit\Framework\AssertionFailedError;
use Predis\Client;
use Predis\ClientInterface;
use Predis\Response\ServerException;
use RedisLease\Bridge\FencedKey;
use RedisLease\Tests\Support\RedisServer;

final class FencedKeyWithPredisTest extends FencedKeyTestCase
{
    private const LIBRARY = 'Predis/autoload.php';

    public static function setUpBeforeClass(): void
    {
        if (stream_resolve_include_path(self::LIBRARY) === false) {
            throw new AssertionFailedError(self::LIBRARY . ' is missing: apt-get install php-predis');
        }
        require_once self::LIBRARY;
        parent::setUpBeforeClass();
    }

    protected function setUp(): void
    {
        parent::setUp();
        // Debian's Predis is older than this PHP, and has it complain at each command with a prefix.
        error_reporting(E_ALL & ~E_DEPRECATED);
    }

    protected function tearDown(): void
    {
        error_reporting(E_ALL);
    }

    protected function client(string $prefix = '', array $options = []): ClientInterface
    {
        $options += $prefix === '' ? [] : ['prefix' => $prefix];

        return new Client(['scheme' => 'unix', 'path' => self::$server->socket()], $options);
    }

    protected function clusterClient(RedisServer $server, string $prefix = ''): ClientInterface
    {
        $options = ['cluster' => 'redis'] + ($prefix === '' ? [] : ['prefix' => $prefix]);

        return new Client(['tcp://127.0.0.1:' . $server->port()], $options);
    }

    protected static function refusal(): string
    {
        return ServerException::class;
    }

    public function testAClientThatReturnsErrorsHidesNoneFromTheCaller(): void
    {
        $price = new FencedKey($this->client(options: ['exceptions' => false]), 'price:42');
        self::$server->command('SCRIPT', 'FLUSH');
        $price->set('value', 5);
        self::assertSame('value', $price->get());
        self::assertStale(fn () => $price->set('late', 4), 4, 5);

        self::$server->command('SET', '~{price:42}:fence', 'zzz');
        $this->assertRefusedByTheServer(fn () => $price->set('new', 6), 'fence');
        self::$server->command('DEL', 'price:42');
        self::$server->command('RPUSH', 'price:42', 'item');
        $this->assertRefusedByTheServer(fn () => $price->get(), 'WRONGTYPE');
    }

    public function testOnlyWhatHasAStringIsStored(): void
    {
        $price = $this->fencedKey();
        self::assertOnlyScalarsAreStored($price);
    }
}
