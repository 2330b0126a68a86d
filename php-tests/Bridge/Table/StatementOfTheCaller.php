<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Table;

use PDOStatement;

/** For PDO::ATTR_STATEMENT_CLASS. */
final class StatementOfTheCaller extends PDOStatement
{
}
