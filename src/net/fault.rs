//! What went wrong on a link, and the one thing that decides what it means: was the command sent whole?

use super::reply::Refusal;
use crate::metrics::PerServer;
use std::io;
use thiserror::Error;

/// A command that got no answer.
#[derive(Debug, Error)]
#[error("{reason}")]
pub struct Fault {
    /// Whether every byte had left, so that the server may have executed the command.
    pub sent: bool,
    /// What went wrong.
    pub reason: Reason,
}

impl Fault {
    /// A fault before the command had left: it was not executed.
    pub fn unsent(reason: impl Into<Reason>) -> Self {
        Self { sent: false, reason: reason.into() }
    }
}

/// What went wrong on a link.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Reason {
    /// The host name has no address, or the resolver failed.
    #[error("cannot resolve the host name: {0}")]
    Resolve(String),
    /// No address accepted the connection.
    #[error("cannot connect: {0}")]
    Connect(#[source] io::Error),
    /// The connection was not made in time.
    #[error("no connection within the connect time-out ({0})")]
    ConnectTimedOut(&'static str),
    /// The TLS session could not be made.
    #[error("TLS: {0}")]
    Tls(String),
    /// The server did not answer a moment ago, and is left alone for another.
    #[error("{0}; not tried again for a moment")]
    LeftAlone(String),
    /// The answer did not come in time.
    #[error("no answer within the command time-out")]
    TimedOut,
    /// Nobody waited for the answer any longer: the other servers had decided it.
    #[error("no answer yet when the other nodes had decided it")]
    NotAwaited,
    /// The server ended the connection.
    #[error("the server closed the connection")]
    Closed,
    /// The socket failed.
    #[error("the connection failed: {0}")]
    Io(#[source] io::Error),
    /// The peer does not speak Redis's protocol, or spoke out of turn.
    #[error("the peer broke the protocol: {0}")]
    Protocol(String),
    /// The server took the connection and then did not answer the log-in as Redis does.
    #[error("{0} before it answered; if this port speaks TLS, use rediss://")]
    NotGreeted(#[source] Box<Reason>),
    /// The server refused the connection itself: too many clients, protected mode.
    #[error("the server turned the connection away: {0}")]
    TurnedAway(Refusal),
    /// What failed at another server on the way.
    #[error("{0}: {1}")]
    Elsewhere(String, #[source] Box<Reason>),
    /// No sentinel led to a primary.
    #[error("no primary of \"{name}\" was found ({})", listed(reasons))]
    NoPrimary {
        /// What the sentinels call it.
        name: String,
        /// What each way to it failed by.
        reasons: Vec<Reason>,
    },
    /// The sentinel watches over no primary of that name.
    #[error("this sentinel knows no primary of that name")]
    Unwatched,
    /// The server named as the primary says that it is a replica.
    #[error("it is a replica")]
    NotPrimary,
    /// The server refused the log-in or the database.
    #[error("{0}")]
    Refused(Refusal),
}

impl Reason {
    /// What it is counted as; None for what is no fault of the server's, or was counted before.
    pub fn kind(&self) -> Option<PerServer> {
        Some(match self {
            Self::Resolve(_) => PerServer::ResolveFailed,
            Self::Connect(_) => PerServer::ConnectFailed,
            Self::Tls(_) => PerServer::TlsFailed,
            Self::ConnectTimedOut(_) | Self::TimedOut => PerServer::TimedOut,
            Self::Closed | Self::Io(_) => PerServer::Closed,
            Self::Protocol(_) => PerServer::Protocol,
            Self::NotGreeted(inner) | Self::Elsewhere(_, inner) => return inner.kind(),
            Self::TurnedAway(_) => PerServer::Refused,
            Self::Refused(_) => PerServer::LoginFailed,
            Self::NoPrimary { .. } | Self::Unwatched | Self::NotPrimary => PerServer::NoPrimary,
            Self::LeftAlone(_) | Self::NotAwaited => return None,
        })
    }
}

fn listed(reasons: &[Reason]) -> String {
    reasons.iter().map(Reason::to_string).collect::<Vec<_>>().join("; ")
}
