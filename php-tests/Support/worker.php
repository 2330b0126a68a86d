<?php

/*
 * What a Worker's snippet finds: its arguments, and a line to the test. Messages are JSON, one a
 * line; bytes that are not UTF-8 have to be turned into hex by the snippet.
 */

declare(strict_types=1);

$args = unserialize(base64_decode($argv[1]));

/** Tells the test something. */
function say(mixed $message): void
{
    fwrite(STDOUT, json_encode($message, JSON_THROW_ON_ERROR | JSON_PRESERVE_ZERO_FRACTION) . "\n");
}

/** Waits for the test's next message; ends the process if the test is gone. */
function hear(): mixed
{
    // A signal ends a read too, and is no end of the test.
    while (($line = fgets(STDIN)) === false) {
        if (feof(STDIN)) {
            exit(0);
        }
    }

    return json_decode($line, true, 512, JSON_THROW_ON_ERROR);
}

/** Runs the action and gives the class of what it threw, or null. */
function thrown(callable $action): ?string
{
    try {
        $action();
    } catch (Throwable $caught) {
        return $caught::class;
    }

    return null;
}
