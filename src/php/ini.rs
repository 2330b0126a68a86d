//! The settings: their defaults, their check when they are set, and their reading.

use crate::{
    metrics,
    net::{Timeouts, topology},
};
use ext_php_rs::{
    error::php_error,
    ffi::{zend_ini_entry, zend_string},
    flags::{ErrorType, IniEntryPermission},
    zend::{IniEntryDef, IniEntryDefs},
};
use std::{
    ffi::{CStr, c_char, c_int, c_void},
    ops::RangeInclusive,
    time::Duration,
};

unsafe extern "C" {
    fn zend_ini_double(name: *const c_char, length: usize, original: c_int) -> f64;
    fn zend_ini_string(name: *const c_char, length: usize, original: c_int) -> *mut c_char;
}

/// The range of both time-outs, in seconds.
pub const TIMEOUT_RANGE: RangeInclusive<f64> = 0.001..=3600.0;
/// What to say of a time-out outside it.
pub const TIMEOUT_RULE: &str = "must be between 0.001 and 3600 seconds";
/// The range of a TTL, in seconds.
pub const TTL_RANGE: RangeInclusive<f64> = crate::lease::SHORTEST_TTL..=crate::lease::LONGEST_TTL;
/// What to say of a TTL outside it.
pub const TTL_RULE: &str = "must be between 0.01 and 31536000 seconds";

const DSN: &CStr = c"redis_lease.dsn";
const PREFIX: &CStr = c"redis_lease.prefix";
const TTL: &CStr = c"redis_lease.ttl";
const CONNECT_TIMEOUT: &CStr = c"redis_lease.connect_timeout";
const COMMAND_TIMEOUT: &CStr = c"redis_lease.command_timeout";
const MAX_HOLD: &CStr = c"redis_lease.max_hold";
const RELEASE_ON_SHUTDOWN: &CStr = c"redis_lease.release_on_shutdown";
const METRICS: &CStr = c"redis_lease.metrics";
const METRICS_PREFIXES: &CStr = c"redis_lease.metrics_prefixes";
const SPIN: &CStr = c"redis_lease.spin";

/// Every setting, in the order of the documentation.
pub const NAMES: [&CStr; 10] = [
    DSN,
    PREFIX,
    TTL,
    CONNECT_TIMEOUT,
    COMMAND_TIMEOUT,
    MAX_HOLD,
    RELEASE_ON_SHUTDOWN,
    METRICS,
    METRICS_PREFIXES,
    SPIN,
];

static DEFINITIONS: IniEntryDefs<11> = IniEntryDefs::new([
    entry(DSN, c"redis://127.0.0.1:6379", IniEntryPermission::All),
    entry(PREFIX, c"lock:", IniEntryPermission::All),
    entry(TTL, c"10", IniEntryPermission::All),
    entry(CONNECT_TIMEOUT, c"0.5", IniEntryPermission::All),
    entry(COMMAND_TIMEOUT, c"0.5", IniEntryPermission::All),
    entry(MAX_HOLD, c"3600", IniEntryPermission::All),
    entry(RELEASE_ON_SHUTDOWN, c"1", IniEntryPermission::All),
    entry(METRICS, c"1", IniEntryPermission::System),
    entry(METRICS_PREFIXES, c"", IniEntryPermission::System),
    entry(SPIN, c"100", IniEntryPermission::All),
    IniEntryDef::end(),
]);

const fn entry(name: &'static CStr, default: &'static CStr, permission: IniEntryPermission) -> IniEntryDef {
    let mut definition = IniEntryDef::new(name, default, permission);
    definition.on_modify = Some(check);
    definition
}

/// The engine's number for the reading of php.ini.
const STARTUP: c_int = 1;
/// The longest prefix, in bytes.
pub const LONGEST_PREFIX: usize = 1024;

/// Registers the settings.
pub fn register(module: c_int) {
    IniEntryDef::register(DEFINITIONS.as_slice(), module);
}

/// Refuses a value that could not be used, with a warning that says why: the old one stays.
unsafe extern "C" fn check(
    entry: *mut zend_ini_entry,
    value: *mut zend_string,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
    stage: c_int,
) -> c_int {
    // SAFETY: the engine passes a live entry and, unless the setting is unset, a live string.
    let (name, value) = unsafe { (entry.as_ref().and_then(|entry| entry.name.as_ref()), value.as_ref()) };
    let (Some(name), Some(value)) = (name, value) else { return 0 };
    match rule_broken(name.as_bytes(), value.as_bytes()) {
        None => {
            apply(name.as_bytes(), value.as_bytes());
            0
        }
        // Refusing it would leave the default in force, and this host would lock in another Redis than its
        // peers. Kept, it is refused whenever it is used.
        Some(_) if stage == STARTUP && name.as_bytes() == DSN.to_bytes() => 0,
        Some(rule) => {
            php_error(&ErrorType::Warning, &format!("{} {rule}", String::from_utf8_lossy(name.as_bytes())));
            -1
        }
    }
}

