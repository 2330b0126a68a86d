//! How what is counted is told: names, meanings and labels. The names are part of the public interface.

use super::numbers::{Counter, Histogram, PerPrefix, PerServer};

/// One metric.
pub struct Family {
    pub name: &'static str,
    pub help: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    pub numbers: Numbers,
}

/// The numbers of a metric, and the values of their labels.
pub enum Numbers {
    Counters(&'static [(Counter, &'static [&'static str])]),
    Histogram(Histogram),
    /// The first label is the server.
    PerServer(&'static [(PerServer, &'static [&'static str])], Servers),
    /// The first label is the prefix.
    PerPrefix(PerPrefix, Unit),
}

/// Which servers are told of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Servers {
    /// All that were counted for in some way.
    All,
    /// Those that have one of these numbers.
    Used,
}

/// What a number counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Events,
    Nanoseconds,
}

const fn counters(
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    numbers: &'static [(Counter, &'static [&'static str])],
) -> Family {
    Family { name, help, labels, numbers: Numbers::Counters(numbers) }
}

const fn histogram(name: &'static str, help: &'static str, histogram: Histogram) -> Family {
    Family { name, help, labels: &[], numbers: Numbers::Histogram(histogram) }
}

const fn per_server(
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    numbers: &'static [(PerServer, &'static [&'static str])],
    servers: Servers,
) -> Family {
    Family { name, help, labels, numbers: Numbers::PerServer(numbers, servers) }
}

const fn per_prefix(name: &'static str, help: &'static str, number: PerPrefix, unit: Unit) -> Family {
    Family { name, help, labels: &["prefix"], numbers: Numbers::PerPrefix(number, unit) }
}

/// Every metric, in the order in which they are told.
pub const FAMILIES: &[Family] = &[
    counters(
        "redis_lease_acquires_total",
        "Calls of acquire() and synchronized(), by how they ended.",
        &["outcome"],
        &[
            (Counter::Acquired, &["acquired"]),
            (Counter::Extended, &["extended"]),
            (Counter::AcquireContended, &["contended"]),
            (Counter::AcquireUnavailable, &["unavailable"]),
            (Counter::AcquireUnknown, &["unknown"]),
            (Counter::AcquireRefused, &["refused"]),
            (Counter::AcquireLate, &["late"]),
            (Counter::AcquireInterrupted, &["interrupted"]),
            (Counter::AcquireFailed, &["failed"]),
        ],
    ),
    counters(
        "redis_lease_contention_total",
        "Calls of acquire() that found the lock held by another owner when they first looked.",
        &[],
        &[(Counter::Contention, &[])],
    ),
    histogram(
        "redis_lease_wait_seconds",
        "How long calls of acquire() waited that found the lock held and had time to wait.",
        Histogram::Wait,
    ),
    counters(
        "redis_lease_wakeups_total",
        "Ends of a waiter's sleep: a release handed it the lock, its time to look was up, or neither.",
        &["source"],
        &[
            (Counter::WokenBySignal, &["signal"]),
            (Counter::WokenByTimer, &["timer"]),
            (Counter::WokenForNothing, &["spurious"]),
        ],
    ),
    histogram("redis_lease_hold_seconds", "How long leases were held, from the grant to the release.", Histogram::Hold),
    histogram(
        "redis_lease_validity_left_ratio",
        "What was left of a lease's validity when it was released, as a share of the whole.",
        Histogram::ValidityLeft,
    ),
    counters(
        "redis_lease_releases_total",
        "Releases of a lease, by how they ended.",
        &["outcome"],
        &[
            (Counter::Released, &["released"]),
            (Counter::ReleaseLost, &["lost"]),
            (Counter::ReleaseUnavailable, &["unavailable"]),
            (Counter::ReleaseUnknown, &["unknown"]),
            (Counter::ReleaseRefused, &["refused"]),
        ],
    ),
    counters(
        "redis_lease_renewals_total",
        "Renewals of a lease, by who asked and how they ended.",
        &["by", "outcome"],
        &[
            (Counter::RenewedByCaller, &["caller", "renewed"]),
            (Counter::LostAtCaller, &["caller", "lost"]),
            (Counter::FailedAtCaller, &["caller", "failed"]),
            (Counter::RenewedByThread, &["thread", "renewed"]),
            (Counter::LostAtThread, &["thread", "lost"]),
            (Counter::FailedAtThread, &["thread", "failed"]),
        ],
    ),
    histogram(
        "redis_lease_renewal_lag_seconds",
        "How long after it was due an automatic renewal was sent.",
        Histogram::RenewalLag,
    ),
    counters(
        "redis_lease_losses_total",
        "Leases that ended without their owner's doing, by how. Each is counted once.",
        &["cause"],
        &[
            (Counter::Expired, &["expired"]),
            (Counter::Deleted, &["deleted"]),
            (Counter::Taken, &["taken"]),
            (Counter::Unreachable, &["unreachable"]),
            (Counter::MaxHold, &["max_hold"]),
            (Counter::LostUntold, &["unknown"]),
        ],
    ),
    counters(
        "redis_lease_aborts_total",
        "LeaseLostExceptions that interrupted running code, by abortOnLoss.",
        &[],
        &[(Counter::Aborted, &[])],
    ),
    counters(
        "redis_lease_unknown_outcomes_total",
        "Calls whose command got no answer: settled by sending it again, reported to the caller, settled by a later release of what was reported.",
        &["resolution"],
        &[
            (Counter::UnknownResent, &["resent"]),
            (Counter::UnknownReported, &["reported"]),
            (Counter::UnknownReleased, &["released"]),
        ],
    ),
    counters(
        "redis_lease_retries_total",
        "Further tries within one call: after a missing answer, of a waiter during an outage, after a collision on several nodes.",
        &["reason"],
        &[
            (Counter::RetryUnanswered, &["unanswered"]),
            (Counter::RetryOutage, &["outage"]),
            (Counter::RetrySplit, &["split"]),
        ],
    ),
    per_server(
        "redis_lease_node_answers_total",
        "Answers that a server gave.",
        &["node"],
        &[(PerServer::Answers, &[])],
        Servers::All,
    ),
    per_server(
        "redis_lease_node_connects_total",
        "Connections made to a server.",
        &["node"],
        &[(PerServer::Connects, &[])],
        Servers::All,
    ),
    per_server(
        "redis_lease_node_reconnects_total",
        "Connections for commands that took the place of an earlier one.",
        &["node"],
        &[(PerServer::Reconnects, &[])],
        Servers::All,
    ),
    per_server(
        "redis_lease_node_errors_total",
        "What failed at a server.",
        &["node", "kind"],
        &[
            (PerServer::ResolveFailed, &["resolve"]),
            (PerServer::ConnectFailed, &["connect"]),
            (PerServer::TlsFailed, &["tls"]),
            (PerServer::LoginFailed, &["login"]),
            (PerServer::TimedOut, &["timeout"]),
            (PerServer::Closed, &["closed"]),
            (PerServer::Protocol, &["protocol"]),
            (PerServer::Refused, &["refused"]),
            (PerServer::NoPrimary, &["no_primary"]),
        ],
        Servers::All,
    ),
    per_server(
        "redis_lease_node_votes_total",
        "What each of several independent nodes said when it was asked for a lock; absent: it was not asked.",
        &["node", "vote"],
        &[
            (PerServer::VoteGranted, &["granted"]),
            (PerServer::VoteHeld, &["held"]),
            (PerServer::VoteRefused, &["refused"]),
            (PerServer::VoteSilent, &["silent"]),
            (PerServer::VoteAbsent, &["absent"]),
        ],
        Servers::Used,
    ),
    per_prefix(
        "redis_lease_prefix_acquires_total",
        "Leases granted on resources with a prefix of redis_lease.metrics_prefixes.",
        PerPrefix::Acquired,
        Unit::Events,
    ),
    per_prefix(
        "redis_lease_prefix_contention_total",
        "Calls of acquire() for such a resource that found the lock held by another owner when they first looked.",
        PerPrefix::Contention,
        Unit::Events,
    ),
    per_prefix(
        "redis_lease_prefix_wait_seconds_total",
        "Time that callers waited for such a resource.",
        PerPrefix::Wait,
        Unit::Nanoseconds,
    ),
    per_prefix(
        "redis_lease_prefix_hold_seconds_total",
        "Time for which such resources were held, until their release.",
        PerPrefix::Hold,
        Unit::Nanoseconds,
    ),
    per_prefix(
        "redis_lease_prefix_losses_total",
        "Leases on such resources that ended without their owner's doing.",
        PerPrefix::Losses,
        Unit::Events,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::numbers::{COUNTERS, HISTOGRAMS, PER_PREFIX, PER_SERVER};

    #[test]
    fn every_number_is_told_in_one_place() {
        let (mut counters, mut per_server, mut per_prefix) = (Vec::new(), Vec::new(), Vec::new());
        let mut histograms = Vec::new();
        for family in FAMILIES {
            match family.numbers {
                Numbers::Counters(numbers) => {
                    assert!(numbers.iter().all(|(_, values)| values.len() == family.labels.len()), "{}", family.name);
                    counters.extend(numbers.iter().map(|(counter, _)| *counter as usize));
                }
                Numbers::Histogram(histogram) => histograms.push(histogram as usize),
                Numbers::PerServer(numbers, _) => {
                    assert!(numbers.iter().all(|(_, values)| values.len() + 1 == family.labels.len()));
                    per_server.extend(numbers.iter().map(|(number, _)| *number as usize));
                }
                Numbers::PerPrefix(number, _) => per_prefix.push(number as usize),
            }
        }
        assert!(counters.into_iter().eq(0..COUNTERS) && histograms.into_iter().eq(0..HISTOGRAMS));
        assert!(per_server.into_iter().eq(0..PER_SERVER) && per_prefix.into_iter().eq(0..PER_PREFIX));
    }
}
