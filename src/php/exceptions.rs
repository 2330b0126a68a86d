//! The exception classes, and the one place that decides which error becomes which of them.

use crate::{
    error::{Error, NoMajority},
    lease::Loss,
    net::dsn::DsnError,
};
use ext_php_rs::{
    builders::ClassBuilder,
    exception::PhpException,
    ffi::{zend_object, zend_string, zend_type},
    types::{ZendStr, Zval},
    zend::{ClassEntry, bailout, ce},
};
use std::{
    ffi::{CString, c_char, c_int},
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
    time::Duration,
};

unsafe extern "C" {
    static spl_ce_RuntimeException: *mut ClassEntry;
    fn zend_argument_value_error(argument: u32, format: *const c_char, ...);
    fn zend_throw_exception(class: *mut ClassEntry, message: *const c_char, code: i64) -> *mut zend_object;
    fn zend_update_property(
        class: *mut ClassEntry,
        object: *mut zend_object,
        name: *const c_char,
        length: usize,
        value: *mut Zval,
    );
    fn zend_declare_typed_property(
        class: *mut ClassEntry,
        name: *mut zend_string,
        default: *mut Zval,
        flags: c_int,
        comment: *mut zend_string,
        kind: zend_type,
    ) -> *mut std::ffi::c_void;
}

/// What leaves a method instead of a value.
pub enum Thrown {
    /// The engine has an exception already.
    Pending,
    /// The engine bailed out under the method: a fatal error, a time limit.
    Bailout,
    /// `ValueError` for the argument of this number, in PHP's own words.
    Argument(u32, String),
    /// `ValueError` for something that is no argument.
    Value(String),
    /// `Exception`: what the engine itself would refuse so.
    Exception(String),
    /// `Error`: the call makes no sense.
    Error(String),
    /// What befell a lease.
    Lease(Box<Failure>),
}

/// What befell a lease, with all that the caller may need.
pub struct Failure {
    /// What went wrong.
    pub trouble: Trouble,
    /// The resource, if one is concerned.
    pub resource: Option<Vec<u8>>,
    /// The token to recover with, if one may own the lock.
    pub token: Option<Vec<u8>>,
    /// The fence, if one is known.
    pub fence: Option<u64>,
}

/// What went wrong with a lease.
pub enum Trouble {
    /// An error of the layers below.
    Error(Error),
    /// `synchronized()` did not get the lock in time.
    NotAcquired(Duration),
    /// The lease ended under the critical section, which returned this.
    Lost(Zval, Option<Loss>),
    /// The lease was lost under the program, which wanted to be stopped then.
    Aborted(Loss),
}

static BASE: AtomicPtr<ClassEntry> = AtomicPtr::new(ptr::null_mut());
static CONNECTION: AtomicPtr<ClassEntry> = AtomicPtr::new(ptr::null_mut());
static OUTCOME_UNKNOWN: AtomicPtr<ClassEntry> = AtomicPtr::new(ptr::null_mut());
static SERVER: AtomicPtr<ClassEntry> = AtomicPtr::new(ptr::null_mut());
static LOCK_TIMEOUT: AtomicPtr<ClassEntry> = AtomicPtr::new(ptr::null_mut());
static LEASE_LOST: AtomicPtr<ClassEntry> = AtomicPtr::new(ptr::null_mut());

impl Thrown {
    /// Hands the exception to the engine. Nothing that needs dropping may be alive in the caller when
    /// this is a bailout: it does not return.
    pub fn throw(self) {
        match self {
            Self::Pending => {}
            // SAFETY: the caller's frames hold nothing that needs dropping, and `run_handler` is above them.
            Self::Bailout => unsafe { bailout() },
            Self::Argument(argument, what) => {
                let what = c_string(&what);
                // SAFETY: the format takes one string, which lives through the call.
                unsafe { zend_argument_value_error(argument, c"%s".as_ptr(), what.as_ptr()) };
            }
            Self::Value(message) => PhpException::new(message, 0, ce::value_error()).throw(),
            Self::Exception(message) => PhpException::new(message, 0, ce::exception()).throw(),
            Self::Error(message) => PhpException::new(message, 0, ce::error()).throw(),
            Self::Lease(failure) => failure.throw(),
        }
    }

