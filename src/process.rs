//! Which process this is. What belongs to a parent must not be used in its forked child, so this is
//! asked at every step; the answer is kept until the next fork, since the question costs a system call.

use std::sync::{
    Once,
    atomic::{AtomicU32, Ordering},
};

static ID: AtomicU32 = AtomicU32::new(UNKNOWN);
const UNKNOWN: u32 = 0;

/// This process's id.
pub fn id() -> u32 {
    match ID.load(Ordering::Relaxed) {
        UNKNOWN => {
            static FORGET_AT_FORK: Once = Once::new();
            // SAFETY: the handler only stores to an atomic, which a child may do after a fork.
            FORGET_AT_FORK.call_once(|| unsafe {
                libc::pthread_atfork(None, None, Some(forget));
            });
            let id = std::process::id();
            ID.store(id, Ordering::Relaxed);
            id
        }
        id => id,
    }
}

extern "C" fn forget() {
    ID.store(UNKNOWN, Ordering::Relaxed);
}
