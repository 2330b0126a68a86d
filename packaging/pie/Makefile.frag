# cargo knows best what has changed, so it is always asked.
.PHONY: ask-cargo
$(phplibdir)/redis_lease.so: ask-cargo
	cd "$(REDIS_LEASE_ROOT)" && \
		PHP="$(REDIS_LEASE_PHP)" PHP_CONFIG="$(REDIS_LEASE_PHP_CONFIG)" "$(CARGO)" build --release --locked && \
		rm -f "$@" && cp "$${CARGO_TARGET_DIR:-target}/release/libredis_lease.so" "$@"
