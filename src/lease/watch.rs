//! What one call of `acquire()` shows the metrics.

use super::acquire::{Attempt, Taken};
use crate::{
    clock::Moment,
    error::{Error, NoMajority, Result},
    metrics::{self, Counter, Histogram, PerPrefix, Prefix},
    store::Released,
};

/// One call, from its first look to its end.
pub struct Watch {
    prefix: Prefix,
    /// Whether it has time to wait.
    waits: bool,
    /// When the lock was first found with somebody else.
    contended_at: Option<Moment>,
    /// Why the latest sleep ended, until it is seen what came of it.
    woken: Option<Counter>,
    /// The latest attempt went unanswered.
    is_unanswered: bool,
}

impl Watch {
    /// A call that begins.
    pub fn new(prefix: Prefix, waits: bool) -> Self {
        Self { prefix, waits, contended_at: None, woken: None, is_unanswered: false }
    }

    /// What came of an attempt.
    pub fn saw(&mut self, attempt: &Result<Attempt>) {
        let is_held = matches!(attempt, Ok(Attempt::Held { .. }));
        match self.woken.take() {
            Some(Counter::WokenBySignal) if !is_held => metrics::count(Counter::WokenForNothing),
            Some(woken) => metrics::count(woken),
            None => {}
        }
        match attempt {
            Ok(attempt) => {
                if std::mem::take(&mut self.is_unanswered) {
                    metrics::count(Counter::UnknownResent);
                }
                if !is_held && self.contended_at.is_none() {
                    self.contended_at = Some(Moment::now());
                    if matches!(attempt, Attempt::Contended(_)) {
                        metrics::count(Counter::Contention);
                        self.prefix.count(PerPrefix::Contention);
                    }
                }
            }
            Err(error) => self.is_unanswered |= error.is_unknown(),
        }
    }

    /// A sleep that was to last until then has ended, and the lock was handed over or not.
    pub fn woke(&mut self, was_handed: bool, until: Moment) {
        self.woken = Some(match was_handed {
            true => Counter::WokenBySignal,
            false if until.is_past() => Counter::WokenByTimer,
            false => Counter::WokenForNothing,
        });
    }

    /// The call has ended.
    pub fn end(self, result: &Result<Taken>) {
        if let (true, Some(since)) = (self.waits, self.contended_at) {
            let waited = Moment::now().since(since);
            metrics::observe(Histogram::Wait, waited);
            self.prefix.spend(PerPrefix::Wait, waited);
        }
        metrics::count(match result {
            Ok(Taken::New) => {
                self.prefix.count(PerPrefix::Acquired);
                Counter::Acquired
            }
            Ok(Taken::Extended) => Counter::Extended,
            Ok(Taken::No) => Counter::AcquireContended,
            Err(Error::Late) => Counter::AcquireLate,
            Err(Error::Interrupted) => Counter::AcquireInterrupted,
            Err(error) => match fate(error) {
                Fate::Unavailable => Counter::AcquireUnavailable,
                Fate::Unknown => Counter::AcquireUnknown,
                Fate::Refused => Counter::AcquireRefused,
                Fate::Failed => Counter::AcquireFailed,
            },
        });
    }
}

/// Counts a release that ended so.
pub fn released(result: &Result<Released>) {
    metrics::count(match result {
        Ok(Released::Ours) => Counter::Released,
        Ok(Released::Lost(_)) => Counter::ReleaseLost,
        Err(error) => match fate(error) {
            Fate::Unknown => Counter::ReleaseUnknown,
            Fate::Refused => Counter::ReleaseRefused,
            Fate::Unavailable | Fate::Failed => Counter::ReleaseUnavailable,
        },
    });
}

/// Counts a renewal that a caller asked for.
pub fn renewed(result: &Result<bool>) {
    metrics::count(match result {
        Ok(true) => Counter::RenewedByCaller,
        Ok(false) => Counter::LostAtCaller,
        Err(_) => Counter::FailedAtCaller,
    });
}

enum Fate {
    Unavailable,
    Unknown,
    Refused,
    Failed,
}

fn fate(error: &Error) -> Fate {
    match error {
        _ if error.is_unknown() => Fate::Unknown,
        Error::Refused { .. } | Error::NoMajority { because: NoMajority::Refused(_), .. } => Fate::Refused,
        Error::Unavailable { .. } | Error::NoMajority { .. } | Error::NotReplicated { .. } => Fate::Unavailable,
        _ => Fate::Failed,
    }
}
