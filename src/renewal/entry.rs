//! One lease that is renewed: what came of its renewals, and what its owner's program is to be told.

use super::{
    Bell,
    schedule::{Schedule, Step},
};
use crate::{
    clock::Moment,
    error::Result,
    loss::Loss,
    metrics::{self, Counter, Histogram, Prefix},
    net::Timeouts,
    store::{self, Keys, Renewed, Standing, jittered},
};
use std::{sync::Arc, time::Duration};

/// What stays the same about a lease.
pub struct Lease {
    /// Where its lock is kept.
    pub dsn: String,
    /// Its keys.
    pub keys: Keys,
    /// What owns it.
    pub token: Vec<u8>,
    /// For one renewal.
    pub timeouts: Timeouts,
}

/// One lease that is renewed, or was and has not been given up.
pub struct Entry {
    pub lease: Arc<Lease>,
    pub schedule: Schedule,
    pub fence: u64,
    pub phase: Phase,
    pub bell: Option<Bell>,
    /// When to ring it again.
    pub again: Option<Moment>,
    /// Its loss is counted.
    pub is_counted: bool,
}

/// How far it has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It is renewed.
    Kept,
    /// Its owner is about to give it back.
    Suspended,
    /// Lost, and whether its owner's program is still to be told.
    Over(Loss, bool),
}

/// One renewal.
pub struct Task {
    /// Of what.
    pub lease: Arc<Lease>,
    /// What is known of it.
    pub standing: Standing,
    /// To which TTL.
    pub ttl: Duration,
    /// How long one sending may take.
    pub patience: Duration,
}

impl Entry {
    /// What a renewal of it at `now` takes.
    pub fn task(&self, now: Moment) -> Task {
        metrics::observe(Histogram::RenewalLag, now.since(self.schedule.next()));
        Task {
            lease: Arc::clone(&self.lease),
            ttl: self.schedule.ttl(),
            standing: Standing::Valid { fence: self.fence, until: self.schedule.valid_until() },
            patience: self.schedule.patience(now),
        }
    }

    /// A renewal of it has ended, at `now`.
    pub fn finished(&mut self, result: Result<Renewed>, now: Moment) {
        if matches!(self.phase, Phase::Over(..)) {
            return;
        }
        metrics::count(match &result {
            Ok(Renewed::Held(_)) => Counter::RenewedByThread,
            Ok(Renewed::Lost(_)) => Counter::LostAtThread,
            Err(_) => Counter::FailedAtThread,
        });
        match (result, self.schedule.step(now)) {
            // A late answer revives nothing: its owner may have read already that the validity is over.
            (Err(_), Step::Lost(loss)) => self.lose(loss.unanswered()),
            (_, Step::Lost(loss)) => self.lose(loss),
            (Ok(Renewed::Held(grant)), _) => {
                self.schedule.confirmed(grant.sent_at);
                self.fence = grant.fence;
            }
            (Ok(Renewed::Lost(found)), _) => self.lose(match found {
                store::Loss::Taken => Loss::Taken,
                store::Loss::Gone => Loss::Deleted,
            }),
            (Err(_), _) => self.schedule.failed(now, jittered),
        }
    }

    /// For good: what comes of a lease that may be another's by now is its owner's to find out.
    pub fn lose(&mut self, loss: Loss) {
        if self.phase == Phase::Kept {
            Loss::count(Some(loss), Prefix::of(self.lease.keys.resource()));
            self.is_counted = true;
        }
        // One that is being given back concerns nobody any more.
        self.phase = Phase::Over(loss, self.bell.is_some() && self.phase == Phase::Kept);
        self.ring();
    }

    fn ring(&self) {
        if let (Phase::Over(_, true), Some(bell)) = (self.phase, &self.bell) {
            bell();
        }
    }

    /// Rings again if that is due at `now`, or says when it will be.
    pub fn ring_again(&mut self, now: Moment) -> Option<Moment> {
        let again = self.again?;
        if now < again {
            return Some(again);
        }
        self.again = None;
        self.ring();
        None
    }
}
