# The commands of this repository. Each line's work is in tools/.
# Given as arguments or in the environment, PHP=php8.4 chooses a PHP, PHP_CONFIG its php-config,
# CARGO_TARGET_DIR where cargo builds, and DESTDIR where an installation is staged.

.DEFAULT_GOAL := help
.PHONY: help build demo test torture model test-zts test-matrix clean-matrix package test-install bench lint install uninstall clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

build: ## the extension, target/release/libredis_lease.so
	@tools/setup build
	@tools/build

demo: ## one item, 50 buyers: without a lock, then with it; then a late writer; then a lease in a job
	@tools/setup demo
	@tools/build
	@tools/demo

test: ## cargo tests, loading cost, valgrind, PHPUnit; all against servers of their own
	@tools/setup test
	@tools/build
	@tools/test

torture: ## workers, server and network that fail at random, for SECONDS=60, with SEED, QUORUM=3 or 5, SENTINEL=1 or CLUSTER=1 if given
	@tools/setup test
	@tools/build
	@tools/torture

model: ## the quorum's protocol, every state of it within large bounds (minutes)
	@tools/setup build
	@tools/model

test-zts: ## PHPUnit on a PHP with thread safety, built from Debian's source once (five minutes)
	@tools/setup test
	@tools/test-zts

test-matrix: ## PHPUnit on three Debian suites in chroots, as root; SUITES="trixie sid" chooses
	@tools/matrix

clean-matrix: ## removes those chroots
	@tools/matrix --clean

package: ## archives for PIE and a .deb, in target/package; CHECK=1 builds them twice and compares
	@tools/setup package
	@tools/package $(if $(CHECK),--check)

test-install: ## every way to install it, on fresh Debians in chroots, as root
	@tools/test-install

bench: ## the comparison with other locks, about six minutes; QUICK=1 for a look of one
	@tools/setup bench
	@tools/build
	@tools/bench

lint: ## rustfmt, clippy, php -l and the rules of this repository
	@tools/setup build
	@tools/lint

install: ## the extension and its ini file, for the PHP found (DESTDIR is honoured)
	@tools/setup build
	@tools/build
	@tools/install

uninstall: ## takes both away again
	@tools/uninstall

clean: ## removes what was built
	@cargo clean