/// What is not read anew whenever it is needed.
fn apply(name: &[u8], value: &[u8]) {
    if name == METRICS.to_bytes() {
        metrics::turn(truth(value).unwrap_or(true));
    } else if name == METRICS_PREFIXES.to_bytes() {
        metrics::set_prefixes(prefixes(value).into_iter());
    }
}

/// The prefixes that a setting names.
fn prefixes(value: &[u8]) -> Vec<&str> {
    std::str::from_utf8(value).unwrap_or_default().split_whitespace().collect()
}

fn rule_broken(name: &[u8], value: &[u8]) -> Option<String> {
    let number = || std::str::from_utf8(value).ok().and_then(|text| text.trim().parse::<f64>().ok());
    let within = |range: RangeInclusive<f64>, rule: &str| {
        (!number().is_some_and(|number| range.contains(&number))).then(|| rule.to_owned())
    };
    match name {
        name if name == TTL.to_bytes() => within(TTL_RANGE, TTL_RULE),
        name if name == CONNECT_TIMEOUT.to_bytes() || name == COMMAND_TIMEOUT.to_bytes() => {
            within(TIMEOUT_RANGE, TIMEOUT_RULE)
        }
        name if name == MAX_HOLD.to_bytes() => within(TTL_RANGE, TTL_RULE),
        name if name == SPIN.to_bytes() => within(0.0..=10_000.0, "must be between 0 and 10000 microseconds"),
        name if name == RELEASE_ON_SHUTDOWN.to_bytes() || name == METRICS.to_bytes() => {
            truth(value).is_none().then(|| "must be a boolean: 1, on, yes, true, or 0, off, no, false".to_owned())
        }
        name if name == METRICS_PREFIXES.to_bytes() => {
            let fits = |prefix: &&str| prefix.len() <= metrics::LONGEST_PREFIX;
            let is_usable = std::str::from_utf8(value).is_ok_and(|text| {
                let all = || text.split_whitespace();
                all().all(|prefix| fits(&prefix)) && all().count() <= metrics::MOST_PREFIXES
            });
            (!is_usable).then(|| {
                let (most, longest) = (metrics::MOST_PREFIXES, metrics::LONGEST_PREFIX);
                format!(
                    "must be at most {most} prefixes of at most {longest} bytes, separated by white space, in UTF-8"
                )
            })
        }
        name if name == PREFIX.to_bytes() => (value.len() > LONGEST_PREFIX || value.contains(&0))
            .then(|| format!("must be at most {LONGEST_PREFIX} bytes, and none of them NUL")),
        name if name == DSN.to_bytes() => match std::str::from_utf8(value) {
            Ok(text) => topology::parse(text).err().map(|error| error.to_string()),
            Err(_) => Some("must be valid UTF-8".to_owned()),
        },
        _ => None,
    }
}

/// `redis_lease.dsn`
pub fn dsn() -> String {
    String::from_utf8_lossy(&text(DSN)).into_owned()
}

/// `redis_lease.prefix`
pub fn prefix() -> Vec<u8> {
    text(PREFIX)
}

/// `redis_lease.ttl`
pub fn ttl() -> Duration {
    span(TTL)
}

/// `redis_lease.connect_timeout`, `redis_lease.command_timeout` and `redis_lease.spin`
pub fn timeouts() -> Timeouts {
    Timeouts { connect: span(CONNECT_TIMEOUT), command: span(COMMAND_TIMEOUT), spin: span(SPIN) / 1_000_000 }
}

/// `redis_lease.max_hold`
pub fn max_hold() -> Duration {
    span(MAX_HOLD)
}

/// `redis_lease.release_on_shutdown`
pub fn release_on_shutdown() -> bool {
    truth(&text(RELEASE_ON_SHUTDOWN)).unwrap_or(true)
}

/// A boolean in the words of ini files.
fn truth(value: &[u8]) -> Option<bool> {
    match value.to_ascii_lowercase().as_slice() {
        b"1" | b"on" | b"yes" | b"true" => Some(true),
        b"" | b"0" | b"off" | b"no" | b"false" | b"none" => Some(false),
        _ => None,
    }
}

fn span(name: &CStr) -> Duration {
    // SAFETY: as above.
    let seconds = unsafe { zend_ini_double(name.as_ptr(), name.count_bytes(), 0) };
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// A setting's value as it was written.
pub fn text(name: &CStr) -> Vec<u8> {
    // SAFETY: as above; the engine's string ends with a NUL and lives until the setting changes.
    unsafe {
        let value = zend_ini_string(name.as_ptr(), name.count_bytes(), 0);
        if value.is_null() { Vec::new() } else { CStr::from_ptr(value).to_bytes().to_vec() }
    }
}
