# Sourced by the other scripts: where the repository, the chosen PHP and the built extension are.
# shellcheck shell=bash disable=SC2034 # the sourcing scripts use what is set here

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=${CARGO_TARGET_DIR:-target}
[[ $target == /* ]] || target=$PWD/$target
export REDIS_LEASE_SO=${REDIS_LEASE_SO:-$target/release/libredis_lease.so}

php_name=${PHP:-php}

die() {
    printf '%s: %s\n' "${0##*/}" "$1" >&2
    exit 1
}

our_version() { sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1; }

# Sets php and php_config to absolute paths. Debian names them alike: php8.2 and php-config8.2.
find_php() {
    php=$(command -v "$php_name") || die "no PHP named '$php_name' here"
    local name=${php##*/}
    php_config=${PHP_CONFIG:-${php%/*}/php-config${name#php}}
}

# Sets extension_flag, the -d that loads the built extension. A copy that is installed already would be
# loaded first and tested in its place, so PHP then gets a scan directory ($1, empty) without it.
use_built_extension() {
    [[ -f $REDIS_LEASE_SO ]] || die "$REDIS_LEASE_SO is not there: run 'make build' first"
    extension_flag=(-d "extension=$REDIS_LEASE_SO")

    local installed='exit(extension_loaded("redis_lease") ? 0 : 1);'
    "$php" -r "$installed" || return 0

    local file
    while IFS= read -r file; do
        grep -q '^ *extension *=.*redis_lease' "$file" || ln -s "$file" "$1/"
    done < <("$php" -r 'echo str_replace(",\n", "\n", (string) php_ini_scanned_files());')
    export PHP_INI_SCAN_DIR=$1
    ! "$php" -r "$installed" || die "php.ini itself loads a redis_lease: take that line out first"
}

# The filter for the tests that failed, where they are few. A violation found by torture is none that a busy machine makes,
# and would not be met again.
few_failed() { # JUnit file
    # shellcheck disable=SC2016 # PHP's own variables
    "$php" -r '
        $names = [];
        foreach (simplexml_load_file($argv[1])->xpath("//testcase[failure or error]") as $case) {
            $names[] = preg_quote("$case[class]::" . strtok($case["name"], " "), "~");
        }
        if ($names === [] || count($names) > 8 || preg_grep("/TortureTest/", $names) !== []) {
            exit(1);
        }
        echo "~^(", implode("|", array_unique($names)), ")( with data set .*)?$~s";
    ' "$1"
}

# Starts a server for this script: a unix socket in a directory of its own, $dir, no TCP port, nothing on disk.
# Whatever happens, the server is stopped and the directory removed.
private_redis() {
    server=
    dir=$(mktemp -d /tmp/redis_lease.XXXXXX)
    trap end_private_redis EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM

    "${REDIS_SERVER_BIN:-redis-server}" --port 0 --unixsocket "$dir/redis.sock" --unixsocketperm 700 --save '' \
        --appendonly no --dir "$dir" --logfile "$dir/redis.log" </dev/null &
    server=$!
    local i
    for ((i = 0; ; i++)); do
        redis-cli -s "$dir/redis.sock" ping >/dev/null 2>&1 && break
        if ((i == 250)) || ! kill -0 "$server" 2>/dev/null; then
            cat "$dir/redis.log" >&2
            die 'Redis did not start'
        fi
        sleep 0.02
    done
}

end_private_redis() {
    [[ -z $server ]] || { kill "$server" && wait "$server"; } 2>/dev/null || true
    rm -rf "$dir"
}

# Sets where make install puts things. ini_file is empty where this PHP scans no directory; debian_version is
# set where Debian's phpenmod switches modules on, for every server API.
find_install_places() {
    DESTDIR=${DESTDIR:-}
    extension_dir=$("$php" -n -r 'echo PHP_EXTENSION_DIR;')
    installed_so=$extension_dir/redis_lease.so

    debian_version=$("$php" -r 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION;')
    local available=/etc/php/$debian_version/mods-available
    # Another PHP of the same version has places of its own.
    if [[ $extension_dir == /usr/lib/php/* && -d $available ]] && command -v phpenmod >/dev/null; then
        ini_file=$available/redis_lease.ini
        return
    fi
    debian_version=
    ini_file=$("$php" -r 'echo PHP_CONFIG_FILE_SCAN_DIR;')
    ini_file=${ini_file:+${ini_file%%:*}/30-redis_lease.ini}
}

# What a Debian package has installed is dpkg's to change.
not_of_a_package() {
    local owner
    [[ -z $DESTDIR ]] && owner=$(dpkg-query --search "$installed_so" 2>/dev/null) || return 0
    die "$installed_so is of the package ${owner%%:*}: 'apt purge ${owner%%:*}' takes it away"
}

# The files of the repository, each ended by a zero byte: git's, or where there is no git all but what was built.
repository_files() {
    if [[ -e .git ]]; then
        git ls-files -z --cached --others --exclude-standard
    else
        find . -path ./target -prune -o -type f -print0
    fi
}
