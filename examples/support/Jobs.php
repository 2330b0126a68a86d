<?php

declare(strict_types=1);

/**
 * A queue in SQLite with at most one job, on invoice 42. As with any queue, the job stays until a worker says that it is
 * done, and is given to another when none has said so for a while: it can run twice.
 */
final class Jobs
{
    /** Longer than the job's lease, or a second worker would go on with the same lease as the first. */
    private const RETRY_AFTER = 2.0;

    public function __construct(private readonly PDO $db)
    {
        $db->exec('CREATE TABLE IF NOT EXISTS job (token TEXT, free_at REAL)');
    }

    /** @param string $token of the lease that the job goes on with */
    public function push(string $token): void
    {
        $this->db->prepare('INSERT INTO job VALUES (?, 0)')->execute([$token]);
    }

    /** Waits until there is a job that no worker has, and gives its token. */
    public function take(): string
    {
        $take = $this->db->prepare('UPDATE job SET free_at = ? WHERE free_at <= ?');
        for (;;) {
            $now = microtime(true);
            $take->execute([$now + self::RETRY_AFTER, $now]);
            if ($take->rowCount() === 1) {
                return $this->db->query('SELECT token FROM job')->fetchColumn();
            }
            usleep(10_000);
        }
    }

    public function done(): void
    {
        $this->db->exec('DELETE FROM job');
    }
}
