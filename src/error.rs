//! What can go wrong, as far as it is known. `php/exceptions.rs` maps it to PHP classes, in one place.

use crate::{
    host::Interrupted,
    net::{Reason, Refusal, dsn::DsnError},
};
use thiserror::Error;

/// A result of ours.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, and what is known about the lock.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The DSN cannot be used.
    #[error(transparent)]
    Dsn(#[from] DsnError),
    /// Nothing was executed.
    #[error("Redis at {node} is unavailable: {reason}")]
    Unavailable {
        /// The server's address.
        node: String,
        /// What failed.
        reason: Reason,
    },
    /// The command was sent, and its outcome could not be found out in time.
    #[error("the outcome of {operation} is unknown: Redis at {node}: {reason}")]
    Unknown {
        /// What was asked for.
        operation: Operation,
        /// The server's address.
        node: String,
        /// Why the answer did not come.
        reason: Reason,
    },
    /// The server answered with an error.
    #[error("Redis at {node} refused {operation}: {refusal}{}", hint(refusal))]
    Refused {
        /// What was asked for.
        operation: Operation,
        /// The server's address.
        node: String,
        /// What it said.
        refusal: Refusal,
    },
    /// Too few of several nodes agreed.
    #[error("{operation} found no majority of the {} nodes: {}", nodes.total, nodes.told.join("; "))]
    NoMajority {
        /// What was asked for.
        operation: Operation,
        /// What that means.
        because: NoMajority,
        /// What each node that did not agree said.
        nodes: NodeReasons,
    },
    /// The lease was granted, but the answer came when it could no longer be relied on; it was given back.
    #[error("the answer took longer than the lease is valid, so the lease was given back")]
    Late,
    /// The host's code (a PHP signal handler, a time limit) ended the wait.
    #[error("the wait was interrupted")]
    Interrupted,
    /// The system gave no random bytes for a token.
    #[error("no random bytes from the system: {0}")]
    Entropy(String),
}

impl From<Interrupted> for Error {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}

/// Why there was no majority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoMajority {
    /// Too few nodes could be reached; what was taken on the others went back.
    Unavailable,
    /// A majority may have done it: too many answers are missing.
    Unknown,
    /// Too many nodes refused; the first refusal.
    Refused(Refusal),
}

/// What several nodes said.
#[derive(Debug)]
pub struct NodeReasons {
    /// How many nodes there are.
    pub total: usize,
    /// `address: reason`, for each that did not agree.
    pub told: Vec<String>,
}

/// What the store was asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Take the lock.
    Acquire,
    /// Extend the lock.
    Renew,
    /// Give the lock back.
    Release,
    /// Say who holds the lock.
    Owner,
    /// Remove whoever's lock it is.
    ForceRelease,
    /// Make the nodes agree on a fence.
    Raise,
    /// Give a sign of life.
    Ping,
    /// Pass a reservation on.
    GiveBack,
    /// End a wait on the server.
    Unblock,
}

impl Operation {
    /// Whether doing it again changes nothing. A second `forceRelease` could hit another owner's lock.
    pub fn is_repeatable(self) -> bool {
        self != Self::ForceRelease
    }

    /// Whether of several nodes each is asked and waited for, also one that has just been silent.
    pub fn is_for_all(self) -> bool {
        matches!(self, Self::ForceRelease | Self::Ping)
    }

    /// Whether nothing is lost when a server that has just been silent is left alone for a moment. What is
    /// owed to a lease that may be ours is always tried.
    pub fn can_be_put_off(self) -> bool {
        matches!(self, Self::Acquire | Self::Owner)
    }
}

impl Error {
    /// Whether the command may have been executed.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::NoMajority { because: NoMajority::Unknown, .. })
    }

    /// Whether the fault may pass by itself, so that a wait goes on through it.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Refused { refusal, .. } | Self::NoMajority { because: NoMajority::Refused(refusal), .. } => {
                is_passing_code(&refusal.code)
            }
            Self::Unavailable { .. } | Self::Unknown { .. } | Self::NoMajority { .. } | Self::Late => true,
            _ => false,
        }
    }
}

/// Refusals of a server that is starting, busy, or no longer the primary; RESTARTED is our own word.
fn is_passing_code(code: &str) -> bool {
    matches!(code, "LOADING" | "BUSY" | "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" | "READONLY" | "RESTARTED")
}

/// What a refusal most likely comes from, to be put behind it.
pub fn hint(refusal: &Refusal) -> &'static str {
    match refusal.code.as_str() {
        "WRONGTYPE" => " (another program uses the key for something else)",
        "OOM" => " (Redis has reached maxmemory)",
        "MISCONF" => " (Redis cannot save to disk and was told to refuse writes then)",
        "NOPERM" => " (the ACL user lacks a command or a key pattern that leases need)",
        "NOAUTH" => " (the DSN has no password)",
        "WRONGPASS" => " (the DSN's user or password is wrong)",
        "READONLY" => " (this server is a replica)",
        _ => "",
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Owner => "owner",
            Self::ForceRelease => "forceRelease",
            Self::Raise => "raising the fence",
            Self::Ping => "ping",
            Self::Unblock => "ending a wait",
            Self::GiveBack => "giving a reservation back",
        })
    }
}
