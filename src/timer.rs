//! An alarm clock: a descriptor that becomes readable at a moment on CLOCK_BOOTTIME, also when the machine
//! slept through it, or at once when another thread rings it.

use crate::clock::Moment;
use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    ptr,
};

/// An alarm clock.
pub struct Timer(OwnedFd);

impl Timer {
    /// One that is not set.
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes two numbers; the descriptor it makes is nobody else's.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_BOOTTIME, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The descriptor that becomes readable.
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Makes it readable from `moment` on, and not before; None: never.
    pub fn set(&self, moment: Option<Moment>) {
        self.arm(moment.map_or(libc::timespec { tv_sec: 0, tv_nsec: 0 }, Moment::timespec));
    }

    /// Makes it readable now.
    pub fn ring(&self) {
        // Zero would switch it off.
        self.arm(libc::timespec { tv_sec: 0, tv_nsec: 1 });
    }

    fn arm(&self, at: libc::timespec) {
        // SAFETY: a zeroed itimerspec is a valid one.
        let mut setting: libc::itimerspec = unsafe { MaybeUninit::zeroed().assume_init() };
        setting.it_value = at;
        // SAFETY: the descriptor is a timer's, the setting lives through the call, the old one is not wanted.
        unsafe { libc::timerfd_settime(self.fd(), libc::TFD_TIMER_ABSTIME, &raw const setting, ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::poll::{self, Interest, Woken};
    use std::time::Duration;

    fn is_ready(timer: &Timer, within: u64) -> bool {
        let interest = Interest { fd: timer.fd(), read: true, write: false };
        poll::sleep(&[interest], Moment::now() + Duration::from_millis(within)).unwrap() == Woken::Ready
    }

    #[test]
    fn it_becomes_readable_at_its_moment_and_is_not_once_it_is_set_anew() {
        let timer = Timer::new().unwrap();
        assert!(!is_ready(&timer, 0));
        let moment = Moment::now() + Duration::from_millis(5);
        timer.set(Some(moment));
        assert!(is_ready(&timer, 5_000) && moment.is_past());
        timer.set(Some(Moment::now() + Duration::from_secs(60)));
        assert!(!is_ready(&timer, 0));
        timer.ring();
        assert!(is_ready(&timer, 0));
        timer.set(None);
        assert!(!is_ready(&timer, 0));
    }
}
