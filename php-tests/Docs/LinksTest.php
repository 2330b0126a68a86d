<?php

declare(strict_types=1);

namespace RedisLease\Tests\Docs;

use PHPUnit\Framework\TestCase;
use RedisLease\Tests\Support\Markdown;

/** Whoever follows a link of the documentation arrives. */
final class LinksTest extends TestCase
{
    public function testEveryLinkLeadsToAFileAndEveryAnchorToAHeading(): void
    {
        $broken = [];
        $number = 0;
        foreach (Markdown::pages() as $page) {
            foreach ($page->links() as $link) {
                $number++;
                if (!self::leadsSomewhere($page, $link)) {
                    $broken[] = "{$page->file}: $link";
                }
            }
        }
        self::assertSame([], $broken);
        self::assertGreaterThan(60, $number);
    }

    public function testABrokenLinkIsFound(): void
    {
        $page = Markdown::page('docs/fencing.md');
        foreach (['queues.md', 'queues.md#symfony-and-laravel', '#checking-it', '../README.md'] as $link) {
            self::assertTrue(self::leadsSomewhere($page, $link), $link);
        }
        foreach (['queue.md', 'queues.md#nothing', '#nothing', 'README.md#try-it', '/README.md'] as $link) {
            self::assertFalse(self::leadsSomewhere($page, $link), $link);
        }
    }

    public function testEveryPathThatIsNamedExists(): void
    {
        $rooms = 'bench|bridge|docs|examples|monitoring|php-tests|src|stubs|tests|tools';
        $missing = [];
        $number = 0;
        foreach (Markdown::pages() as $page) {
            foreach (preg_grep("~^($rooms)/[\\w./-]+$~", $page->inlineCode()) as $path) {
                $number++;
                if (!file_exists(Markdown::root() . "/$path")) {
                    $missing[] = "{$page->file}: $path";
                }
            }
        }
        self::assertSame([], $missing);
        self::assertGreaterThan(15, $number);
    }

    public function testThePagesOfTheDocumentationAreAllInItsIndex(): void
    {
        $listed = Markdown::page('docs/README.md')->links();
        foreach (Markdown::pages('docs/') as $page) {
            if ($page->file !== 'docs/README.md') {
                self::assertContains(basename($page->file), $listed);
            }
        }
    }

    private static function leadsSomewhere(Markdown $page, string $link): bool
    {
        if (preg_match('/^[a-z]+:/', $link)) {
            return true;
        }
        [$path, $anchor] = explode('#', "$link#");
        $file = $path === '' ? $page->file : ltrim(dirname($page->file) . "/$path", './');
        // Up one folder is all that the documentation needs.
        $file = preg_replace('~(^|/)[a-z]+/\.\./~', '$1', $file);
        if (str_starts_with($path, '/') || !file_exists(Markdown::root() . "/$file")) {
            return false;
        }

        return $anchor === '' || in_array($anchor, Markdown::page($file)->anchors(), true);
    }
}
