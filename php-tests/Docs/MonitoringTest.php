<?php

declare(strict_types=1);

namespace RedisLease\Tests\Docs;

use RedisLease\Tests\Bridge\Database\Needs;
use RedisLease\Tests\Support\Janitor;
use RedisLease\Tests\Support\Markdown;
use RedisLease\Tests\Support\PhpProcess;
use RedisLease\Tests\Support\RedisServer;
use RedisLease\Tests\Support\ServerTestCase;
use Symfony\Component\Yaml\Yaml;

/** The alert rules, the dashboard and the page on metrics speak of what the extension counts, and the alerts ring. */
final class MonitoringTest extends ServerTestCase
{
    private const RULES = 'monitoring/redis-lease.rules.yml';
    private const TESTS = 'monitoring/redis-lease.rules.test.yml';
    private const DASHBOARD = 'monitoring/redis-lease.dashboard.json';

    private static string $exposition;

    public static function setUpBeforeClass(): void
    {
        parent::setUpBeforeClass();
        Needs::library('php-symfony-yaml', 'Symfony/Component/Yaml/autoload.php');
        self::$exposition = self::exposition();
    }

    public function testTheAlertsRingOnWhatIsPlantedAndAreSilentOtherwise(): void
    {
        self::promtool('check', 'rules', Markdown::root() . '/' . self::RULES);
        self::promtool('test', 'rules', Markdown::root() . '/' . self::TESTS);

        $tests = Yaml::parseFile(Markdown::root() . '/' . self::TESTS)['tests'];
        $looks = array_merge(...array_column($tests, 'alert_rule_test'));
        $healthy = array_column($tests, 'alert_rule_test', 'name')['healthy'];
        foreach (self::alerts() as $alert) {
            $of = static fn (array $looks) => array_filter($looks, static fn (array $look) => $look['alertname'] === $alert);
            self::assertNotSame([], array_filter(array_column($of($looks), 'exp_alerts')), "$alert rings");
            self::assertNotSame([], $of($healthy), "$alert is silent");
            self::assertSame([], array_column($of($healthy), 'exp_alerts'), "$alert is silent");
        }
    }

    /** A rule that asks for more, or for less, fails its tests. */
    public function testTheTestsOfTheAlertsNoticeAChange(): void
    {
        $changes = [
            '> 0.1' => '> 0.4', '2 * redis' => '0 * redis', '[10m])) > 60' => '[10m])) > 6', '> 1.5 * sum' => '> 0 * sum',
            'expired|unreachable' => 'unreachable', '|unreachable' => '', '|max_hold' => '', 'deleted|taken' => 'taken', '|taken' => '',
            'resolution="reported"' => 'resolution=~".+"', '> 0.05' => '> 0.2', '[5m])) > 5' => '[5m])) > 0', '|refused' => '',
            'resolve|' => '', '|connect' => '', '|tls' => '', '|timeout' => '', '|closed' => '', '|login' => '', '|protocol' => '',
            'login|' => 'no_primary|', 'silent|absent' => 'silent', 'unless sum' => 'or sum',
            'for: 2m' => 'for: 0m', 'for: 4m' => 'for: 1m', 'for: 5m' => 'for: 0m', 'for: 10m' => 'for: 0m',
            'up == 0' => 'up >= 0', 'and on (job) count' => 'or on (job) count', 'count_over_time(redis_lease_info[7d])' => 'redis_lease_info',
        ];
        $rules = (string) file_get_contents(Markdown::root() . '/' . self::RULES);
        foreach (array_chunk($changes, 4, true) as $some) {
            $processes = [];
            foreach ($some as $from => $to) {
                self::assertStringContainsString($from, $rules);
                $directory = Janitor::directory('.rules');
                copy(Markdown::root() . '/' . self::TESTS, "$directory/test.yml");
                file_put_contents("$directory/redis-lease.rules.yml", str_replace($from, $to, $rules));
                $processes["$from to $to"] = PhpProcess::startProgram(['promtool', 'test', 'rules', "$directory/test.yml"]);
            }
            foreach ($processes as $change => $process) {
                self::assertSame(1, $process->wait(120.0), "$change: {$process->everything()}");
                self::assertStringContainsString('FAILED', $process->everything(), $change);
            }
        }
    }

