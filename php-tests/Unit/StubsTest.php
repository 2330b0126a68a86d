<?php

declare(strict_types=1);

namespace RedisLease\Tests\Unit;

use FilesystemIterator;
use PHPUnit\Framework\TestCase;
use RecursiveDirectoryIterator;
use RecursiveIteratorIterator;
use RedisLease\Tests\Support\PhpProcess;

/** The stubs are what an editor believes: they have to say what reflection says, no more and no less. */
final class StubsTest extends TestCase
{
    public function testTheStubsAndTheExtensionSayTheSame(): void
    {
        $stubs = self::describe(false, self::stubFiles());
        $extension = self::describe(true, []);

        self::assertArrayHasKey('DistributedLock', $extension['classes']);
        self::assertGreaterThanOrEqual(8, count($stubs['classes']));
        self::assertSame(
            array_keys($stubs['classes']),
            array_keys($extension['classes']),
            'a class is missing on one side',
        );
        foreach ($stubs['classes'] as $class => $described) {
            // As text, so that a failure shows the difference alone.
            self::assertSame(
                json_encode($described, JSON_PRETTY_PRINT),
                json_encode($extension['classes'][$class], JSON_PRETTY_PRINT),
                "the stub (-) and the extension (+) differ on $class",
            );
        }
        self::assertSame($stubs['functions'], $extension['functions']);
        self::assertSame($stubs['constants'], $extension['constants']);
    }

    public function testTheComparisonSeesEveryKindOfDifference(): void
    {
        $original = file_get_contents(dirname(__DIR__, 2) . '/stubs/DistributedLock.php');
        $changes = [
            'final' => ['final class DistributedLock', 'class DistributedLock'],
            'a parameter name' => ['float $wait = 0.0', 'float $seconds = 0.0'],
            'a default' => ['float $wait = 0.0', 'float $wait = 0.5'],
            'no default' => ['acquire(float $wait = 0.0)', 'acquire(float $wait)'],
            'a type' => ['?float $ttl = null', 'float|string|null $ttl = null'],
            'a return type' => ['public function release(): bool', 'public function release(): ?bool'],
            'a method more' => ['public function release()', "public function more(): void\n{\n}\npublic function release()"],
            'a method less' => ['public function fence(): ?int', 'public function fenced(): ?int'],
            'static' => ['public static function restore', 'public function restore'],
            'visibility' => ['public function isHeld', 'protected function isHeld'],
            'a constant' => ["final class DistributedLock\n{", "final class DistributedLock\n{\npublic const A = 1;"],
            'a property' => ["final class DistributedLock\n{", "final class DistributedLock\n{\npublic ?string \$a = null;"],
            'an attribute' => ['string $resource,', "#[\\SensitiveParameter] string \$resource,"],
        ];
        $reference = self::describe(false, [PhpProcess::script($original)]);
        foreach ($changes as $what => [$from, $to]) {
            $changed = preg_replace('/' . preg_quote($from, '/') . '/', addcslashes($to, '\\$'), $original, 1, $count);
            self::assertSame(1, $count, "$what: the stub does not contain: $from");
            self::assertNotSame($reference, self::describe(false, [PhpProcess::script($changed)]), $what);
        }
    }

    /** @return list<string> */
    private static function stubFiles(): array
    {
        $files = [];
        $directory = new RecursiveDirectoryIterator(dirname(__DIR__, 2) . '/stubs', FilesystemIterator::SKIP_DOTS);
        foreach (new RecursiveIteratorIterator($directory) as $file) {
            if ($file->getExtension() === 'php') {
                $files[] = $file->getPathname();
            }
        }
        sort($files);

        return $files;
    }

    /** @param list<string> $files */
    private static function describe(bool $extension, array $files): array
    {
        $dump = dirname(__DIR__) . '/Support/reflection-dump.php';
        $process = PhpProcess::runArguments([$dump, ...$files], [], $extension);
        self::assertSame('', $process->errors());
        self::assertSame(0, $process->wait(), $process->everything());

        return json_decode($process->output(), true, 512, JSON_THROW_ON_ERROR);
    }
}
