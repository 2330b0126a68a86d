//! Time as leases see it: moments that go on while the machine sleeps, and wall time for fences.
//!
//! Validity and every deadline use CLOCK_BOOTTIME; wall time only raises fences, never ends a lease.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A moment on CLOCK_BOOTTIME: monotonic, and it counts suspend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// The present.
    pub fn now() -> Self {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes into the timespec we own; the clock id is a constant it knows.
        unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
        Self(Duration::new(seconds, nanos))
    }

    /// What is left until this moment; zero when it is past.
    pub fn remaining(self) -> Duration {
        self.since(Self::now())
    }

    /// The time from `earlier` to this moment; zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Whether this moment has come.
    pub fn is_past(self) -> bool {
        Self::now() >= self
    }

    /// The moment as the kernel takes it.
    pub fn timespec(self) -> libc::timespec {
        timespec(self.0)
    }
}

/// A span of time as the kernel takes it.
pub fn timespec(span: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(span.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(span.subsec_nanos().cast_signed()),
    }
}

impl std::ops::Add<Duration> for Moment {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }
}

impl std::ops::Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(span))
    }
}

/// Wall time in microseconds since 1970: the floor under a new fence, so that it rises even when
/// Redis lost its data. Below 2^53 until the year 2255, so Lua's doubles hold it exactly.
pub fn wall_micros() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)
}
