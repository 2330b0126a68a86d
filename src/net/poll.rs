//! Sleeping until a socket is ready or a deadline has come.
//!
//! It decides how to sleep, never what for. Looking before sleeping is `spin`'s.

use crate::{
    clock::{self, Moment},
    host::{self, Host, Interrupted},
    signals,
};
use std::{borrow::Cow, cell::Cell, io, os::fd::RawFd, ptr, time::Duration};

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

thread_local! {
    /// What cancels this thread's sleeps; -1 for nothing.
    static CANCEL: Cell<RawFd> = const { Cell::new(-1) };
}

/// Does the work. Once `fd` is readable no sleep in it succeeds any more, so that it is soon over.
pub fn cancellable<T>(fd: RawFd, work: impl FnOnce() -> T) -> T {
    CANCEL.set(fd);
    let result = work();
    CANCEL.set(-1);
    result
}

/// Whether a sleep failed because it was cancelled.
pub fn is_cancelled(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ECANCELED)
}

fn cancel() -> Interest {
    Interest { fd: CANCEL.get(), read: true, write: false }
}

/// Sleeps for `span`, whatever signals come. False: cancelled.
pub fn pause(span: Duration) -> bool {
    let until = Moment::now() + span;
    loop {
        match sleep(&[], until) {
            Ok(Woken::Signal) => {}
            woken => return woken.is_ok(),
        }
    }
}

/// Sleeps until one of `interests` can go on, `deadline` has come, or a signal arrives.
pub fn sleep(interests: &[Interest], deadline: Moment) -> io::Result<Woken> {
    sleep_with(interests, deadline, ptr::null())
}

/// Sleeps likewise; afterwards each of `interests` says what its socket can do, and an ended one can do all.
pub fn sleep_until_ready(interests: &mut [Interest], deadline: Moment) -> io::Result<Woken> {
    let cancel = cancel();
    let mut fds: Vec<libc::pollfd> = std::iter::once(&cancel).chain(&*interests).map(pollfd).collect();
    let woken = ppoll(&mut fds, deadline, ptr::null())?;
    for (interest, fd) in interests.iter_mut().zip(fds.iter().skip(1)) {
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
        // Asked each time: what the host did may have been a fork.
        let mut interests = Cow::Borrowed(interests);
        if host.waker() >= 0 {
            interests.to_mut().push(Interest { fd: host.waker(), read: true, write: false });
        }
        let signals = signals::Blocked::new();
        if host.is_wanted() {
            continue;
        }
        match sleep_with(&interests, deadline, signals.before()) {
            Ok(Woken::Signal) => {}
            Ok(Woken::Ready) if host.is_wanted() => {}
            woken => return Ok(woken),
        }
    }
}

fn sleep_with(interests: &[Interest], deadline: Moment, mask: *const libc::sigset_t) -> io::Result<Woken> {
    // One is the common case, and needs no memory of its own.
    let (mut one, mut many);
    let cancel = cancel();
    let fds = match interests {
        [interest] => {
            one = [pollfd(&cancel), pollfd(interest)];
            &mut one[..]
        }
        interests => {
            many = std::iter::once(&cancel).chain(interests).map(pollfd).collect::<Vec<_>>();
            &mut many[..]
        }
    };
    ppoll(fds, deadline, mask)
}

fn ppoll(fds: &mut [libc::pollfd], deadline: Moment, mask: *const libc::sigset_t) -> io::Result<Woken> {
    let timeout = clock::timespec(deadline.remaining());
    // SAFETY: the array and the timespec live through the call, the length is the array's own, the mask null or alive.
    let ready = unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, &raw const timeout, mask) };
    match ready {
        0 => Ok(Woken::Deadline),
        1.. if fds.first().is_some_and(|cancel| cancel.revents != 0) => {
            Err(io::Error::from_raw_os_error(libc::ECANCELED))
        }
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
