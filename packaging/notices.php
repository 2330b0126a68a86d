<?php

/*
 * The licences of the crates that are linked into the extension, as those ask for: each text once, under the names of
 * the crates that bring it.
 *
 * Usage: php packaging/notices.php > NOTICES
 */

declare(strict_types=1);

chdir(dirname(__DIR__));

$output = static function (string $command): string {
    exec($command, $lines, $status);
    $status === 0 || exit(1);

    return implode("\n", $lines);
};

preg_match('/^host: (.+)$/m', $output('rustc -vV'), $found);
$host = $found[1];
// What is only needed to build it, or by tests, is not in it.
$linked = explode("\n", $output("cargo tree --locked --edges normal,no-proc-macro --target $host --prefix none --format '{p}'"));
$linked = array_unique(array_map(static fn (string $line) => implode(' ', array_slice(explode(' ', $line), 0, 2)), $linked));
sort($linked);

$packages = [];
foreach (json_decode($output("cargo metadata --locked --format-version 1 --filter-platform $host"), true)['packages'] as $package) {
    $packages["$package[name] v$package[version]"] = $package;
}

$texts = [];
foreach ($linked as $name) {
    $package = $packages[$name];
    if ($package['source'] === null) {
        continue;
    }
    $files = glob(dirname($package['manifest_path']) . '/{LICEN[CS]E,COPYING,COPYRIGHT,NOTICE,UNLICENSE}*', GLOB_BRACE);
    sort($files);
    $title = "$name, " . ($package['license'] ?? basename((string) $package['license_file']));
    foreach (array_filter($files, is_file(...)) ?: [null] as $file) {
        $text = $file === null ? 'The crate has no file with its licence. Its authors: ' . implode(', ', $package['authors'])
            : str_replace("\r\n", "\n", trim((string) file_get_contents($file)));
        $texts[$text][$title] = $title;
    }
}

$line = str_repeat('=', 100);
echo "Licences of the crates that are linked into redis_lease.so, beside its own and those of Rust's standard library.\n";
foreach ($texts as $text => $titles) {
    echo "\n$line\n", implode("\n", $titles), "\n$line\n\n$text\n";
}