    /// A DSN that cannot be used: a `ValueError` for the argument, or for the setting when none was given.
    pub fn dsn(error: &DsnError, argument: Option<u32>) -> Self {
        match argument {
            Some(argument) => Self::Argument(argument, error.to_string()),
            None => Self::Value(format!("redis_lease.dsn {error}")),
        }
    }
}

impl Failure {
    fn throw(self) {
        let class = match &self.trouble {
            Trouble::Error(Error::Unavailable { .. } | Error::NotReplicated { .. }) => &CONNECTION,
            Trouble::Error(Error::Unknown { .. }) => &OUTCOME_UNKNOWN,
            Trouble::Error(Error::Refused { .. }) => &SERVER,
            Trouble::Error(Error::NoMajority { because, .. }) => match because {
                NoMajority::Unavailable => &CONNECTION,
                NoMajority::Unknown => &OUTCOME_UNKNOWN,
                NoMajority::Refused(_) => &SERVER,
            },
            Trouble::Error(Error::Late) | Trouble::Lost(..) | Trouble::Aborted(_) => &LEASE_LOST,
            Trouble::NotAcquired(_) => &LOCK_TIMEOUT,
            Trouble::Error(_) => &BASE,
        };
        let message = c_string(&self.message());
        let class = class.load(Ordering::Acquire);
        // SAFETY: the class was registered at module startup; the engine copies the message.
        let object = unsafe { zend_throw_exception(class, message.as_ptr(), 0) };
        self.fill(class, object);
    }

    fn message(&self) -> String {
        let name = self.resource.as_deref().map(shown);
        let what = match &self.trouble {
            Trouble::Error(error) => error.to_string(),
            Trouble::NotAcquired(wait) if wait.is_zero() => "somebody else holds it".to_owned(),
            Trouble::NotAcquired(wait) => {
                format!("somebody else held it for the whole wait of {} s", wait.as_secs_f64())
            }
            Trouble::Lost(_, None) => "the lease ended before the critical section did".to_owned(),
            Trouble::Lost(_, Some(loss)) => format!("the lease ended before the critical section did: {loss}"),
            Trouble::Aborted(loss) => format!("the lease is lost: {loss}"),
        };
        name.map_or_else(|| what.clone(), |name| format!("Lock \"{name}\": {what}"))
    }

    fn fill(self, class: *mut ClassEntry, object: *mut zend_object) {
        let bytes = |bytes: Option<Vec<u8>>| {
            let mut value = Zval::new();
            match bytes {
                Some(bytes) => value.set_zend_string(ZendStr::new(bytes, false)),
                None => value.set_null(),
            }
            value
        };
        update(class, object, "resource", bytes(self.resource));
        match self.trouble {
            Trouble::Error(error) if error.is_unknown() => {
                update(class, object, "token", bytes(self.token));
                let mut fence = Zval::null();
                if let Some(number) = self.fence.and_then(|fence| i64::try_from(fence).ok()) {
                    fence.set_long(number);
                }
                update(class, object, "fence", fence);
            }
            Trouble::Error(
                Error::Refused { refusal, .. } | Error::NoMajority { because: NoMajority::Refused(refusal), .. },
            ) => {
                update(class, object, "redisCode", bytes(Some(refusal.code.into_bytes())));
            }
            Trouble::Lost(result, loss) => {
                update(class, object, "result", result);
                update(class, object, "loss", bytes(loss.map(word)));
            }
            Trouble::Aborted(loss) => update(class, object, "loss", bytes(Some(word(loss)))),
            Trouble::Error(Error::Late) => update(class, object, "loss", bytes(Some(word(Loss::Expired)))),
            _ => {}
        }
    }
}

fn word(loss: Loss) -> Vec<u8> {
    loss.word().into()
}

fn update(class: *mut ClassEntry, object: *mut zend_object, name: &str, mut value: Zval) {
    if object.is_null() {
        return;
    }
    // SAFETY: the class declares the property, the object is of that class and alive, and the engine
    // takes a reference of its own to the value.
    unsafe { zend_update_property(class, object, name.as_ptr().cast(), name.len(), &raw mut value) };
}

