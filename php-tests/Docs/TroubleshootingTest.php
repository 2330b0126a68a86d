<?php

declare(strict_types=1);

namespace RedisLease\Tests\Docs;

use PHPUnit\Framework\TestCase;
use RedisLease\Tests\Docs\Mishaps\Losses;
use RedisLease\Tests\Docs\Mishaps\Mistakes;
use RedisLease\Tests\Docs\Mishaps\Network;
use RedisLease\Tests\Docs\Mishaps\Refusals;
use RedisLease\Tests\Docs\Mishaps\Tls;
use RedisLease\Tests\Support\Markdown;

/** Every message that the page on troubleshooting quotes is one that a reader can meet: each is provoked here. */
final class TroubleshootingTest extends TestCase
{
    private const PAGE = 'docs/troubleshooting.md';
    /** What a test cannot bring about: its fixed text, and where that comes from. */
    private const NOT_PROVOKED = [
        'no connection within the connect time-out (the host name was being resolved)' => [
            'src/net/fault.rs' => 'no connection within the connect time-out (',
            'src/net/connecting.rs' => '"the host name was being resolved"',
        ],
        'the thread for automatic renewal cannot be started: …' => ['src/error.rs' => '"the thread for automatic renewal cannot be started: {0}"'],
        'no random bytes from the system: …' => ['src/error.rs' => '"no random bytes from the system: {0}"'],
        "TLS: the server's certificate cannot be trusted (…)" => ['src/net/tls.rs' => "\"the server's certificate cannot be trusted\""],
        'TLS: the handshake failed (…)' => ['src/net/tls.rs' => '"the handshake failed"'],
        // Root may use every socket.
        'cannot connect: Permission denied (os error 13)' => ['src/net/fault.rs' => '"cannot connect: {0}"'],
    ];

    /** What stands within other messages, or reaches nobody. */
    private const NOT_QUOTED = [
        'the wait was interrupted', 'raising the fence', 'waiting for replicas', "asking for the cluster's slots",
        'ending a wait', 'giving a reservation back', 'INFO has no uptime_in_seconds',
    ];

    public function testConnectionException(): void
    {
        $this->assertQuotes([...Network::unavailable(), ...Network::ofGroups(), ...Tls::messages()]);
    }

    public function testLeaseExceptionItself(): void
    {
        $this->assertQuotes([]);
    }

    public function testOutcomeUnknownException(): void
    {
        $this->assertQuotes(Network::unknown());
    }

    public function testServerException(): void
    {
        $this->assertQuotes([...Refusals::ofOneServer(), ...Refusals::ofNodes()]);
    }

    public function testLeaseLostExceptionAndLockTimeoutException(): void
    {
        $this->assertQuotes(Losses::messages());
    }

    public function testValueErrorAndWarningsAboutSettings(): void
    {
        $this->assertQuotes(Mistakes::values());
    }

    public function testErrorsOfTheProgram(): void
    {
        $this->assertQuotes(Mistakes::ofPrograms());
    }

    public function testLinesOfPing(): void
    {
        $this->assertQuotes(Refusals::inPing());
    }

    public function testWhatIsNotProvokedIsInTheSource(): void
    {
        foreach (self::NOT_PROVOKED as $message => $sources) {
            foreach ($sources as $file => $text) {
                self::assertStringContainsString($text, (string) file_get_contents(Markdown::root() . "/$file"), $message);
            }
        }
        self::assertSame('Permission denied', posix_strerror(13));
    }

    /** What can be said of a lease is on the page; of DSNs, only the usual mistakes are. */
    public function testNoMessageOfTheSourceIsLeftOut(): void
    {
        $page = Markdown::page(self::PAGE)->text;
        $left = [];
        foreach (['src/error.rs', 'src/net/fault.rs', 'src/net/tls.rs', 'src/loss.rs', 'src/store/round.rs'] as $file) {
            $source = explode('#[cfg(test)]', (string) file_get_contents(Markdown::root() . "/$file"))[0];
            $source = preg_replace(['~^\s*//.*$~m', '~\\\\\n\s*~'], '', $source);
            preg_match_all('/"((?:[^"\\\\]|\\\\.)*)"/', $source, $literals);
            foreach ($literals[1] as $literal) {
                foreach (preg_split('/\{[^}]*\}/', stripslashes($literal)) as $fixed) {
                    $isSentence = substr_count(trim($fixed), ' ') > 1;
                    if ($isSentence && !str_contains($page, trim($fixed)) && !in_array(trim($fixed), self::NOT_QUOTED, true)) {
                        $left[] = "$file: $fixed";
                    }
                }
            }
        }
        self::assertSame([], $left);
    }

    public function testEveryTableOfThePageHasATest(): void
    {
        preg_match_all('/^## (.*)$/m', Markdown::page(self::PAGE)->text, $headings);
        foreach ($headings[1] as $heading) {
            $hasRows = Markdown::page(self::PAGE)->section($heading)->rows() !== [];
            self::assertSame($hasRows, method_exists($this, self::testOf($heading)), $heading);
        }
    }

    /** Compares the table of the section whose test calls this: each of its messages is among the provoked ones. */
    private function assertQuotes(array $provoked): void
    {
        preg_match_all('/^## (.*)$/m', Markdown::page(self::PAGE)->text, $headings);
        $caller = debug_backtrace(limit: 2)[1]['function'];
        $section = current(array_filter($headings[1], static fn (string $heading) => self::testOf($heading) === $caller));
        foreach (Markdown::page(self::PAGE)->section($section)->rows() as [$cell]) {
            self::assertSame(1, preg_match('/^`([^`]+)`$/', $cell, $quoted), "$cell: one message in a row");
            if (!isset(self::NOT_PROVOKED[$quoted[1]])) {
                $pattern = '/' . str_replace('…', '.+', preg_quote($quoted[1], '/')) . '/su';
                $found = preg_grep($pattern, $provoked);
                self::assertNotSame([], $found, "$quoted[1]\nis none of these:\n" . implode("\n", $provoked));
            }
        }
    }

    /** "LeaseLostException and …: what" is tested by testLeaseLostExceptionAnd…() */
    private static function testOf(string $heading): string
    {
        return 'test' . preg_replace('/\W/', '', ucwords(explode(':', $heading)[0]));
    }
}
