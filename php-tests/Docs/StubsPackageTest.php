<?php

declare(strict_types=1);

namespace RedisLease\Tests\Docs;

use PHPStan\PhpDocParser\Ast\PhpDoc\InvalidTagValueNode;
use PHPStan\PhpDocParser\Ast\PhpDoc\PhpDocNode;
use PHPStan\PhpDocParser\Lexer\Lexer;
use PHPStan\PhpDocParser\Parser\ConstExprParser;
use PHPStan\PhpDocParser\Parser\PhpDocParser;
use PHPStan\PhpDocParser\Parser\TokenIterator;
use PHPStan\PhpDocParser\Parser\TypeParser;
use PHPStan\PhpDocParser\ParserConfig;
use PHPUnit\Framework\TestCase;
use RedisLease\Tests\Bridge\Database\Needs;
use RedisLease\Tests\Support\Markdown;
use ReflectionClass;
use ReflectionMethod;
use ReflectionNamedType;
use Symfony\Component\Yaml\Yaml;

/** The stubs as a package: what PHPStan and an editor read in them is well-formed, and complete. */
final class StubsPackageTest extends TestCase
{
    public static function setUpBeforeClass(): void
    {
        Needs::library('php-phpstan-phpdoc-parser', 'PHPStan/PhpDocParser/autoload.php');
        Needs::library('php-symfony-yaml', 'Symfony/Component/Yaml/autoload.php');
    }

    public function testEveryDocCommentIsOneThatPhpStanUnderstands(): void
    {
        $number = 0;
        foreach (self::files() as $file) {
            preg_match_all('~/\*\*.*?\*/~s', (string) file_get_contents(self::folder() . $file), $comments);
            foreach ($comments[0] as $comment) {
                $invalid = array_filter(
                    self::parse($comment)->getTags(),
                    static fn ($tag) => $tag->value instanceof InvalidTagValueNode,
                );
                self::assertSame([], array_map(strval(...), $invalid), "$file: $comment");
                $number++;
            }
        }
        self::assertGreaterThan(25, $number);
    }

    public function testAWrongTypeIsFound(): void
    {
        [$tag] = self::parse('/** @return array<string, */')->getTags();
        self::assertInstanceOf(InvalidTagValueNode::class, $tag->value);
    }

    public function testEveryMethodSaysWhatItTakesGivesAndThrows(): void
    {
        foreach (self::methods() as $where => [$method, $comment]) {
            $tags = self::parse($comment);
            $parameters = array_map(static fn ($parameter) => '$' . $parameter->getName(), $method->getParameters());
            $described = array_map(static fn ($tag) => $tag->parameterName, $tags->getParamTagValues());
            self::assertSame($parameters, $described, $where);

            $type = $method->getReturnType();
            $isPlain = $type === null || ($type instanceof ReflectionNamedType && in_array($type->getName(), ['void', 'self'], true));
            self::assertCount($isPlain ? 0 : 1, $tags->getReturnTagValues(), "$where has a @return");

            foreach ($tags->getThrowsTagValues() as $thrown) {
                $class = ltrim((string) $thrown->type, '\\');
                self::assertTrue(is_a($class, 'Throwable', true), "$where throws $class");
            }
        }
    }

    /** PHPStan takes a method's answer to be the same at the next call, unless it is told. */
    public function testWhatAnswersDifferentlyNextTimeSaysSo(): void
    {
        foreach (self::methods() as $where => [$method, $comment]) {
            $changes = !$method->isConstructor() && !in_array((string) $method->getReturnType(), ['void', 'self'], true)
                && !in_array($method->getName(), ['resource', 'synchronized'], true);
            self::assertSame($changes, str_contains($comment, '@phpstan-impure'), $where);
        }
    }

    public function testThePackageNamesEveryFileAndLoadsNone(): void
    {
        $package = json_decode((string) file_get_contents(self::folder() . 'composer.json'), true, flags: JSON_THROW_ON_ERROR);
        self::assertArrayNotHasKey('autoload', $package, 'the extension brings the classes');
        self::assertSame(['extension.neon'], $package['extra']['phpstan']['includes']);
        $parameters = Yaml::parseFile(self::folder() . 'extension.neon')['parameters'];
        $files = self::files();
        sort($parameters['scanFiles']);
        sort($parameters['stubFiles']);
        self::assertSame(['scanFiles' => $files, 'stubFiles' => $files], $parameters);

        [$config] = Markdown::page('stubs/README.md')->examples('yaml');
        self::assertSame(['vendor/' . $package['name'] . '/extension.neon'], Yaml::parse($config)['includes']);
    }

    /** @return array<string, array{ReflectionMethod, string}> every method of the extension, and what its stub says */
    private static function methods(): array
    {
        $methods = [];
        foreach (self::files() as $file) {
            $class = new ReflectionClass(str_replace(['/', '.php'], ['\\', ''], $file));
            $stub = (string) file_get_contents(self::folder() . $file);
            foreach ($class->getMethods(ReflectionMethod::IS_PUBLIC) as $method) {
                if ($method->getDeclaringClass()->getName() === $class->getName()) {
                    $name = $method->getName();
                    $found = preg_match("~(/\*\*(?:(?!\*/).)*\*/)\s+public (?:static )?function $name\(~s", $stub, $comment);
                    self::assertSame(1, $found, "$file: $name() has a doc comment");
                    $methods["$file: $name()"] = [$method, $comment[1]];
                }
            }
        }
        self::assertGreaterThan(15, count($methods));

        return $methods;
    }

    private static function parse(string $comment): PhpDocNode
    {
        if (class_exists(ParserConfig::class)) {
            $config = new ParserConfig([]);
            $expressions = new ConstExprParser($config);
            $parser = new PhpDocParser($config, new TypeParser($config, $expressions), $expressions);

            return $parser->parse(new TokenIterator((new Lexer($config))->tokenize($comment)));
        }
        $expressions = new ConstExprParser();
        $parser = new PhpDocParser(new TypeParser($expressions), $expressions);

        return $parser->parse(new TokenIterator((new Lexer())->tokenize($comment)));
    }

    /** @return list<string> */
    private static function files(): array
    {
        $files = [...glob(self::folder() . '*.php'), ...glob(self::folder() . '*/*.php')];
        $files = array_map(static fn (string $file) => substr($file, strlen(self::folder())), $files);
        sort($files);

        return $files;
    }

    private static function folder(): string
    {
        return Markdown::root() . '/stubs/';
    }
}
