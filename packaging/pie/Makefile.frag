# Built again when a source or the choice of PHP has changed, and by `make`: `make install` may be another user's, who
# has no cargo.
$(phplibdir)/redis_lease.so: $(shell find $(REDIS_LEASE_ROOT)/src $(REDIS_LEASE_ROOT)/build.rs \
		$(REDIS_LEASE_ROOT)/Cargo.toml $(REDIS_LEASE_ROOT)/Cargo.lock -type f) Makefile
	cd "$(REDIS_LEASE_ROOT)" && \
		PHP="$(REDIS_LEASE_PHP)" PHP_CONFIG="$(REDIS_LEASE_PHP_CONFIG)" \
		"$(CARGO)" build --release --locked --target-dir "$${CARGO_TARGET_DIR:-target}" && \
		rm -f "$@" && cp "$${CARGO_TARGET_DIR:-target}/release/libredis_lease.so" "$@"
