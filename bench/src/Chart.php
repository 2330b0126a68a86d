<?php

declare(strict_types=1);

namespace RedisLease\Bench;

/** Panels of horizontal bars, as SVG. */
final class Chart
{
    private const WIDTH = 900;
    private const LABELS = 270;
    private const BARS = 540;
    private const STEP = 20;

    private const STYLE = 'text { font: 12px sans-serif; fill: #333 } '
        . '.title { font-weight: bold; font-size: 14px } .small { font-size: 10px; fill: #777 } '
        . '.ours { fill: #c8102e } .peer { fill: #8fa3b8 } .floor { fill: #d9c27e }';

    private string $body = '';
    private int $y = 24;

    /**
     * @param array<string, float> $values
     * @param string $format of the number behind a bar
     */
    public function panel(string $title, array $values, string $format): void
    {
        $this->text(10, $this->y, $title, 'title');
        $this->y += 10;
        $longest = max($values);
        foreach ($values as $label => $value) {
            $class = match (true) {
                str_starts_with($label, 'redis_lease'), str_ends_with($label, 'on leases') => 'ours',
                str_starts_with($label, 'floor') => 'floor',
                default => 'peer',
            };
            $length = max(1.0, self::BARS * $value / $longest);
            $this->text(self::LABELS - 8, $this->y + 13, $label, '', 'end');
            $this->body .= sprintf(
                '<rect x="%d" y="%d" width="%.1f" height="%d" class="%s"/>' . "\n",
                self::LABELS,
                $this->y + 2,
                $length,
                self::STEP - 5,
                $class,
            );
            $this->text(self::LABELS + (int) ceil($length) + 6, $this->y + 13, sprintf($format, $value));
            $this->y += self::STEP;
        }
        $this->y += 28;
    }

    /** @param array<string, string> $description below all panels */
    public function svg(array $description): string
    {
        foreach ($description as $what => $value) {
            $this->text(10, $this->y, "$what: $value", 'small');
            $this->y += 14;
        }

        return sprintf(
            '<svg xmlns="http://www.w3.org/2000/svg" width="%1$d" height="%2$d" viewBox="0 0 %1$d %2$d">' . "\n"
            . "<style>%3\$s</style>\n" . '<rect width="100%%" height="100%%" fill="#fff"/>' . "\n%4\$s</svg>\n",
            self::WIDTH,
            $this->y,
            self::STYLE,
            $this->body,
        );
    }

    private function text(int $x, int $y, string $text, string $class = '', string $anchor = 'start'): void
    {
        $this->body .= sprintf(
            '<text x="%d" y="%d" class="%s" text-anchor="%s">%s</text>' . "\n",
            $x,
            $y,
            $class,
            $anchor,
            htmlspecialchars($text, ENT_XML1),
        );
    }
}
