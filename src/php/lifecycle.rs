//! What happens when the module and a request begin and end. A panic must not leave these functions.

use super::{abort, class, connection::Connection, exceptions, ini, lock::DistributedLock, metrics, sapi};
use crate::{lease, renewal, store};
use ext_php_rs::zend::ExecutorGlobals;
use std::{ffi::c_int, panic};

unsafe extern "C" {
    fn zend_unregister_ini_entries(module: c_int);
}

/// Nothing went wrong.
pub const SUCCESS: c_int = 0;
const FAILURE: c_int = -1;

/// Registers settings and classes. Opens nothing: FPM's master runs this before it forks.
pub unsafe extern "C" fn module_startup(_: c_int, module: c_int) -> c_int {
    let started = panic::catch_unwind(|| -> ext_php_rs::error::Result<()> {
        // Before it forks, and before the settings are read.
        crate::metrics::share();
        ini::register(module);
        exceptions::register()?;
        class::register::<DistributedLock>()?;
        class::hide_first_argument(class::register::<Connection>()?);
        metrics::register()?;
        abort::install();
        sapi::install();
        Ok(())
    });
    if matches!(started, Ok(Ok(()))) { SUCCESS } else { FAILURE }
}

/// Gives back what the request still holds. A fatal error, exit() and a time limit pass here too,
/// destructors do not run then.
pub unsafe extern "C" fn request_shutdown(_: c_int, _: c_int) -> c_int {
    end_request();
    SUCCESS
}

/// Gives back what is still held.
pub fn end_request() {
    let _ = panic::catch_unwind(|| lease::end_request(ini::release_on_shutdown()));
}

/// Whether the request is ending: PHP destroys the variables that are left before it asks the modules.
pub fn is_request_ending() -> bool {
    const IN_SHUTDOWN: u32 = 1;
    u32::from(ExecutorGlobals::get().flags) & IN_SHUTDOWN != 0
}

/// Ends the thread, if it runs, and closes the connections.
pub unsafe extern "C" fn module_shutdown(_: c_int, module: c_int) -> c_int {
    let _ = panic::catch_unwind(|| {
        sapi::uninstall();
        abort::uninstall();
        renewal::stop();
        store::close_all();
    });
    // SAFETY: the number is the one these entries were registered under.
    unsafe { zend_unregister_ini_entries(module) };
    SUCCESS
}
