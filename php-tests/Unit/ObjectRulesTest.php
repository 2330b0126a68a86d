<?php

declare(strict_types=1);

namespace RedisLease\Tests\Unit;

use DistributedLock;
use Error;
use PHPUnit\Framework\TestCase;
use RedisLease\Connection;
use RedisLease\ConnectionException;
use RedisLease\LeaseException;
use RedisLease\LeaseLostException;
use RedisLease\LockTimeoutException;
use RedisLease\OutcomeUnknownException;
use RedisLease\ServerException;
use ReflectionClass;
use RuntimeException;
use Throwable;

/** What the classes are in PHP's eyes. */
final class ObjectRulesTest extends TestCase
{
    private const EXCEPTIONS = [
        LeaseException::class, ConnectionException::class, OutcomeUnknownException::class,
        ServerException::class, LockTimeoutException::class, LeaseLostException::class,
    ];

    public function testTheClassesAreFinal(): void
    {
        foreach ([DistributedLock::class, Connection::class] as $class) {
            self::assertTrue((new ReflectionClass($class))->isFinal(), $class);
        }
    }

    public function testALockCannotBeCloned(): void
    {
        $lock = new DistributedLock('order:1');
        $caught = self::caught(static fn () => clone $lock);

        self::assertInstanceOf(Error::class, $caught);
        self::assertStringContainsString('DistributedLock', $caught->getMessage());
    }

    public function testALockCannotBeSerializedAndSaysWhatToDoInstead(): void
    {
        $lock = new DistributedLock('order:1');
        foreach ([$lock, [$lock], new \ArrayObject([$lock])] as $value) {
            $caught = self::caught(static fn () => serialize($value));

            self::assertInstanceOf(Throwable::class, $caught);
            self::assertStringContainsString('DistributedLock', $caught->getMessage());
            self::assertStringContainsString('detach()', $caught->getMessage());
            self::assertStringContainsString('restore()', $caught->getMessage());
        }
    }

    public function testAConnectionCannotBeClonedOrSerialized(): void
    {
        $connection = new Connection('redis://127.0.0.1');
        $attempts = [
            'clone' => static fn () => clone $connection,
            'serialize' => static fn () => serialize($connection),
        ];
        foreach ($attempts as $what => $attempt) {
            self::assertInstanceOf(Throwable::class, self::caught($attempt), $what);
        }
    }

    public function testNothingUnserializesToOneOfOurObjects(): void
    {
        foreach (['DistributedLock', 'RedisLease\Connection'] as $class) {
            foreach (['O:%d:"%s":0:{}', 'C:%d:"%s":0:{}', 'a:1:{i:0;O:%d:"%s":0:{}}'] as $format) {
                $made = null;
                // Some versions of PHP throw, some warn and give false.
                self::caught(static function () use ($format, $class, &$made): void {
                    $made = @unserialize(sprintf($format, strlen($class), $class));
                });

                self::assertContains($made, [null, false], "$format of $class");
            }
        }
    }

    public function testAnObjectMadeWithoutItsConstructorAnswersWithAClearError(): void
    {
        foreach ([DistributedLock::class, Connection::class] as $class) {
            $reflection = new ReflectionClass($class);
            try {
                $object = $reflection->newInstanceWithoutConstructor();
            } catch (\ReflectionException $refused) {
                self::assertStringContainsString($class, $refused->getMessage());
                continue;
            }
            foreach ($reflection->getMethods() as $method) {
                if ($method->isStatic() || $method->isConstructor()) {
                    continue;
                }
                $arguments = $method->getName() === 'synchronized' ? [static fn () => self::fail('called back')] : [];
                $caught = self::caught(static fn () => $method->invokeArgs($object, $arguments));
                $name = "$class::{$method->getName()}()";
                self::assertInstanceOf(Error::class, $caught, $name);
                self::assertStringContainsStringIgnoringCase('construct', $caught->getMessage(), $name);
            }
            if ($class === Connection::class) {
                $caught = self::caught(static fn () => (new DistributedLock('a', connection: $object))->acquire());
                self::assertInstanceOf(Error::class, $caught, 'a connection without its constructor');
            }
            unset($object);
        }
    }

