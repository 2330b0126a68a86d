<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge;

use PHPUnit\Framework\TestCase;
use RecursiveDirectoryIterator;
use RecursiveIteratorIterator;
use ReflectionClass;
use ReflectionException;
use ReflectionMethod;
use ReflectionNamedType;
use ReflectionProperty;
use ReflectionType;
use RedisLease\Tests\Bridge\Database\Needs;

/** What a static analyser would demand first of the package: it says of everything what it is. */
final class TypesTest extends TestCase
{
    public function testEverythingHasATypeAndEveryArraySaysWhatIsInIt(): void
    {
        Needs::library('php-predis', 'Predis/autoload.php');
        foreach (['HttpKernel', 'Config', 'DependencyInjection', 'Console', 'Lock'] as $component) {
            Needs::library('php-symfony-framework-bundle', "Symfony/Component/$component/autoload.php");
        }
        Needs::library('php-laravel-framework', 'Illuminate/autoload.php');
        $complaints = $classes = [];
        foreach (self::classes() as $class) {
            $classes[] = $class->getName();
            foreach ($class->getProperties() as $property) {
                if ($property->getDeclaringClass()->getName() === $class->getName()) {
                    array_push($complaints, ...self::ofProperty($property));
                }
            }
            foreach ($class->getMethods() as $method) {
                if ($method->getDeclaringClass()->getName() === $class->getName()) {
                    array_push($complaints, ...self::ofMethod($method));
                }
            }
        }
        self::assertGreaterThan(30, count($classes));
        self::assertSame([], $complaints);
    }

    /** @return iterable<ReflectionClass<object>> */
    private static function classes(): iterable
    {
        $source = dirname(__DIR__, 2) . '/bridge/src';
        foreach (new RecursiveIteratorIterator(new RecursiveDirectoryIterator($source)) as $file) {
            if ($file->getExtension() === 'php') {
                $name = strtr(substr($file->getPathname(), strlen($source) + 1, -4), '/', '\\');
                yield new ReflectionClass("RedisLease\\Bridge\\$name");
            }
        }
    }

    /** @return list<string> */
    private static function ofMethod(ReflectionMethod $method): array
    {
        // What a framework's own declaration says counts for the method that implements it.
        if (self::isInherited($method)) {
            return [];
        }
        $documented = (string) $method->getDocComment();
        $where = "{$method->class}::{$method->name}()";
        $complaints = [];
        foreach ($method->getParameters() as $parameter) {
            $tag = self::tag($documented, 'param', '\$' . $parameter->getName() . '\b');
            $complaints[] = self::complaint($parameter->getType(), $tag, "$where: \${$parameter->getName()}");
        }
        if (!$method->isConstructor() && !$method->isDestructor()) {
            $complaints[] = self::complaint($method->getReturnType(), self::tag($documented, 'return', ''), "$where: return");
        }

        return array_values(array_filter($complaints));
    }

    /** @return list<string> */
    private static function ofProperty(ReflectionProperty $property): array
    {
        $inherits = $property->getDeclaringClass()->getParentClass();
        if ($property->isPromoted() || ($inherits !== false && $inherits->hasProperty($property->getName()))) {
            return [];
        }
        $tag = self::tag((string) $property->getDocComment(), 'var', '');

        return array_values(array_filter([
            self::complaint($property->getType(), $tag, "{$property->class}::\${$property->getName()}"),
        ]));
    }

    private static function complaint(?ReflectionType $type, ?string $tag, string $what): ?string
    {
        if ($type === null && $tag === null) {
            return "$what has no type";
        }
        $isContainer = $type instanceof ReflectionNamedType
            && in_array($type->getName(), ['array', 'iterable', 'WeakMap', 'callable'], true);

        return $isContainer && preg_match('/[<{(]|\[\]/', (string) $tag) !== 1 ? "$what does not say what is in it" : null;
    }

    /** The type that a PHPDoc tag names. */
    private static function tag(string $documented, string $name, string $subject): ?string
    {
        return preg_match("/@$name\\s+(\\S.*?)\\s*$subject(?=\\s|$)/m", $documented, $found) === 1 ? $found[1] : null;
    }

    private static function isInherited(ReflectionMethod $method): bool
    {
        try {
            return !$method->isConstructor() && $method->getPrototype()->class !== $method->class;
        } catch (ReflectionException) {
            return false;
        }
    }
}
