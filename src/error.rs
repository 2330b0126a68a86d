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
        /// Whether a command that takes the lock on one of them may still arrive.
        may_arrive_again: bool,
    },
    /// Too few replicas confirmed a grant, so it was given back.
    #[error("{}", not_replicated(node, *wanted, *confirmed, *present))]
    NotReplicated {
        /// The server's address.
        node: String,
        /// How many replicas had to confirm it.
        wanted: u32,
        /// How many did in time.
        confirmed: u32,
        /// How many the server has.
        present: u32,
    },
    /// The lease was granted, but the answer came when it could no longer be relied on; it was given back.
    #[error("the answer took longer than the lease is valid, so the lease was given back")]
    Late,
    /// The host's code (a PHP signal handler, a time limit) ended the wait.
    #[error("the wait was interrupted")]
    Interrupted,
    /// The thread that renews leases could not be started.
    #[error("the thread for automatic renewal cannot be started: {0}")]
    Thread(String),
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
    /// Have replicas confirm a grant.
    Replicate,
    /// Say which server of a cluster owns what.
    Slots,
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

    /// Whether nothing is lost when a server that has just been silent is left alone for a moment. What is
    /// owed to a lease that may be ours is always tried.
    pub fn can_be_put_off(self) -> bool {
        matches!(self, Self::Acquire | Self::Owner | Self::Slots)
    }
}

impl Error {
    /// Whether the command may have been executed.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::NoMajority { because: NoMajority::Unknown, .. })
    }

    /// Whether a claim failed on too many of several nodes, and went back where it had succeeded.
    pub fn was_given_back(&self) -> bool {
        matches!(self, Self::NoMajority { because, .. } if *because != NoMajority::Unknown)
    }

    /// The same, of a claim that may still arrive at a node.
    pub fn owed(self) -> Self {
        match self {
            Self::NoMajority { operation, because, nodes, .. } => {
                Self::NoMajority { operation, because, nodes, may_arrive_again: true }
            }
            other => other,
        }
    }

    /// Whether a claim may still arrive somewhere, so that its token must be released for good.
    pub fn may_arrive_again(&self) -> bool {
        self.is_unknown() || matches!(self, Self::NoMajority { may_arrive_again: true, .. })
    }

    /// Whether the fault may pass by itself, so that a wait goes on through it.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Refused { refusal, .. } | Self::NoMajority { because: NoMajority::Refused(refusal), .. } => {
                is_passing_code(&refusal.code)
            }
            // A server that has too few replicas is set up otherwise than the DSN says: waiting does not help.
            Self::NotReplicated { wanted, present, .. } => present >= wanted,
            Self::Unavailable { .. } | Self::Unknown { .. } | Self::NoMajority { .. } | Self::Late => true,
            _ => false,
        }
    }
}

/// Refusals of a server that is starting, busy, no longer the primary, or not at one with others about who is;
/// RESTARTED is our own word.
fn is_passing_code(code: &str) -> bool {
    let passing = ["LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "MOVED", "ASK", "RESTARTED"];
    passing.contains(&code)
}

fn not_replicated(node: &str, wanted: u32, confirmed: u32, present: u32) -> String {
    if present < wanted {
        return format!("wait_replicas={wanted} cannot be met: Redis at {node} has {present} replicas");
    }
    format!(
        "{confirmed} of the {wanted} replicas that wait_replicas asks for confirmed the grant at {node}, so it was given back"
    )
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
            Self::Replicate => "waiting for replicas",
            Self::Slots => "asking for the cluster's slots",
            Self::Ping => "ping",
            Self::Unblock => "ending a wait",
            Self::GiveBack => "giving a reservation back",
        })
    }
}
