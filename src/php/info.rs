//! The section in phpinfo() and `php --ri`.

use super::{ini, metrics};
use crate::{net::topology, renewal::status};
use ext_php_rs::{
    ffi::{
        php_info_print_table_end, php_info_print_table_header, php_info_print_table_row, php_info_print_table_start,
    },
    zend::ModuleEntry,
};
use std::{ffi::CString, panic};

/// Prints the section.
pub unsafe extern "C" fn print(_: *mut ModuleEntry) {
    let _ = panic::catch_unwind(|| {
        table(&[
            ("redis_lease support", "enabled".into()),
            ("Version", env!("CARGO_PKG_VERSION").into()),
            ("Default server", server()),
            ("Automatic renewal", renewal()),
        ]);
        table(&metrics::totals());
        // SAFETY: prints to PHP's output, as an info function may.
        unsafe { php_info_print_table_start() };
        header("Directive", "Value");
        for name in ini::NAMES {
            let value = match name {
                name if name == c"redis_lease.dsn" => server(),
                name => String::from_utf8_lossy(&ini::text(name)).into_owned(),
            };
            row(&name.to_string_lossy(), &value);
        }
        // SAFETY: as above.
        unsafe { php_info_print_table_end() };
    });
}

/// The server's address without user and password.
fn server() -> String {
    topology::parse(&ini::dsn())
        .map_or_else(|error| format!("redis_lease.dsn {error}"), |topology| topology.to_string())
}

/// Whether the thread runs in this process, and for how many leases.
fn renewal() -> String {
    match status() {
        None => "thread not started".into(),
        Some(1) => "thread runs, renews 1 lease".into(),
        Some(count) => format!("thread runs, renews {count} leases"),
    }
}

fn table(rows: &[(&str, String)]) {
    // SAFETY: as above.
    unsafe { php_info_print_table_start() };
    for (name, value) in rows {
        row(name, value);
    }
    // SAFETY: as above.
    unsafe { php_info_print_table_end() };
}

fn row(name: &str, value: &str) {
    let (name, value) = (c_string(name), c_string(value));
    // SAFETY: as many strings as announced, alive through the call.
    unsafe { php_info_print_table_row(2, name.as_ptr(), value.as_ptr()) };
}

fn header(name: &str, value: &str) {
    let (name, value) = (c_string(name), c_string(value));
    // SAFETY: as many strings as announced, alive through the call.
    unsafe { php_info_print_table_header(2, name.as_ptr(), value.as_ptr()) };
}

fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "\\0")).unwrap_or_default()
}
