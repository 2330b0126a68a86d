//! How a lease can end without its owner's doing.

use crate::{
    clock::Moment,
    metrics::{self, Counter, PerPrefix, Prefix},
    store,
};
use std::fmt;

/// Why a lease is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its validity ended before it was extended.
    Expired,
    /// Its key went away before it can have expired: somebody deleted it, or Redis lost its data.
    Deleted,
    /// Another owner has the lock.
    Taken,
    /// It could not be renewed before its validity ended: Redis was away, or refused.
    Unreachable,
    /// It was held for as long as it may be renewed automatically.
    MaxHold,
}

impl Loss {
    /// What the absence of a lock means whose lease was valid until then; None where nobody can know.
    pub fn found(found: store::Loss, valid_until: Option<Moment>) -> Option<Self> {
        match (found, valid_until) {
            (store::Loss::Taken, _) => Some(Self::Taken),
            (store::Loss::Gone, Some(end)) if end.is_past() => Some(Self::Expired),
            (store::Loss::Gone, Some(_)) => Some(Self::Deleted),
            (store::Loss::Gone, None) => None,
        }
    }

    /// The same, of a lease whose renewal was under way and not answered when its validity ended.
    pub fn unanswered(self) -> Self {
        if self == Self::Expired { Self::Unreachable } else { self }
    }

    /// Counts a lease that was lost, in this way if that is known.
    pub fn count(loss: Option<Self>, prefix: Prefix) {
        prefix.count(PerPrefix::Losses);
        metrics::count(match loss {
            Some(Self::Expired) => Counter::Expired,
            Some(Self::Deleted) => Counter::Deleted,
            Some(Self::Taken) => Counter::Taken,
            Some(Self::Unreachable) => Counter::Unreachable,
            Some(Self::MaxHold) => Counter::MaxHold,
            None => Counter::LostUntold,
        });
    }

    /// The word for it in PHP.
    pub fn word(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Deleted => "deleted",
            Self::Taken => "taken",
            Self::Unreachable => "unreachable",
            Self::MaxHold => "max_hold",
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "it expired",
            Self::Deleted => "its key was deleted",
            Self::Taken => "another owner has taken the lock",
            Self::Unreachable => "it could not be renewed before its validity ended",
            Self::MaxHold => "it was held for redis_lease.max_hold, and is not renewed any more",
        })
    }
}
