//! A short memory of a server that does not answer: for a moment a call only knocks, and goes on if it
//! is answered at once, so that a dead server costs little and a recovered one is found at once.

use super::jittered;
use crate::{clock::Moment, net::Reason};
use std::time::Duration;

/// What is remembered of a server's silence.
#[derive(Default)]
pub struct Outage {
    silence: Option<Silence>,
}

struct Silence {
    reason: String,
    /// Until then a call only knocks.
    until: Moment,
    /// How long the next pause is.
    next: Duration,
}

/// How long a knock is waited for.
pub const KNOCK: Duration = Duration::from_millis(25);
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(1);

impl Outage {
    /// Notes why the server could not be reached. Only silence is remembered: a refusal came at once, and
    /// cost nothing.
    pub fn note(&mut self, reason: &Reason) {
        if !is_silence(reason) || self.reason().is_some() {
            return;
        }
        let pause = self.silence.as_ref().map_or(SHORTEST, |silence| silence.next);
        self.silence = Some(Silence {
            reason: reason.to_string(),
            until: Moment::now() + jittered(pause),
            next: (pause * 2).min(LONGEST),
        });
    }

    /// The server has answered.
    pub fn end(&mut self) {
        self.silence = None;
    }

    /// Why a call should only knock now, if so.
    pub fn reason(&self) -> Option<Reason> {
        let silence = self.silence.as_ref().filter(|silence| !silence.until.is_past())?;
        Some(Reason::LeftAlone(silence.reason.clone()))
    }
}

fn is_silence(reason: &Reason) -> bool {
    match reason {
        Reason::ConnectTimedOut(_) | Reason::TimedOut => true,
        Reason::Elsewhere(_, inner) => is_silence(inner),
        Reason::NoPrimary { reasons, .. } => reasons.iter().any(is_silence),
        _ => false,
    }
}