/// A resource's name, fit for a message whatever its bytes and length.
fn shown(name: &[u8]) -> String {
    const LONGEST: usize = 80;
    let text: String =
        name.get(..LONGEST).unwrap_or(name).utf8_chunks().fold(String::new(), |mut text, chunk| {
            text.extend(chunk.valid().chars().flat_map(|char| {
                if char.is_control() { char.escape_default().collect::<Vec<_>>() } else { vec![char] }
            }));
            text.push_str(&chunk.invalid().escape_ascii().to_string());
            text
        });
    if name.len() > LONGEST { text + "…" } else { text }
}

fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "\\0")).unwrap_or_default()
}

/// Registers the exception classes.
pub fn register() -> ext_php_rs::error::Result<()> {
    class("RedisLease\\LeaseException", runtime_exception, "\\RuntimeException", |class, _| {
        BASE.store(class, Ordering::Release)
    })?;
    property(&BASE, "resource", STRING | NULL, Zval::null());
    class("RedisLease\\ConnectionException", base, BASE_NAME, |class, _| CONNECTION.store(class, Ordering::Release))?;
    class("RedisLease\\OutcomeUnknownException", base, BASE_NAME, |class, _| {
        OUTCOME_UNKNOWN.store(class, Ordering::Release)
    })?;
    property(&OUTCOME_UNKNOWN, "token", STRING | NULL, Zval::null());
    property(&OUTCOME_UNKNOWN, "fence", INT | NULL, Zval::null());
    class("RedisLease\\ServerException", base, BASE_NAME, |class, _| SERVER.store(class, Ordering::Release))?;
    let mut empty = Zval::new();
    empty.set_interned_string("", true)?;
    property(&SERVER, "redisCode", STRING, empty);
    class("RedisLease\\LockTimeoutException", base, BASE_NAME, |class, _| {
        LOCK_TIMEOUT.store(class, Ordering::Release)
    })?;
    class("RedisLease\\LeaseLostException", base, BASE_NAME, |class, _| LEASE_LOST.store(class, Ordering::Release))?;
    property(&LEASE_LOST, "result", MIXED, Zval::null());
    property(&LEASE_LOST, "loss", STRING | NULL, Zval::null());
    Ok(())
}

const BASE_NAME: &str = "RedisLease\\LeaseException";

type Register = fn(&'static mut ClassEntry, ext_php_rs::args::ArgInfoTables);

fn class(
    name: &str,
    parent: fn() -> &'static ClassEntry,
    parent_name: &'static str,
    register: Register,
) -> ext_php_rs::error::Result<()> {
    ClassBuilder::new(name).extends((parent, parent_name)).registration(register).register()
}

// The engine's type masks: a bit for each type of value.
const NULL: u32 = 1 << ext_php_rs::ffi::IS_NULL;
const INT: u32 = 1 << ext_php_rs::ffi::IS_LONG;
const STRING: u32 = 1 << ext_php_rs::ffi::IS_STRING;
const MIXED: u32 = ext_php_rs::ffi::MAY_BE_ANY;

fn property(class: &AtomicPtr<ClassEntry>, name: &str, mask: u32, default: Zval) {
    let name = ZendStr::new_interned(name, true).into_raw();
    let kind = zend_type { ptr: ptr::null_mut(), type_mask: mask };
    let mut default = std::mem::ManuallyDrop::new(default);
    let public = c_int::try_from(ext_php_rs::ffi::ZEND_ACC_PUBLIC).unwrap_or_default();
    // SAFETY: called at module startup on a class just registered, with an interned name and a default
    // that needs no freeing.
    unsafe {
        zend_declare_typed_property(
            class.load(Ordering::Acquire),
            name,
            &raw mut *default,
            public,
            ptr::null_mut(),
            kind,
        );
    }
}

fn runtime_exception() -> &'static ClassEntry {
    // SAFETY: SPL is part of every PHP and starts before extensions.
    unsafe { spl_ce_RuntimeException.as_ref() }.unwrap_or_else(|| ce::exception())
}

fn base() -> &'static ClassEntry {
    // SAFETY: registered first, and alive until the module shuts down.
    unsafe { BASE.load(Ordering::Acquire).as_ref() }.unwrap_or_else(|| ce::exception())
}
