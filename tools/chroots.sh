# Sourced by tools/matrix and tools/test-install, after common.sh: chroots of Debian suites, kept in MATRIX_DIR, by
# default below the user's cache directory, and used again by the next run. Debian's packages come from the mirror
# that this machine's apt uses, or from MIRROR. Every command in a chroot has mounts, processes and a loopback network
# of its own, in namespaces: however the script ends, the kernel takes them away with it.
# shellcheck shell=bash

dir=$(realpath -m "${MATRIX_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/redis_lease-matrix}")
mark='Chroots and builds of redis_lease, made by tools/matrix. It may be removed with: tools/matrix --clean'

check_host() {
    local tool
    for tool in unshare setpriv mount chroot flock ip; do
        command -v "$tool" >/dev/null || die "'$tool' is missing (Debian: util-linux, mount, coreutils, iproute2)"
    done
    unshare --mount --pid --ipc --net --fork true 2>/dev/null || die 'this machine allows no namespaces'
    if ! command -v debootstrap >/dev/null; then
        command -v apt-get >/dev/null || die 'debootstrap is needed'
        printf 'Missing, will be installed through apt: debootstrap\n'
        {
            apt-get -q update && apt-get -q -y --no-install-recommends install debootstrap
        } >"$dir/log/debootstrap" 2>&1 || die "debootstrap could not be installed: see $dir/log/debootstrap"
    fi
    export sysroot cargo_home # for another process of this script
    sysroot=$(rustc --print sysroot) && [[ -x $sysroot/bin/cargo && $sysroot != /usr ]] ||
        die 'Rust is needed as rustup installs it: the chroots use its toolchain'
    cargo_home=${CARGO_HOME:-$HOME/.cargo}
    # So that no chroot needs the network to build.
    cargo fetch --quiet --locked --target "$(rustc -vV | sed -n 's/^host: //p')"
}

# The directory is only ever used, and removed, with our mark in it.
take_directory() {
    if [[ ! -e $dir ]] || { [[ -d $dir ]] && [[ -z $(ls -A "$dir") ]]; }; then
        mkdir -p -m 755 "$dir"
        # The first line is what backup programs know.
        printf 'Signature: 8a477f597d28d172789f06886806bc55\n# %s\n' "$mark" >"$dir/CACHEDIR.TAG"
    fi
    is_ours || die "$dir is not a directory of tools/matrix: choose another MATRIX_DIR"
    mkdir -p "$dir/log"
    exec 9>"$dir/lock"
    flock -n 9 || die "another run uses $dir"
}

is_ours() { grep -qsxF "# $mark" "$dir/CACHEDIR.TAG"; }

# Removes a path in our directory, unless something is still mounted there and cannot be taken off.
remove() {
    local point points=()
    while read -r _ _ _ _ point _; do
        printf -v point %b "$point" # blanks come as \040
        [[ $point != "$1" && $point != "$1"/* ]] || points=("$point" "${points[@]}")
    done </proc/self/mountinfo
    for point in "${points[@]}"; do
        umount "$point" || { printf '%s is mounted: nothing was removed\n' "$point" >&2 && return 1; }
    done
    rm -rf --one-file-system -- "$1"
}

find_mirror() {
    mirror=${MIRROR:-}
    [[ -z $mirror ]] || return 0
    # shellcheck disable=SC2016 # apt's own variables
    mirror=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        sed -n 's/^Debian Debian main //p' | head -n 1)
    [[ -n $mirror ]] || die "apt knows no Debian mirror here: run 'apt-get update', or give one as MIRROR"
}

# Runs a command with mounts and processes of its own, which end with it, and it with this script; where alone is
# set, with a loopback network and shared memory of its own too. In the background, where a signal reaches this
# script at once, and as a job, or it would ignore SIGINT.
contain() {
    setpriv --pdeathsig KILL unshare --mount --propagation private --pid --fork --kill-child=KILL --mount-proc \
        ${alone:+--net --ipc} "$@" </dev/null &
    wait $!
}

# shellcheck disable=SC2016 # expanded in the namespace
in_chroot='
    set -e
    root=$1 builds=$2 repository=$3 sysroot=$4 cargo_home=$5
    shift 5
    exec 9>&-
    [[ -z ${alone:-} ]] || ip link set lo up
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    for name in builds repository sysroot cargo_home; do
        mkdir -p "$root/opt/$name"
        mount --bind "${!name}" "$root/opt/$name"
    done
    mount -o remount,bind,ro "$root/opt/repository"
    mount -o remount,bind,ro "$root/opt/sysroot"
    exec chroot "$root" env -i PATH=/opt/sysroot/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        HOME=/tmp LANG=C.UTF-8 CARGO_HOME=/opt/cargo_home CARGO_NET_OFFLINE=true CARGO_TARGET_DIR=/opt/builds \
        "$@"
'

# Runs a command in a chroot, with the repository in /opt/repository, read-only. The builds of a suite are kept.
enter() { # suite, chroot, command...
    local suite=$1 root=$2
    shift 2
    mkdir -p "$dir/builds/$suite"
    contain bash -c "$in_chroot" bash "$root" "$dir/builds/$suite" "$PWD" "$sysroot" "$cargo_home" "$@"
}

# Makes a chroot of the suite as debootstrap leaves it; what it made is kept beside it for the next one.
make_chroot() { # suite, directory
    local base=$dir/$1.base
    if [[ ! -d $base ]]; then
        remove "$base.new" && contain debootstrap --variant=minbase "$1" "$base.new" "$mirror" || return
        # No package starts its server.
        printf '#!/bin/sh\nexit 101\n' >"$base.new/usr/sbin/policy-rc.d"
        chmod 755 "$base.new/usr/sbin/policy-rc.d"
        mv "$base.new" "$base"
    fi
    remove "$2.new" && remove "$2" && cp -a "$base" "$2.new" && mv "$2.new" "$2" && connect "$2"
}

# How this machine reaches the mirror, and how its apt judges the mirror's age.
connect() { # chroot
    cp -L --remove-destination /etc/resolv.conf /etc/hosts "$1/etc/"
    apt-config dump | grep -E '^Acquire::(https?|Check)' >"$1/etc/apt/apt.conf.d/90matrix" || true
}

# Runs a step with its output in a file; prints the file's end when it fails.
logged() { # file, command...
    local log=$1 status=0
    shift
    "$@" >"$log" 2>&1 || status=$?
    if ((status != 0)); then
        printf 'FAILED (%d). The last lines of %s:\n' "$status" "$log"
        tail -n 80 "$log" | sed 's/^/  | /'
    fi
    return "$status"
}

# Takes the directory and finds what is needed. Root only, since it mounts.
begin() {
    ((EUID == 0)) || die 'root is needed: chroots are made and mounted'
    [[ $suites =~ ^[a-z\ ]+$ ]] || die "SUITES names suites of Debian, not '$suites'"
    take_directory
    check_host
    find_mirror
    set -m
}

stop_jobs() {
    local job
    for job in $(jobs -p); do kill -KILL -- "-$job" || true; done 2>/dev/null
    wait
}
trap stop_jobs EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

