//! The program that waits with us: PHP, whose signal handlers and time limit must be served meanwhile.

use std::os::fd::RawFd;

/// What a wait asks of the program around it.
pub trait Host {
    /// Whether something wants to be served.
    fn is_wanted(&self) -> bool;
    /// Serves it. False: the wait must end.
    fn serve(&self) -> bool;
    /// A descriptor that becomes readable when something wants to be served and no signal tells; -1 for none.
    fn waker(&self) -> RawFd {
        -1
    }
}

/// The host ended the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

/// Serves what wants to be served, now.
pub fn attend(host: &dyn Host) -> Result<(), Interrupted> {
    if host.is_wanted() && !host.serve() { Err(Interrupted) } else { Ok(()) }
}

/// A program that wants nothing.
pub struct Unattended;

impl Host for Unattended {
    fn is_wanted(&self) -> bool {
        false
    }

    fn serve(&self) -> bool {
        true
    }
}
