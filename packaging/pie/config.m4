dnl For phpize, and so for PIE's installation from source: cargo does the work, in the repository two levels up.
dnl This has a directory of its own, since phpize and configure write a Makefile and more beside it.

PHP_ARG_ENABLE([redis_lease], [whether to build redis_lease],
  [AS_HELP_STRING([--disable-redis_lease], [Do not build redis_lease])], [yes])

if test "$PHP_REDIS_LEASE" != "no"; then
  REDIS_LEASE_ROOT=`cd "$abs_srcdir/../.." && pwd`
  rust_needed=`sed -n 's/^rust-version = "\(.*\)"/\1/p' "$REDIS_LEASE_ROOT/Cargo.toml"`

  AC_PATH_PROG([CARGO], [cargo], [no], [$PATH:$HOME/.cargo/bin])
  if test "$CARGO" = "no"; then
    AC_MSG_ERROR([cargo is needed, from Rust $rust_needed or newer])
  fi

  AC_MSG_CHECKING([for Rust $rust_needed or newer])
  rust_found=`cd "$REDIS_LEASE_ROOT" && "$CARGO" --version | cut -d ' ' -f 2`
  if test "`printf '%s\n' "$rust_needed" "$rust_found" | sort -V | head -n 1`" != "$rust_needed"; then
    AC_MSG_ERROR([this is ${rust_found:-none}: 'rustup update stable' brings it])
  fi
  AC_MSG_RESULT([$rust_found])

  dnl bindgen reads PHP's headers with libclang, and says only after a minute that it is not there.
  AC_MSG_CHECKING([for libclang])
  libclang_found=$LIBCLANG_PATH
  libclang_dirs=`"${LLVM_CONFIG_PATH:-llvm-config}" --libdir 2>/dev/null`
  libclang_dirs="$libclang_dirs `echo "$LD_LIBRARY_PATH" | tr : ' '`"
  for lib in /usr/local/lib* /usr/local/llvm*/lib* /usr/lib*; do
    libclang_dirs="$libclang_dirs $lib $lib/* $lib/*/*"
  done
  for file in `for dir in $libclang_dirs; do echo "$dir"/libclang.so* "$dir"/libclang-*.so*; done`; do
    case $file in
      *-cpp.so*) ;;
      *) if test -z "$libclang_found" && test -e "$file"; then libclang_found=$file; fi ;;
    esac
  done
  if test -z "$libclang_found"; then
    AC_MSG_ERROR([libclang is needed (Debian: clang and libclang-dev), or LIBCLANG_PATH to say where it is])
  fi
  AC_MSG_RESULT([$libclang_found])

  dnl cargo's build scripts ask these two which PHP it is for. configure knows php-config by the name it was given.
  REDIS_LEASE_PHP=$PHP_EXECUTABLE
  REDIS_LEASE_PHP_CONFIG=`command -v "$PHP_CONFIG"`

  PHP_SUBST([CARGO])
  PHP_SUBST([REDIS_LEASE_ROOT])
  PHP_SUBST([REDIS_LEASE_PHP])
  PHP_SUBST([REDIS_LEASE_PHP_CONFIG])
  PHP_ADD_BUILD_DIR([$abs_builddir/modules])
  PHP_ADD_MAKEFILE_FRAGMENT([$abs_srcdir/Makefile.frag], [$abs_srcdir], [$abs_builddir])
  PHP_MODULES="$PHP_MODULES \$(phplibdir)/redis_lease.so"
fi
