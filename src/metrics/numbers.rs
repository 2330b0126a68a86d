//! What is counted: the numbers themselves, and the bounds of the histograms.

/// A number that only rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs, reason = "FAMILIES says of each what it counts")]
pub enum Counter {
    Acquired,
    Extended,
    AcquireContended,
    AcquireUnavailable,
    AcquireUnknown,
    AcquireRefused,
    AcquireLate,
    AcquireInterrupted,
    AcquireFailed,
    Contention,
    WokenBySignal,
    WokenByTimer,
    WokenForNothing,
    Released,
    ReleaseLost,
    ReleaseUnavailable,
    ReleaseUnknown,
    ReleaseRefused,
    RenewedByCaller,
    LostAtCaller,
    FailedAtCaller,
    RenewedByThread,
    LostAtThread,
    FailedAtThread,
    Expired,
    Deleted,
    Taken,
    Unreachable,
    MaxHold,
    LostUntold,
    Aborted,
    UnknownResent,
    UnknownReported,
    UnknownReleased,
    RetryUnanswered,
    RetryOutage,
    RetrySplit,
}

/// How many there are.
pub const COUNTERS: usize = Counter::RetrySplit as usize + 1;

/// How often values fell below each of some bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs, reason = "FAMILIES says of each what it counts")]
pub enum Histogram {
    Wait,
    Hold,
    ValidityLeft,
    RenewalLag,
}

/// How many there are.
pub const HISTOGRAMS: usize = Histogram::RenewalLag as usize + 1;

/// What is counted for each server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs, reason = "FAMILIES says of each what it counts")]
pub enum PerServer {
    Answers,
    Connects,
    Reconnects,
    ResolveFailed,
    ConnectFailed,
    TlsFailed,
    LoginFailed,
    TimedOut,
    Closed,
    Protocol,
    Refused,
    NoPrimary,
    VoteGranted,
    VoteHeld,
    VoteRefused,
    VoteSilent,
    VoteAbsent,
}

/// How many there are.
pub const PER_SERVER: usize = PerServer::VoteAbsent as usize + 1;

/// What is counted for each prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs, reason = "FAMILIES says of each what it counts")]
pub enum PerPrefix {
    Acquired,
    Contention,
    Wait,
    Hold,
    Losses,
}

/// How many there are.
pub const PER_PREFIX: usize = PerPrefix::Losses as usize + 1;

/// A bound, in billionths, and as it is written.
pub type Bound = (u64, &'static str);

const SECONDS: &[Bound] = &[
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (2_500_000, "0.0025"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (25_000_000, "0.025"),
    (50_000_000, "0.05"),
    (100_000_000, "0.1"),
    (250_000_000, "0.25"),
    (500_000_000, "0.5"),
    (1_000_000_000, "1"),
    (2_500_000_000, "2.5"),
    (5_000_000_000, "5"),
    (10_000_000_000, "10"),
    (30_000_000_000, "30"),
    (60_000_000_000, "60"),
    (300_000_000_000, "300"),
    (3_600_000_000_000, "3600"),
];
const SHARES: &[Bound] = &[
    (0, "0"),
    (100_000_000, "0.1"),
    (200_000_000, "0.2"),
    (300_000_000, "0.3"),
    (400_000_000, "0.4"),
    (500_000_000, "0.5"),
    (600_000_000, "0.6"),
    (700_000_000, "0.7"),
    (800_000_000, "0.8"),
    (900_000_000, "0.9"),
    (1_000_000_000, "1"),
];

/// No histogram has more bounds.
pub const MOST_BOUNDS: usize = SECONDS.len();

impl Histogram {
    /// The upper bounds of its buckets, but for the last one, which has none.
    pub fn bounds(self) -> &'static [Bound] {
        if self == Self::ValidityLeft { SHARES } else { SECONDS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_rise_and_are_written_as_they_are() {
        for bounds in [SECONDS, SHARES] {
            assert!(bounds.is_sorted() && bounds.len() <= MOST_BOUNDS);
            for (bound, text) in bounds {
                assert_eq!((text.parse::<f64>().unwrap() * 1e9).round() as u64, *bound);
            }
        }
    }
}
