//! Speaks the lock protocol to Redis: what is asked of a store, and what it answers.
//!
//! A store finds out what happened or says that it could not; what that means for a lease is decided
//! in `lease/`.

mod cluster;
mod follow;
mod keys;
mod member;
mod node;
mod outage;
mod pool;
mod probe;
mod protocol;
mod queue;
mod quorum;
mod replicas;
mod round;
mod script;
mod seat;
mod servers;
mod single;
mod verdict;

pub use cluster::Cluster;
pub use keys::{Keys, slot};
pub use node::jittered;
pub use pool::{close_all, open};
pub use quorum::Quorum;
pub use servers::{One, Servers};
pub use single::Single;

use crate::{
    clock::Moment,
    error::Result,
    host::{Host, Interrupted},
    net::{Budget, Timeouts},
};
use std::time::Duration;

/// Computes what the first renewal would: a fork must not find another thread at it, half done for ever.
pub fn prepare_renewal() {
    for script in [&script::RENEW, &script::RAISE, &script::ACQUIRE] {
        script.digest();
    }
}

/// Where locks are kept: one server, or several independent ones, behind the same questions.
pub trait Store {
    /// Takes the lock, or says who is in the way. Asking again with the same token changes nothing.
    fn acquire(&self, keys: &Keys, claim: &Claim<'_>, budget: Budget) -> Result<Claimed>;
    /// Extends the lock while `token` owns it. Never creates it, never shortens it.
    fn renew(&self, keys: &Keys, token: &[u8], standing: Standing, ttl: Duration, budget: Budget) -> Result<Renewed>;
    /// Renews several locks, in one round trip to each server where that is possible; the answers in their order.
    fn renew_all(&self, renewals: &[Renewal<'_>], budget: Budget) -> Vec<Result<Renewed>> {
        renewals.iter().map(|one| self.renew(one.keys, one.token, one.standing, one.ttl, budget)).collect()
    }
    /// Gives the lock back if `token` owns it. Asking again within `memory` gives the same answer.
    fn release(&self, keys: &Keys, token: &[u8], memory: Memory, budget: Budget) -> Result<Released>;
    /// The token of the present owner.
    fn owner(&self, keys: &Keys, budget: Budget) -> Result<Option<Vec<u8>>>;
    /// Removes the lock, whoever's it is; false when there was none.
    fn force_release(&self, keys: &Keys, budget: Budget) -> Result<bool>;
    /// Whether locks may come to another server while one waits, so that it is looked more often.
    fn can_move(&self) -> bool {
        false
    }
    /// A place in the line of those who wait for the lock, until `deadline`; not taken yet.
    fn line(&self, keys: &Keys, timeouts: Timeouts, deadline: Moment) -> Box<dyn Line>;
    /// Passes a reservation on that cannot be used.
    fn give_back(&self, keys: &Keys, reservation: &[u8], budget: Budget) -> Result<()>;
    /// Asks each node for a sign of life: its address, and the round trip or what is wrong.
    fn ping(&self, budget: Budget) -> Signs;
    /// Closes the connections; the next question opens them again.
    fn close(&self);
}

/// What `ping()` tells: a server's address, and the round trip or what is wrong.
pub type Signs = Vec<(String, std::result::Result<Duration, String>)>;

/// A place in the line of those who wait for a lock.
pub trait Line {
    /// Waits until a release hands over its reservation, or until `until`; it may also end earlier, with
    /// nothing, when it is time to try again.
    fn wait(&mut self, until: Moment, host: &dyn Host) -> std::result::Result<Option<Vec<u8>>, Interrupted>;
    /// Gives the place up, after a last look for a reservation.
    fn leave(&mut self) -> Option<Vec<u8>>;
}

/// An attempt to take a lock.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// Unique to the attempt.
    pub token: &'a [u8],
    /// How long the lock lives without a renewal.
    pub ttl: Duration,
    /// Whether the caller waits if somebody else has it.
    pub waits: bool,
    /// The reservation that a release handed to the caller.
    pub reservation: Option<&'a [u8]>,
}

/// How long a release is remembered, so that it can be asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// As long as the lock had still to live: that is known to be enough. Costs the server nothing.
    LockLife,
    /// So long.
    For(Duration),
    /// So long as a command that takes the lock with this token may be under way, and refuses it.
    ForGood,
}

/// One of several renewals.
#[derive(Clone, Copy, Debug)]
pub struct Renewal<'a> {
    /// The lock's keys.
    pub keys: &'a Keys,
    /// Whose lock it must be.
    pub token: &'a [u8],
    /// What is known of the lease.
    pub standing: Standing,
    /// From now on, at least.
    pub ttl: Duration,
}

/// What the caller of a renewal knows of its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has this fence, and is valid until then.
    Valid {
        /// The fence.
        fence: u64,
        /// The end of the validity.
        until: Moment,
    },
    /// Its validity is over: others may have had the lock since, on a server that forgot it, so the fence
    /// begins anew.
    Over,
    /// Nothing: the token is from elsewhere.
    Untold,
}

/// The answer to an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// What came of it.
    pub outcome: Outcome,
    /// Whether an earlier sending of the same claim went unanswered: it may still arrive.
    pub may_arrive_again: bool,
}

/// What came of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The lock is ours.
    Held(Grant),
    /// Another owner has it, for so long at most if nobody renews; None: nobody knows how long, since it
    /// has no TTL or is kept for a waiter.
    Contended(Option<Duration>),
    /// Nobody has it: several tried at once, and each got some of the nodes. What this one got went back.
    Split,
    /// The token was released for good before.
    Dead,
}

/// A lock that is ours, as the server confirmed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The fence of this ownership.
    pub fence: u64,
    /// When the command that was answered had been sent: the TTL runs from there.
    pub sent_at: Moment,
}

/// The answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// Still ours, and extended.
    Held(Grant),
    /// No longer ours.
    Lost(Loss),
}

/// The answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The lock was ours, and this token gave it back.
    Ours,
    /// It was no longer ours.
    Lost(Loss),
}

/// What was found in place of our lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Nothing: it expired, or somebody deleted it.
    Gone,
    /// Another owner's lock.
    Taken,
}
