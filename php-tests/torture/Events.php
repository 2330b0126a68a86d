<?php

declare(strict_types=1);

namespace RedisLease\Tests\torture;

/** The run's own events, and those that others left in its directory. Times are nanoseconds of the monotonic clock. */
final class Events
{
    /** @var resource */
    private $log;

    public function __construct(private readonly string $directory)
    {
        $this->log = fopen("$directory/events-run", 'a');
    }

    public function note(array $event): void
    {
        fwrite($this->log, json_encode($event + ['t' => hrtime(true)], JSON_THROW_ON_ERROR) . "\n");
    }

    /**
     * Everything that was written down, in the order of time. A line that a killed process did not finish
     * does not count.
     *
     * @return list<array<string, mixed>>
     */
    public function all(): array
    {
        $events = [];
        foreach (glob($this->directory . '/events-*') as $file) {
            foreach (explode("\n", (string) file_get_contents($file)) as $line) {
                $event = json_decode($line, true);
                if (is_array($event)) {
                    $events[] = $event;
                }
            }
        }
        usort($events, static fn (array $one, array $other) => $one['t'] <=> $other['t']);

        return $events;
    }
}
