<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

final class QuorumOfThreeTest extends QuorumConformanceTestCase
{
    protected const NODES = 3;
}
