<?php

declare(strict_types=1);

/**
 * Lines of text; in colour only on a terminal.
 */
final class Terminal
{
    public const BOLD = '1';
    public const RED = '31';
    public const GREEN = '32';

    private readonly bool $colour;

    /** @param resource $out */
    public function __construct(private $out)
    {
        $this->colour = stream_isatty($out) && getenv('NO_COLOR') === false;
    }

    public function line(string $text): void
    {
        fwrite($this->out, "$text\n");
    }

    public function heading(string $title, string $explanation): void
    {
        $this->line('');
        $this->line($this->paint(self::BOLD, $title));
        $this->line("  $explanation");
    }

    public function paint(string $code, string $text): string
    {
        return $this->colour ? "\e[{$code}m$text\e[0m" : $text;
    }
}
