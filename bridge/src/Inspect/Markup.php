<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Inspect;

use Symfony\Component\Console\Formatter\OutputFormatter;

/**
 * Names may look like the markup of Symfony's console: <info>, or a colour that does not exist.
 *
 * @internal
 */
final class Markup
{
    /** What the console shows as this text. */
    public static function escape(string $text): string
    {
        // In pieces that end with a backslash: one before a < would not be seen as a part of the name.
        return implode('', array_map(OutputFormatter::escape(...), preg_split('/(?<=\\\\)/', $text)));
    }

    /** @return list<string> the row of a table */
    public static function row(Lease $lease): array
    {
        return array_map(self::escape(...), $lease->row());
    }
}
