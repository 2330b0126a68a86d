//! PHP as the host of a wait: its signal handlers and its time limit are served while we wait, at once,
//! as the engine would do between two opcodes.

use super::{abort, exceptions::Thrown};
use crate::host::Host;
use ext_php_rs::{
    ffi::{zend_atomic_bool, zend_interrupt_function},
    zend::{ExecutorGlobals, try_catch},
};
use std::{
    cell::Cell,
    os::fd::RawFd,
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicBool, Ordering},
};

unsafe extern "C" {
    fn zend_timeout();
}

/// PHP, waiting with us.
#[derive(Default)]
pub struct Php {
    has_bailed_out: Cell<bool>,
}

impl Php {
    /// What ended the wait.
    pub fn thrown(&self) -> Thrown {
        if self.has_bailed_out.get() { Thrown::Bailout } else { Thrown::Pending }
    }

    /// Runs a piece of the engine that may bail out.
    fn run(&self, piece: impl FnOnce()) -> bool {
        if try_catch(AssertUnwindSafe(piece)).is_err() {
            self.has_bailed_out.set(true);
            return false;
        }
        !ExecutorGlobals::has_exception()
    }
}

impl Host for Php {
    fn is_wanted(&self) -> bool {
        interrupt().load(Ordering::Relaxed) || abort::is_rung()
    }

    fn waker(&self) -> RawFd {
        abort::waker()
    }

    fn serve(&self) -> bool {
        interrupt().store(false, Ordering::Relaxed);
        if flag(&raw const globals().timed_out).load(Ordering::Relaxed) {
            // SAFETY: it ends in a bailout, which `run` catches.
            return self.run(|| unsafe { zend_timeout() });
        }
        // SAFETY: set once at start-up, by pcntl among others.
        let Some(serve) = (unsafe { zend_interrupt_function }) else { return true };
        let frame = globals().current_execute_data;
        // SAFETY: the frame is the one that is executing now, our own method's.
        self.run(|| unsafe { serve(frame) })
    }
}

/// The flag of this thread that makes the engine look, between two opcodes, at what is to be served.
pub fn interrupt() -> &'static AtomicBool {
    flag(&raw const globals().vm_interrupt)
}

fn globals() -> &'static ExecutorGlobals {
    // SAFETY: this thread is executing PHP code, so its globals are alive; only single fields are read.
    unsafe { &*std::ptr::from_ref(&*ExecutorGlobals::get()) }
}

/// An atomic flag of the engine: one byte, which its signal handlers set.
fn flag(field: *const zend_atomic_bool) -> &'static AtomicBool {
    const { assert!(size_of::<zend_atomic_bool>() == size_of::<AtomicBool>()) };
    // SAFETY: the same size, alive as long as the thread runs PHP, and only ever touched atomically.
    unsafe { AtomicBool::from_ptr(field.cast_mut().cast()) }
}
