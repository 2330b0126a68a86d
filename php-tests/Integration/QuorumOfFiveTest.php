<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration;

final class QuorumOfFiveTest extends QuorumConformanceTestCase
{
    protected const NODES = 5;
}
