//! The end of a request where a program goes on from one request to the next, as in FrankenPHP's worker mode: the
//! modules are not told of it there, only PHP's interface to the server is.

use super::lifecycle;
use ext_php_rs::ffi::sapi_module;
use std::{
    ffi::c_int,
    mem, ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

type Deactivate = unsafe extern "C" fn() -> c_int;

/// The server's own.
static PREVIOUS: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// Takes our place before the server's own function.
pub fn install() {
    // SAFETY: at module startup, in the only thread there is.
    unsafe {
        if !is_ours(sapi_module.deactivate) {
            let previous = sapi_module.deactivate.map_or(ptr::null_mut(), |function| function as *mut ());
            PREVIOUS.store(previous, Ordering::Release);
            sapi_module.deactivate = Some(deactivated);
        }
    }
}

/// Gives the place up, unless somebody has taken one before us since.
pub fn uninstall() {
    // SAFETY: at module shutdown, when no request is served.
    unsafe {
        if is_ours(sapi_module.deactivate) {
            sapi_module.deactivate = previous();
        }
    }
}

fn is_ours(function: Option<Deactivate>) -> bool {
    function.is_some_and(|function| ptr::fn_addr_eq(function, deactivated as Deactivate))
}

fn previous() -> Option<Deactivate> {
    let pointer = PREVIOUS.load(Ordering::Acquire);
    // SAFETY: null, or the function that `install` found.
    (!pointer.is_null()).then(|| unsafe { mem::transmute::<*mut (), Deactivate>(pointer) })
}

unsafe extern "C" fn deactivated() -> c_int {
    // Nothing is left to do where the modules were told before.
    lifecycle::end_request();
    // SAFETY: what PHP would have called in our place.
    previous().map_or(lifecycle::SUCCESS, |previous| unsafe { previous() })
}
