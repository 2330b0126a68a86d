<?php

/*
 * For snippets of a Worker: many processes that begin at one moment, and what each of them found. They are
 * forked, since a hundred programs take seconds to start and a hundred children do not.
 */

declare(strict_types=1);

/**
 * Forks children that all call the action at one moment, with their number. What each gave, in their order;
 * null for one that did not live to tell.
 *
 * @param ?callable(list<int>): void $meanwhile called with their process ids once they have begun
 */
function herd(int $count, callable $action, ?callable $meanwhile = null): array
{
    [$waiting, $starter] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $children = $tales = [];
    for ($number = 0; $number < $count; $number++) {
        [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $child = pcntl_fork();
        if ($child === -1) {
            throw new RuntimeException('no more processes');
        }
        if ($child === 0) {
            fclose($starter);
            fclose($ours);
            stream_select_once($waiting);
            $found = $action($number);
            fwrite($theirs, serialize($found));
            exit(0);
        }
        fclose($theirs);
        $children[] = $child;
        $tales[] = $ours;
    }
    fclose($waiting);
    fclose($starter);
    if ($meanwhile !== null) {
        $meanwhile($children);
    }
    $found = [];
    foreach ($tales as $tale) {
        $told = (string) stream_get_contents($tale);
        $found[] = $told === '' ? null : unserialize($told);
    }
    foreach ($children as $child) {
        pcntl_waitpid($child, $status);
    }

    return $found;
}

/** Sleeps until the stream's other end is closed. */
function stream_select_once($stream): void
{
    $read = [$stream];
    $write = $except = null;
    stream_select($read, $write, $except, null);
}
