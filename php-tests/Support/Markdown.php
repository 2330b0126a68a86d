<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

use PHPUnit\Framework\Assert;

/** A page of the documentation: its code blocks, links and anchors, as GitHub reads them. */
final class Markdown
{
    private function __construct(public readonly string $file, public readonly string $text)
    {
    }

    /** The page of that path in the repository. */
    public static function page(string $file): self
    {
        return new self($file, (string) file_get_contents(self::root() . "/$file"));
    }

    /**
     * Every page of the repository, under a folder if one is given.
     *
     * @return array<string, self> by path
     */
    public static function pages(string $folder = ''): array
    {
        $pages = [];
        foreach (['', 'bridge/', 'docs/', 'monitoring/', 'stubs/'] as $inside) {
            if (str_starts_with($inside, $folder)) {
                foreach (glob(self::root() . "/$inside*.md") as $file) {
                    $pages[$inside . basename($file)] = self::page($inside . basename($file));
                }
            }
        }
        Assert::assertNotSame([], $pages);

        return $pages;
    }

    /**
     * All but the bridge's, whose examples have tests of their own, in an application of each framework.
     *
     * @return array<string, self>
     */
    public static function pagesOfTheExtension(): array
    {
        return array_filter(self::pages(), static fn (self $page) => dirname($page->file) !== 'bridge');
    }

    public static function root(): string
    {
        return dirname(__DIR__, 2);
    }

    /** What stands under a heading that begins so, up to the next of its level. */
    public function section(string $heading): self
    {
        $found = preg_match('/^(#+) ' . preg_quote($heading, '/') . '.*?(?=^\1 |\z)/ms', $this->text, $section);
        Assert::assertSame(1, $found, "{$this->file} has no section $heading");

        return new self($this->file, $section[0]);
    }

    /**
     * The code blocks.
     *
     * @return list<array{language: string, code: string, prints: string|null, line: int}> prints: the text of a
     *     comment `<!-- prints: … -->` right behind the block
     */
    public function blocks(?string $language = null): array
    {
        $pattern = '/^```([^\n]*)\n(.*?)^```$(?:\n<!-- prints:[ \n]?(.*?)\n?[ ]?-->)?/ms';
        preg_match_all($pattern, $this->text, $found, PREG_SET_ORDER | PREG_OFFSET_CAPTURE | PREG_UNMATCHED_AS_NULL);
        $blocks = [];
        foreach ($found as $match) {
            $blocks[] = [
                'language' => $match[1][0],
                'code' => $match[2][0],
                'prints' => $match[3][0] ?? null,
                'line' => substr_count($this->text, "\n", 0, $match[0][1]) + 1,
            ];
        }

        return $language === null ? $blocks : array_values(
            array_filter($blocks, static fn (array $block) => $block['language'] === $language),
        );
    }

    /** @return list<string> the code of the blocks of that language */
    public function examples(string $language = 'php'): array
    {
        $examples = array_column($this->blocks($language), 'code');
        Assert::assertNotSame([], $examples, "{$this->file} has no example in $language");

        return $examples;
    }

    /** @return list<string> where its links lead, those of pictures too */
    public function links(): array
    {
        preg_match_all('/\]\(([^)\s]+)\)/', $this->withoutCode(), $found);

        return $found[1];
    }

    /** @return list<string> what can stand behind a # in a link to it */
    public function anchors(): array
    {
        preg_match_all('/^#+ (.*)$/m', preg_replace('/^```.*?^```$/ms', '', $this->text), $found);
        $anchors = [];
        foreach ($found[1] as $heading) {
            $text = preg_replace('/\[([^]]*)\]\([^)]*\)/', '$1', strtolower($heading));
            $anchor = $base = str_replace(' ', '-', preg_replace('/[^\w\- ]/u', '', $text));
            for ($again = 1; in_array($anchor, $anchors, true); $again++) {
                $anchor = "$base-$again";
            }
            $anchors[] = $anchor;
        }

        return $anchors;
    }

    /**
     * The rows of the tables, without their heads.
     *
     * @return list<list<string>>
     */
    public function rows(): array
    {
        $rows = [];
        preg_match_all('/^\|[-| ]+\|\n((?:\|.*\n?)+)/m', $this->text, $tables);
        foreach (explode("\n", trim(implode("\n", $tables[1]))) as $line) {
            if ($line !== '') {
                $cells = preg_split('/(?<!\\\\)\|/', substr(trim($line), 1, -1));
                $rows[] = array_map(static fn (string $cell) => str_replace('\\|', '|', trim($cell)), $cells);
            }
        }

        return $rows;
    }

    /** @return list<string> what stands between backticks outside of code blocks */
    public function inlineCode(): array
    {
        preg_match_all('/`([^`]+)`/', preg_replace('/^```.*?^```$/ms', '', $this->text), $found);

        return array_map(static fn (string $code) => str_replace(['\\|', "\n"], ['|', ' '], $code), $found[1]);
    }

    private function withoutCode(): string
    {
        return preg_replace(['/^```.*?^```$/ms', '/`[^`]+`/'], '', $this->text);
    }
}