    public function testPrometheusReadsWhatTheExtensionTells(): void
    {
        $file = Janitor::path('.prom');
        file_put_contents($file, self::$exposition);
        $process = PhpProcess::startProgram(['sh', '-c', 'promtool check metrics <' . escapeshellarg($file)]);
        self::assertSame([0, ''], [$process->wait(), $process->errors() . $process->output()]);
    }

    public function testTheConfigurationInTheDocumentationIsOne(): void
    {
        $directory = Janitor::directory('.prometheus');
        copy(Markdown::root() . '/' . self::RULES, "$directory/redis-lease.rules.yml");
        file_put_contents("$directory/prometheus.yml", Markdown::page('docs/operations.md')->examples('yaml')[0]);
        self::promtool('check', 'config', "$directory/prometheus.yml");
    }

    public function testEveryAlertIsExplained(): void
    {
        preg_match_all('/^### (.*)$/m', Markdown::page('docs/operations.md')->section('Alerts')->text, $explained);
        self::assertSame(self::alerts(), $explained[1]);
    }

    /** Where a page says how many there are, the next alert makes it untrue. */
    public function testNoPageCountsTheAlerts(): void
    {
        foreach (Markdown::pages() as $page) {
            $number = '/\b(\d+|two|three|four|five|six|seven|eight|nine|ten)\s+alerts\b/i';
            self::assertDoesNotMatchRegularExpression($number, $page->text, $page->file);
        }
    }

    public function testTheRulesAndTheDashboardUseMetricsAndLabelsThatExist(): void
    {
        $known = self::metrics();
        $shown = [];
        foreach ([...self::ruleExpressions(), ...self::dashboardExpressions()] as $expression) {
            preg_match_all('/\b(redis_lease_\w+?)(?:_bucket|_sum|_count)?\b(?:\{([^}]*)\})?/', $expression, $uses, PREG_SET_ORDER);
            self::assertTrue($uses !== [] || str_contains($expression, 'redis_lease:'), $expression);
            foreach ($uses as $use) {
                $name = $use[1];
                self::assertArrayHasKey($name, $known, $expression);
                $shown[$name] = true;
                preg_match_all('/(\w+)=~?"([^"]*)"/', $use[2] ?? '', $labels, PREG_SET_ORDER);
                foreach ($labels as [, $label, $values]) {
                    // Those two come from Prometheus.
                    foreach (in_array($label, ['job', 'instance'], true) ? [] : explode('|', $values) as $value) {
                        self::assertContains($value, $known[$name]['labels'][$label] ?? [], "$expression: $label=$value");
                    }
                }
            }
            preg_match_all('/\bby \(([^)]*)\)/', $expression, $groups);
            foreach (array_diff(explode(', ', implode(', ', $groups[1])), ['job', 'instance', 'le', '']) as $label) {
                $labels = array_merge(...array_map(static fn (array $use) => array_keys($known[$use[1]]['labels']), $uses));
                self::assertContains($label, $labels, $expression);
            }
        }
        self::assertSame([], array_keys(array_diff_key($known, $shown)), 'every metric is in the dashboard');
    }

    public function testPrometheusUnderstandsEveryExpressionOfTheDashboard(): void
    {
        $rules = [];
        foreach (self::dashboardExpressions() as $number => $expression) {
            $expression = str_replace(['$__rate_interval', '$job', '$instance'], ['5m', '.*', '.*'], $expression);
            self::assertStringNotContainsString('$', $expression);
            $rules[] = ['record' => "dashboard:$number", 'expr' => $expression];
        }
        $file = Janitor::path('.yml');
        file_put_contents($file, Yaml::dump(['groups' => [['name' => 'dashboard', 'rules' => $rules]]], 5));
        self::promtool('check', 'rules', $file);
    }