    public function testASecondConstructionIsRefused(): void
    {
        $lock = new DistributedLock('order:1', 5.0);
        $caught = self::caught(static fn () => $lock->__construct('order:2'));

        self::assertInstanceOf(Error::class, $caught);
        self::assertSame('order:1', $lock->resource());

        $connection = new Connection('redis://127.0.0.1');
        self::assertInstanceOf(Error::class, self::caught(static fn () => $connection->__construct('redis://other')));
    }

    public function testTheExceptionsFormTheDocumentedTree(): void
    {
        foreach (self::EXCEPTIONS as $class) {
            $parent = $class === LeaseException::class ? RuntimeException::class : LeaseException::class;
            self::assertSame($parent, get_parent_class($class));
        }
    }

    public function testEveryExceptionCanBeMadeInPhp(): void
    {
        foreach (self::EXCEPTIONS as $class) {
            $previous = new RuntimeException('before');
            $exception = new $class('what happened', 42, $previous);
            $line = __LINE__ - 1;

            self::assertSame('what happened', $exception->getMessage(), $class);
            self::assertSame(42, $exception->getCode(), $class);
            self::assertSame($previous, $exception->getPrevious(), $class);
            self::assertSame(__FILE__, $exception->getFile(), $class);
            self::assertSame($line, $exception->getLine(), $class);
            self::assertSame(__FUNCTION__, $exception->getTrace()[0]['function'], $class);
            self::assertNull($exception->resource, $class);
        }
        self::assertNull((new OutcomeUnknownException())->token);
        self::assertNull((new OutcomeUnknownException())->fence);
        self::assertSame('', (new ServerException())->redisCode);
        self::assertNull((new LeaseLostException())->result);
    }

    public function testAnExceptionCanBeExtendedInPhp(): void
    {
        $exception = new class ('ours') extends ServerException {
            public function context(): ?string
            {
                return $this->resource;
            }
        };
        $exception->resource = 'order:1';

        self::assertSame('order:1', $exception->context());
        self::assertSame('', $exception->redisCode);
    }

    public function testAThrownExceptionHasFileLineAndTrace(): void
    {
        $nobody = new Connection('unix://' . __DIR__ . '/nobody.sock', 0.1, 0.1);
        try {
            (new DistributedLock('order:1', connection: $nobody))->acquire();
            self::fail('nobody listens');
        } catch (ConnectionException $failure) {
            self::assertSame(__FILE__, $failure->getFile());
            self::assertSame(__LINE__ - 4, $failure->getLine());
            self::assertSame('acquire', $failure->getTrace()[0]['function']);
            self::assertSame('DistributedLock', $failure->getTrace()[0]['class']);
            self::assertStringContainsString('nobody.sock', $failure->getMessage());
            self::assertSame('order:1', $failure->resource);
        }
    }

    public function testALockHasNoHiddenStateInDumps(): void
    {
        $lock = new DistributedLock('order:1', 5.0, connection: new Connection('redis://:hunter2@127.0.0.1'));
        ob_start();
        var_dump($lock);
        $dump = ob_get_clean() . print_r($lock, true) . json_encode($lock);

        self::assertStringContainsString('DistributedLock', $dump);
        self::assertStringNotContainsString('hunter2', $dump);
    }

    public function testObjectsAreCollectedInCycles(): void
    {
        $holder = new \stdClass();
        $holder->lock = new DistributedLock('order:1');
        $holder->self = $holder;
        $gone = \WeakReference::create($holder->lock);
        unset($holder);
        gc_collect_cycles();

        self::assertNull($gone->get());
    }

    private static function caught(callable $action): ?Throwable
    {
        try {
            $action();
        } catch (Throwable $caught) {
            return $caught;
        }

        return null;
    }
}
