//! One call from PHP: its arguments, parsed by the engine's own parser so that strict types, coercion
//! and error texts are PHP's own, and its result or exception.

use super::exceptions::Thrown;
use ext_php_rs::{
    boxed::ZBox,
    class::RegisteredClass,
    types::{ZendClassObject, ZendHashTable, ZendStr, Zval},
    zend::{ClassEntry, ExecuteData, run_handler},
};
use std::{
    ffi::{CStr, c_char, c_int},
    panic::AssertUnwindSafe,
    ptr,
    time::Duration,
};

unsafe extern "C" {
    fn zend_parse_parameters(count: u32, spec: *const c_char, ...) -> c_int;
}

/// A call in progress.
pub struct Call<'a> {
    frame: &'a mut ExecuteData,
}

/// What a method gives back.
pub enum Returned {
    /// `void`
    Nothing,
    /// `null`
    Null,
    /// `bool`
    Bool(bool),
    /// `int`
    Int(i64),
    /// `float`
    Float(f64),
    /// `string`, of any bytes
    Bytes(Vec<u8>),
    /// `array`
    Array(ZBox<ZendHashTable>),
    /// Any value.
    Value(Zval),
}

/// Runs a method: panics become PHP errors, and a bailout of the engine goes on once our frames are gone.
pub fn enter(frame: &mut ExecuteData, slot: &mut Zval, method: impl FnOnce(&mut Call<'_>) -> Result<Returned, Thrown>) {
    run_handler(AssertUnwindSafe(|| match method(&mut Call { frame }) {
        Ok(returned) => returned.write(slot),
        Err(thrown) => thrown.throw(),
    }));
}

/// Makes an engine handler of a Rust function.
macro_rules! handler {
    ($method:expr) => {{
        extern "C" fn handler(frame: &mut ::ext_php_rs::zend::ExecuteData, slot: &mut ::ext_php_rs::types::Zval) {
            $crate::php::call::enter(frame, slot, $method);
        }
        handler
    }};
}
pub(super) use handler;

impl<'a> Call<'a> {
    /// A call whose frame the engine made.
    pub fn new(frame: &'a mut ExecuteData) -> Self {
        Self { frame }
    }

    /// The object that the method was called on.
    pub fn this<T: RegisteredClass>(&mut self) -> Result<&'a ZendClassObject<T>, Thrown> {
        let object: Option<*const ZendClassObject<T>> =
            self.frame.get_object::<T>().map(|object| ptr::from_mut(object).cast_const());
        // SAFETY: the engine holds a reference to $this for as long as the call's frame lives.
        object.and_then(|object| unsafe { object.as_ref() }).ok_or_else(|| {
            Thrown::Error(format!(
                "The {} object has not been initialized: its constructor was not called",
                T::CLASS_NAME
            ))
        })
    }

    /// Refuses to construct an object a second time: what the first made would go unnoticed.
    pub fn first_construction<T: RegisteredClass>(&mut self) -> Result<(), Thrown> {
        match self.frame.get_object::<T>() {
            None => Ok(()),
            Some(_) => Err(Thrown::Error(format!("The {} object has been constructed already", T::CLASS_NAME))),
        }
    }

    /// The object that the method was called on, as a value of its own.
    pub fn this_value(&mut self) -> Zval {
        let mut value = Zval::new();
        if let Some(object) = self.frame.get_self() {
            value.set_object(object);
        }
        value
    }

    /// Parses no arguments.
    pub fn no_arguments(&self) -> Result<(), Thrown> {
        // SAFETY: an empty specification takes no further arguments.
        parsed(unsafe { zend_parse_parameters(self.count(), c"".as_ptr()) })
    }

    /// How many arguments were passed.
    fn count(&self) -> u32 {
        // SAFETY: every field of the union has the same type.
        unsafe { self.frame.This.u2.num_args }
    }

    /// Parses the arguments by `spec` into `slots`, one for each pointer that the specification needs.
    ///
    /// # Safety
    ///
    /// Each slot points to a live value of the type that the specification writes, or reads, in its place.
    pub unsafe fn parse<const N: usize>(&self, spec: &CStr, slots: [*mut std::ffi::c_void; N]) -> Result<(), Thrown> {
        const { assert!(N <= 9) };
        let (count, spec) = (self.count(), spec.as_ptr());
        // SAFETY: the parser uses as many pointers as the specification names, which the caller vouches for.
        let result = unsafe {
            let mut all = [ptr::null_mut(); 9];
            for (slot, to) in slots.into_iter().zip(&mut all) {
                *to = slot;
            }
            let [a, b, c, d, e, f, g, h, i] = all;
            zend_parse_parameters(count, spec, a, b, c, d, e, f, g, h, i)
        };
        parsed(result)
    }
}

fn parsed(result: c_int) -> Result<(), Thrown> {
    if result == 0 { Ok(()) } else { Err(Thrown::Pending) }
}

/// A `string` argument, as the parser writes it.
pub struct Text {
    pointer: *const c_char,
    length: usize,
}

impl Text {
    /// Not given.
    pub const NONE: Self = Self { pointer: ptr::null(), length: 0 };

    /// The bytes; None for null or not given.
    pub fn bytes(&self) -> Option<&[u8]> {
        // SAFETY: the parser pointed it at an argument, which lives as long as the call that `self` is local to.
        (!self.pointer.is_null()).then(|| unsafe { std::slice::from_raw_parts(self.pointer.cast(), self.length) })
    }

    /// The two places the parser writes to.
    pub fn slots(&mut self) -> [*mut std::ffi::c_void; 2] {
        [(&raw mut self.pointer).cast(), (&raw mut self.length).cast()]
    }
}

/// A `?float` argument, as the parser writes it.
pub struct OptionalFloat {
    value: f64,
    is_null: bool,
}

impl OptionalFloat {
    /// Not given.
    pub const NONE: Self = Self { value: 0.0, is_null: true };

    /// The number; None for null or not given.
    pub fn get(&self) -> Option<f64> {
        (!self.is_null).then_some(self.value)
    }

    /// The two places the parser writes to. It clears the flag only when it meets an argument.
    pub fn slots(&mut self) -> [*mut std::ffi::c_void; 2] {
        [(&raw mut self.value).cast(), (&raw mut self.is_null).cast()]
    }
}

/// An argument that is a number of seconds within a range, checked as PHP checks its own.
pub fn seconds(
    value: f64,
    range: std::ops::RangeInclusive<f64>,
    argument: u32,
    what: &str,
) -> Result<Duration, Thrown> {
    if !range.contains(&value) {
        return Err(Thrown::Argument(argument, what.to_owned()));
    }
    Ok(Duration::from_secs_f64(value))
}

impl Returned {
    /// A string or null.
    pub fn bytes_or_null(bytes: Option<Vec<u8>>) -> Self {
        bytes.map_or(Self::Null, Self::Bytes)
    }

    fn write(self, slot: &mut Zval) {
        match self {
            Self::Nothing => {}
            Self::Null => slot.set_null(),
            Self::Bool(value) => slot.set_bool(value),
            Self::Int(value) => slot.set_long(value),
            Self::Float(value) => slot.set_double(value),
            Self::Bytes(bytes) => slot.set_zend_string(ZendStr::new(bytes, false)),
            Self::Array(array) => slot.set_hashtable(array),
            Self::Value(value) => *slot = value,
        }
    }
}

/// The class that an object argument must have, as the parser takes it.
pub fn class_entry(class: &'static ClassEntry) -> *mut std::ffi::c_void {
    ptr::from_ref(class).cast_mut().cast()
}
