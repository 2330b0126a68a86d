<?php

declare(strict_types=1);

namespace RedisLease\Tests\Metrics;

use RedisLease\Metrics;
use RedisLease\Tests\Support\ServerTestCase;

/** Each test begins with every number at zero, in this process and those that it forks. */
abstract class MetricsTestCase extends ServerTestCase
{
    protected function setUp(): void
    {
        parent::setUp();
        Metrics::reset();
    }

    protected static function needsPcntl(): void
    {
        if (!function_exists('pcntl_fork')) {
            self::markTestSkipped('PHP was built without pcntl');
        }
    }

    /**
     * What is not zero of a metric.
     *
     * @return array<array-key, mixed>
     */
    protected static function counted(string $name): array
    {
        return self::used(Metrics::snapshot()[$name]);
    }

    /**
     * @param array<array-key, mixed> $numbers
     * @return array<array-key, mixed>
     */
    protected static function used(array $numbers): array
    {
        $numbers = array_map(static fn ($number) => is_array($number) ? self::used($number) : $number, $numbers);

        return array_filter($numbers);
    }

    /**
     * The samples of a text exposition: name with labels => value.
     *
     * @return array<string, float>
     */
    protected static function samples(string $text): array
    {
        $samples = [];
        foreach (explode("\n", trim($text)) as $line) {
            if ($line[0] !== '#') {
                [$name, $value] = [substr($line, 0, strrpos($line, ' ')), substr($line, strrpos($line, ' ') + 1)];
                self::assertArrayNotHasKey($name, $samples, 'each is told once');
                self::assertTrue(is_numeric($value), $line);
                $samples[$name] = (float) $value;
            }
        }

        return $samples;
    }
}
