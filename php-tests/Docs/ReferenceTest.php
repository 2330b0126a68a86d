<?php

declare(strict_types=1);

namespace RedisLease\Tests\Docs;

use DistributedLock;
use RedisLease\Connection;
use RedisLease\LeaseException;
use RedisLease\Metrics;
use RedisLease\Tests\Support\Markdown;
use RedisLease\Tests\Support\PhpProcess;
use RedisLease\Tests\Support\ServerTestCase;
use ReflectionClass;
use ReflectionMethod;
use ReflectionParameter;

/** What the pages say in signatures and numbers is what the extension has. */
final class ReferenceTest extends ServerTestCase
{
    private const PAGE = 'docs/reference.md';

    public function testTheSignaturesAreThoseOfTheClasses(): void
    {
        foreach ([DistributedLock::class, Connection::class, Metrics::class] as $class) {
            $reflection = new ReflectionClass($class);
            $existing = [];
            foreach ($reflection->getMethods(ReflectionMethod::IS_PUBLIC) as $method) {
                if (!$method->isConstructor() || $method->getNumberOfParameters() > 0) {
                    $existing[] = self::signature($method);
                }
            }
            $listed = self::firstCells(Markdown::page(self::PAGE)->section($class), '(');
            sort($existing);
            sort($listed);
            self::assertSame($existing, $listed, $class);
        }
    }

    private static function signature(ReflectionMethod $method): string
    {
        $class = $method->getDeclaringClass()->getShortName();
        $parameters = implode(', ', array_map(
            static fn (ReflectionParameter $parameter) => "{$parameter->getType()} \${$parameter->getName()}"
                . ($parameter->isOptional() ? ' = ' . strtolower(var_export($parameter->getDefaultValue(), true)) : ''),
            $method->getParameters(),
        ));
        if ($method->isConstructor()) {
            return "new $class($parameters)";
        }

        return ($method->isStatic() ? "$class::" : '') . "{$method->getName()}($parameters): {$method->getReturnType()}";
    }

    public function testEveryDsnOfTheTableIsTaken(): void
    {
        $dsns = self::firstCells(Markdown::page(self::PAGE)->section(Connection::class), '/', '=');
        $dsns = array_filter($dsns, static fn (string $row) => !str_contains($row, '('));
        self::assertGreaterThan(12, count($dsns));
        foreach ($dsns as $dsn) {
            // Refused with a ValueError if it is none, or has an option that is none.
            new Connection(str_replace('…', 'x', preg_replace('/^…/u', 'redis://host', $dsn)));
        }
        $this->expectException(\ValueError::class);
        new Connection('redis://host?wait_replica=1');
    }

    public function testTheSettingsThatIniSetCannotChangeAreThoseThatAreNamed(): void
    {
        $process = PhpProcess::run('echo json_encode(ini_get_all("redis_lease"));');
        $fixed = array_keys(array_filter(
            json_decode($process->output(), true),
            static fn (array $setting) => ($setting['access'] & INI_USER) === 0,
        ));
        $section = Markdown::page(self::PAGE)->section('Settings');
        self::assertSame(1, preg_match('/All but (.*?) can be changed with `ini_set\(\)`/s', $section->text, $sentence));
        preg_match_all('/`([^`]+)`/', $sentence[1], $named);
        $rows = array_filter($section->rows(), static fn (array $row) => str_contains($row[2], 'php.ini only'));
        $marked = array_map(static fn (array $row) => trim($row[0], '`'), array_values($rows));

        self::assertEqualsCanonicalizing($fixed, $named[1]);
        self::assertEqualsCanonicalizing($fixed, $marked);
    }

    public function testTheExceptionsCarryWhatIsSaid(): void
    {
        $rows = Markdown::page(self::PAGE)->section('Exceptions')->rows();
        self::assertCount(6, $rows);
        foreach ($rows as [$name, , $carried]) {
            $class = new ReflectionClass(trim($name, '`'));
            self::assertTrue($class->getName() === LeaseException::class || $class->isSubclassOf(LeaseException::class), $name);
            preg_match_all('/`\$(\w+)`/', $carried, $properties);
            $own = array_filter(
                $class->getProperties(\ReflectionProperty::IS_PUBLIC),
                static fn (\ReflectionProperty $property) => $property->getDeclaringClass()->getName() === $class->getName(),
            );
            $own = array_map(static fn (\ReflectionProperty $property) => $property->getName(), $own);
            self::assertEqualsCanonicalizing(array_values($own), $properties[1], $name);
        }
    }

    public function testTheValidityIsThatOfALease(): void
    {
        $sentence = '/its TTL less (\d+) % and (\d+) ms, counted from the sending of the command(?:: of (\d+) s, ([\d.]+) s)?/';
        $found = 0;
        foreach (['docs/ttl.md', self::PAGE] as $page) {
            $text = str_replace("\n", ' ', Markdown::page($page)->text);
            self::assertSame(1, preg_match(str_replace(' ', '\s+', $sentence), $text, $said), $page);
            $ttl = (float) ($said[3] ?? 10);
            $validity = $ttl * (1 - $said[1] / 100) - $said[2] / 1000;
            if (isset($said[4])) {
                $found++;
                self::assertEqualsWithDelta($validity, (float) $said[4], 1e-6, $page);
            }
            $lock = $this->lock('order:42', $ttl);
            $before = hrtime(true);
            self::assertTrue($lock->acquire());
            $remaining = $lock->remaining();
            $took = (hrtime(true) - $before) / 1e9;
            self::assertLessThanOrEqual($validity, $remaining, $page);
            self::assertGreaterThanOrEqual($validity - $took - 1e-6, $remaining, $page);
            $lock->release();
        }
        self::assertSame(1, $found);
    }

    /** @return list<string> the code in the first cell of each row that has one of these characters in it */
    private static function firstCells(Markdown $section, string ...$with): array
    {
        $cells = array_map(static fn (array $row) => trim($row[0], '`'), $section->rows());
        $has = static fn (string $cell) => array_filter($with, static fn (string $one) => str_contains($cell, $one)) !== [];

        return array_values(array_filter($cells, $has));
    }
}
