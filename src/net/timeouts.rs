//! How long a call may take: the caller's time-outs, and the budget one call draws from them.

use crate::clock::Moment;
use std::time::Duration;

/// A connection's time-outs, as the caller set them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For making a connection: name resolution, connect, TLS and log-in together.
    pub connect: Duration,
    /// For a command, from its sending to its answer.
    pub command: Duration,
    /// How long an answer may be looked for awake before the process sleeps; zero: not at all.
    pub spin: Duration,
}

/// What one call may still spend: a connect and a command, and never past `end`.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    timeouts: Timeouts,
    is_hurried: bool,
    /// The moment by which the call must have returned.
    pub end: Moment,
}

impl Budget {
    /// A call's full budget, from now on.
    pub fn new(timeouts: Timeouts) -> Self {
        Self { timeouts, is_hurried: false, end: Moment::now() + timeouts.connect + timeouts.command }
    }

    /// The same time-outs, cut off at `end`.
    pub fn until(timeouts: Timeouts, end: Moment) -> Self {
        Self { timeouts, is_hurried: false, end }
    }

    /// The same, but not to be spent on a server that has just been silent: nobody waits for the answer.
    pub fn hurried(self) -> Self {
        Self { is_hurried: true, ..self }
    }

    /// Whether a server that has just been silent is to be passed over.
    pub fn is_hurried(&self) -> bool {
        self.is_hurried
    }

    /// What one of several questions in it may spend: a connect and a command from now on.
    pub fn one(self) -> Self {
        self.at_most(self.timeouts.connect + self.timeouts.command)
    }

    /// The same, but over after `span` at the latest.
    pub fn at_most(self, span: Duration) -> Self {
        Self { end: self.end.min(Moment::now() + span), ..self }
    }

    /// The longest time from the sending of a command to its answer.
    pub fn command(&self) -> Duration {
        self.timeouts.command
    }

    /// How long to look for an answer before sleeping.
    pub fn spin(&self) -> Duration {
        self.timeouts.spin
    }

    /// When a connect that starts now must be done.
    pub fn connect_by(&self) -> Moment {
        self.end.min(Moment::now() + self.timeouts.connect)
    }

    /// When a command sent now must be answered.
    pub fn command_by(&self) -> Moment {
        self.end.min(Moment::now() + self.timeouts.command)
    }
}
