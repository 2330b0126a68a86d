//! What a class of ours needs to be registered, written once.

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
            const FLAGS: ::ext_php_rs::flags::ClassFlags = ::ext_php_rs::flags::ClassFlags::Final
                .union(::ext_php_rs::flags::ClassFlags::NotSerializable)
                .union(::ext_php_rs::flags::ClassFlags::NoDynamicProperties);

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
