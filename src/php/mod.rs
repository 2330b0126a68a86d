//! The PHP side: the only room that knows ext-php-rs. It checks arguments, translates them into
//! questions to `lease`, and answers into PHP's values and exceptions.

mod abort;
mod call;
mod class;
mod connection;
mod exceptions;
mod info;
mod ini;
mod interrupts;
mod lifecycle;
mod lock;
mod metrics;
mod sapi;

use ext_php_rs::prelude::*;

/// The module table.
#[php_module]
pub fn get_module(module: ModuleBuilder) -> ModuleBuilder {
    module
        .startup_function(lifecycle::module_startup)
        .request_shutdown_function(lifecycle::request_shutdown)
        .shutdown_function(lifecycle::module_shutdown)
        .info_function(info::print)
}
