//! What a class of ours needs to be registered, written once.

use super::exceptions::Thrown;
use ext_php_rs::{
    builders::ClassBuilder,
    class::RegisteredClass,
    error::Result,
    ffi::{zend_hash_str_find_ptr_lc, zend_string},
    flags::ClassFlags,
    types::{ZendStr, Zval},
    zend::{ClassEntry, Function},
};
use std::{
    ffi::{c_int, c_uchar, c_void},
    ptr,
};

unsafe extern "C" {
    fn zend_add_attribute(
        attributes: *mut *mut c_void,
        name: *mut zend_string,
        arguments: u32,
        flags: u32,
        offset: u32,
        line: u32,
    ) -> *mut c_void;
}

/// Registers a class at module startup.
pub fn register<T: RegisteredClass>() -> Result<*mut ClassEntry> {
    let builder = T::method_builders()
        .into_iter()
        .fold(ClassBuilder::new(T::CLASS_NAME), |builder, (method, flags)| builder.method(method, flags));
    builder
        .flags(T::FLAGS)
        .object_override::<T>()
        .registration(|class, tables| {
            T::get_metadata().set_ce(class);
            T::get_metadata().set_arg_info(tables);
        })
        .register()?;
    let class = ptr::from_ref(T::get_metadata().ce()).cast_mut();
    // SAFETY: the entry was made a line above, and nothing else looks at it during startup.
    unsafe {
        // The engine's own refusal does not say what to do instead; ours does.
        (*class).ce_flags &= !ClassFlags::NotSerializable.bits();
        (*class).serialize = Some(refuse_to_serialize);
        (*class).unserialize = Some(refuse_to_unserialize);
    }
    Ok(class)
}

/// Keeps the first argument of the constructor out of traces: it may hold a password.
pub fn hide_first_argument(class: *mut ClassEntry) {
    const PERSISTENT: u32 = 1;
    let name = ZendStr::new_interned("SensitiveParameter", true).into_raw();
    // SAFETY: the class is registered and has a constructor, whose attributes nothing else looks at
    // during startup; offsets count from one, zero is the function itself.
    unsafe {
        let function = zend_hash_str_find_ptr_lc(&raw const (*class).function_table, c"__construct".as_ptr(), 11)
            .cast::<Function>();
        if !function.is_null() {
            zend_add_attribute((&raw mut (*function).common.attributes).cast(), name, 0, PERSISTENT, 1, 0);
        }
    }
}

unsafe extern "C" fn refuse_to_serialize(
    object: *mut Zval,
    _: *mut *mut c_uchar,
    _: *mut usize,
    _: *mut ext_php_rs::ffi::zend_serialize_data,
) -> c_int {
    // SAFETY: the engine passes the object to be serialized.
    let class =
        unsafe { object.as_ref() }.and_then(Zval::object).map(|object| object.get_class_name().unwrap_or_default());
    refuse("Serialization", &class.unwrap_or_default())
}

unsafe extern "C" fn refuse_to_unserialize(
    _: *mut Zval,
    class: *mut ClassEntry,
    _: *const c_uchar,
    _: usize,
    _: *mut ext_php_rs::ffi::zend_unserialize_data,
) -> c_int {
    // SAFETY: the engine passes the class to be unserialized.
    refuse("Unserialization", unsafe { class.as_ref() }.and_then(ClassEntry::name).unwrap_or_default())
}

fn refuse(what: &str, class: &str) -> c_int {
    let instead = match class {
        "DistributedLock" => ": hand a lease over with detach(), and take it up with DistributedLock::restore()",
        _ => "",
    };
    Thrown::Exception(format!("{what} of '{class}' is not allowed{instead}")).throw();
    -1
}

/// Implements ext-php-rs's registration for a final class whose methods are parsed by `call`.
macro_rules! final_class {
    ($class:ty, $name:literal, constructor: $constructor:expr, arguments: $arguments:expr, methods: $methods:expr) => {
        impl ::ext_php_rs::class::RegisteredClass for $class {
            const CLASS_NAME: &'static str = $name;
            const BUILDER_MODIFIER: Option<
                fn(::ext_php_rs::builders::ClassBuilder) -> ::ext_php_rs::builders::ClassBuilder,
            > = None;
            const EXTENDS: Option<::ext_php_rs::class::ClassEntryInfo> = None;
            const IMPLEMENTS: &'static [::ext_php_rs::class::ClassEntryInfo] = &[];
            const FLAGS: ::ext_php_rs::flags::ClassFlags =
                ::ext_php_rs::flags::ClassFlags::Final.union(::ext_php_rs::flags::ClassFlags::NoDynamicProperties);

            fn get_metadata() -> &'static ::ext_php_rs::class::ClassMetadata<Self> {
                static METADATA: ::ext_php_rs::class::ClassMetadata<$class> =
                    ::ext_php_rs::class::ClassMetadata::new(&[]);
                &METADATA
            }

            fn method_builders()
            -> Vec<(::ext_php_rs::builders::FunctionBuilder<'static>, ::ext_php_rs::flags::MethodFlags)> {
                $methods
            }

            fn constructor() -> Option<::ext_php_rs::class::ConstructorMeta<Self>> {
                Some(::ext_php_rs::class::ConstructorMeta {
                    constructor: |frame| match $constructor(&mut $crate::php::call::Call::new(frame)) {
                        Ok(object) => ::ext_php_rs::class::ConstructorResult::Ok(object),
                        Err(thrown) => {
                            thrown.throw();
                            ::ext_php_rs::class::ConstructorResult::ArgError
                        }
                    },
                    build_fn: $arguments,
                    flags: Some(::ext_php_rs::flags::MethodFlags::Public),
                })
            }

            fn constants() -> &'static [(
                &'static str,
                &'static dyn ::ext_php_rs::convert::IntoZvalDyn,
                ::ext_php_rs::describe::DocComments,
                ::ext_php_rs::flags::ConstantFlags,
            )] {
                &[]
            }
        }
    };
}
pub(super) use final_class;
