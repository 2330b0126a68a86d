//! The calling thread's signal mask.

use std::{mem, ptr};

/// All signals but those of faults are blocked until this is dropped.
///
/// For the birth of a thread, which inherits its creator's mask: PHP's handlers crash on a thread that
/// PHP does not know. And for the moment between a look for a signal and a sleep that it must end.
pub struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    /// Blocks them.
    pub fn new() -> Self {
        // SAFETY: a zeroed sigset_t is a valid value, and each call below initialises or fills one.
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { (mem::zeroed(), mem::zeroed()) };
        // SAFETY: both sets are ours and live through the calls.
        unsafe {
            libc::sigfillset(&raw mut all);
            for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT] {
                libc::sigdelset(&raw mut all, fault);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        }
        Self { before }
    }

    /// The mask as it was, for a sleep that may be interrupted as before.
    pub fn before(&self) -> &libc::sigset_t {
        &self.before
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: restores the mask that `new` read from this same thread.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut()) };
    }
}