    public function testThePageListsEveryMetricWithItsLabels(): void
    {
        $listed = [];
        foreach (Markdown::page('docs/metrics.md')->rows() as [$name, $labels, $meaning]) {
            $name = trim($name, '`');
            preg_match_all('/`(\w+)`/', $labels, $names);
            $listed[$name] = [$labels === 'histogram' ? 'histogram' : null, $names[1]];
            foreach (self::metrics()[$name]['labels'] ?? [] as $label => $values) {
                foreach (in_array($label, ['node', 'prefix', 'version'], true) ? [] : $values as $value) {
                    self::assertStringContainsString("`$value`", $meaning, "$name: $label");
                }
            }
        }
        $told = array_map(static fn (array $metric) => [
            $metric['type'] === 'histogram' ? 'histogram' : null,
            array_keys($metric['labels']),
        ], self::metrics());
        ksort($listed);
        ksort($told);
        self::assertSame($told, $listed);
    }

    /** What a process tells that has used one server, several, and prefixes. */
    private static function exposition(): string
    {
        $nodes = array_map(static fn () => RedisServer::start(), range(1, 3));
        $dsn = implode(' ', array_map(static fn (RedisServer $node) => $node->dsn(), $nodes));
        $worker = self::worker(<<<'PHP'
            foreach ([$args['dsn'], $args['nodes']] as $dsn) {
                $lock = new DistributedLock('order:1', 30.0, connection: new Connection($dsn, 5.0, 5.0));
                $lock->acquire() && $lock->renew() && $lock->release();
            }
            say(RedisLease\Metrics::prometheus());
            PHP, ['nodes' => $dsn], ['redis_lease.metrics_prefixes' => '"order:"']);
        $exposition = $worker->hear();
        $worker->finish();
        array_map(static fn (RedisServer $node) => $node->stop(), $nodes);

        return $exposition;
    }

    /** @return array<string, array{type: string, labels: array<string, list<string>>}> by name; the labels with their values */
    private static function metrics(): array
    {
        preg_match_all('/^# TYPE (\w+) (\w+)$/m', self::$exposition, $types, PREG_SET_ORDER);
        $metrics = [];
        foreach ($types as [, $name, $type]) {
            $labels = [];
            preg_match_all("/^$name\{(.*)\} /m", self::$exposition, $samples);
            foreach ($samples[1] as $sample) {
                preg_match_all('/(\w+)="([^"]*)"/', $sample, $pairs, PREG_SET_ORDER);
                foreach ($pairs as [, $label, $value]) {
                    $labels[$label][] = $value;
                }
            }
            $metrics[$name] = ['type' => $type, 'labels' => array_map(static fn (array $all) => array_values(array_unique($all)), $labels)];
        }
        self::assertNotSame([], $metrics);

        return $metrics;
    }

    /** @return list<string> */
    private static function alerts(): array
    {
        return array_values(array_filter(array_map(static fn (array $rule) => $rule['alert'] ?? null, self::rules())));
    }

    /** @return list<array<string, mixed>> */
    private static function rules(): array
    {
        return Yaml::parseFile(Markdown::root() . '/' . self::RULES)['groups'][0]['rules'];
    }

    /** @return list<string> */
    private static function ruleExpressions(): array
    {
        return array_column(self::rules(), 'expr');
    }

    /** @return list<string> */
    private static function dashboardExpressions(): array
    {
        $dashboard = json_decode((string) file_get_contents(Markdown::root() . '/' . self::DASHBOARD), true, flags: JSON_THROW_ON_ERROR);
        $expressions = array_merge(...array_map(static fn (array $panel) => array_column($panel['targets'] ?? [], 'expr'), $dashboard['panels']));
        self::assertGreaterThan(20, count($expressions));

        return $expressions;
    }

    private static function promtool(string ...$arguments): void
    {
        $process = PhpProcess::startProgram(['promtool', ...$arguments]);
        self::assertSame(0, $process->wait(), $process->everything());
    }
}
