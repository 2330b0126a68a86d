//! Sleeping until a socket is ready or a deadline has come.
//!
//! It decides how to sleep, never what for. Looking before sleeping is `spin`'s.

use crate::{
    clock::Moment,
    host::{self, Host, Interrupted},
    signals,
};
use std::{io, os::fd::RawFd, ptr};

/// What a socket waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// The descriptor to watch.
    pub fd: RawFd,
    /// Ready when bytes, or the end of the stream, can be read.
    pub read: bool,
    /// Ready when bytes can be written, or a connect has ended.
    pub write: bool,
}

impl Interest {
    /// Nothing to watch: poll(2) passes over a negative descriptor.
    pub const NONE: Self = Self { fd: -1, read: false, write: false };
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// At least one socket can go on.
    Ready,
    /// The deadline has come.
    Deadline,
    /// A signal was delivered; its handler in C has run, PHP's has not.
    Signal,
}

/// Sleeps until one of `interests` can go on, `deadline` has come, or a signal arrives.
pub fn sleep(interests: &[Interest], deadline: Moment) -> io::Result<Woken> {
    sleep_with(interests, deadline, ptr::null())
}

/// Sleeps likewise; afterwards each of `interests` says what its socket can do, and an ended one can do all.
pub fn sleep_until_ready(interests: &mut [Interest], deadline: Moment) -> io::Result<Woken> {
    let mut fds: Vec<libc::pollfd> = interests.iter().map(pollfd).collect();
    let woken = ppoll(&mut fds, deadline, ptr::null())?;
    for (interest, fd) in interests.iter_mut().zip(&fds) {
        let is = |events| fd.revents & (events | libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0;
        (interest.read, interest.write) = (is(libc::POLLIN), is(libc::POLLOUT));
    }
    Ok(woken)
}

/// Sleeps likewise, and serves the host whenever it wants: no signal is overlooked between the look
/// for it and the sleep.
pub fn sleep_with_host(
    interests: &[Interest],
    deadline: Moment,
    host: &dyn Host,
) -> Result<io::Result<Woken>, Interrupted> {
    loop {
        host::attend(host)?;
        let signals = signals::Blocked::new();
        if host.is_wanted() {
            continue;
        }
        match sleep_with(interests, deadline, signals.before()) {
            Ok(Woken::Signal) => {}
            woken => return Ok(woken),
        }
    }
}

fn sleep_with(interests: &[Interest], deadline: Moment, mask: *const libc::sigset_t) -> io::Result<Woken> {
    // One is the common case, and needs no memory of its own.
    let (mut one, mut many);
    let fds = match interests {
        [interest] => {
            one = [pollfd(interest)];
            &mut one[..]
        }
        interests => {
            many = interests.iter().map(pollfd).collect::<Vec<_>>();
            &mut many[..]
        }
    };
    ppoll(fds, deadline, mask)
}

fn ppoll(fds: &mut [libc::pollfd], deadline: Moment, mask: *const libc::sigset_t) -> io::Result<Woken> {
    let left = deadline.remaining();
    let timeout = libc::timespec {
        tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(left.subsec_nanos().cast_signed()),
    };
    // SAFETY: the array and the timespec live through the call, the length is the array's own, the mask null or alive.
    let ready = unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, &raw const timeout, mask) };
    match ready {
        0 => Ok(Woken::Deadline),
        1.. => Ok(Woken::Ready),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(Woken::Signal),
            error => Err(error),
        },
    }
}

fn pollfd(interest: &Interest) -> libc::pollfd {
    let mut events = 0;
    if interest.read {
        events |= libc::POLLIN;
    }
    if interest.write {
        events |= libc::POLLOUT;
    }
    libc::pollfd { fd: interest.fd, events, revents: 0 }
}
