//! What the ballots of a round add up to.

use super::{
    Loss, Outcome, Released,
    member::Member,
    protocol::{self, Claimed, Extended},
    seat::Ballot,
};
use crate::{
    clock::Moment,
    error::{Error, NoMajority, NodeReasons, Operation, hint},
    metrics::PerServer,
};
use std::time::Duration;

/// How many of so many nodes decide.
pub fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// The ballots so far.
pub struct Tally<'a> {
    ballots: Vec<&'a Ballot>,
    nodes: usize,
}

impl<'a> Tally<'a> {
    /// Counts these, None for each that is still to come, of so many nodes.
    pub fn new(ballots: impl Iterator<Item = Option<&'a Ballot>>, nodes: usize) -> Self {
        Self { ballots: ballots.flatten().collect(), nodes }
    }

    fn majority(&self) -> usize {
        majority(self.nodes)
    }

    fn pending(&self) -> usize {
        self.nodes - self.ballots.len()
    }

    /// How many of the ballots are of that kind.
    fn count(&self, is: impl Fn(&Ballot) -> bool) -> usize {
        self.ballots.iter().filter(|ballot| is(ballot)).count()
    }

    /// Whether a majority is of that kind, or none can be any more.
    pub fn is_settled(&self, is: impl Fn(&Ballot) -> bool) -> bool {
        let count = self.count(is);
        count >= self.majority() || count + self.pending() < self.majority()
    }

    /// Whether a majority says yes, or so many say no that it cannot, or neither can be any more.
    pub fn is_answered(&self, yes: impl Fn(&Ballot) -> bool, no: impl Fn(&Ballot) -> bool) -> bool {
        let (yes, no, pending) = (self.count(yes), self.count(no), self.pending());
        let enough = self.nodes - self.majority() + 1;
        yes >= self.majority() || no >= enough || yes + pending < self.majority() && no + pending < enough
    }

    /// Whether a majority granted the lock, or none can and others are known to be the reason.
    pub fn is_claimed(&self) -> bool {
        let granted = self.count(|ballot| fence(ballot).is_some());
        let is_refused = |ballot: &Ballot| matches!(ballot, Ballot::Answered(..)) && fence(ballot).is_none();
        let is_lost = granted + self.pending() < self.majority();
        granted >= self.majority() || is_lost && granted + self.count(is_refused) >= self.majority()
    }

    /// Whether it is clear who owns the lock.
    pub fn is_owner_clear(&self) -> bool {
        owner_of(&self.ballots, self.nodes).is_some()
    }
}

/// The fence of a grant.
pub fn fence(ballot: &Ballot) -> Option<u64> {
    grant(ballot).map(|(fence, _)| fence)
}

/// A grant: its fence, and when it had been asked for.
pub fn grant(ballot: &Ballot) -> Option<(u64, Moment)> {
    let Ballot::Answered(reply, sent_at) = ballot else { return None };
    match protocol::claimed(reply)? {
        Claimed::Granted(fence) => Some((fence, *sent_at)),
        _ => None,
    }
}

/// The answer to a renewal or to a fence that was raised.
pub fn extended(ballot: &Ballot) -> Option<Extended> {
    if let Ballot::Answered(reply, _) = ballot { protocol::extended(reply) } else { None }
}

/// A renewal: the fence, and when it had been asked for.
pub fn renewal(ballot: &Ballot) -> Option<(u64, Moment)> {
    match (extended(ballot)?, ballot) {
        (Extended::Held(fence), Ballot::Answered(_, sent_at)) => Some((fence, *sent_at)),
        _ => None,
    }
}

/// The answer to a release.
pub fn freed(ballot: &Ballot) -> Option<Released> {
    if let Ballot::Answered(reply, _) = ballot { protocol::freed(reply) } else { None }
}

/// What is found in place of a lock that so many nodes lack that the others are no majority; None: fewer do.
pub fn loss(ballots: &[Ballot], loss_of: impl Fn(&Ballot) -> Option<Loss>) -> Option<Loss> {
    let losses: Vec<Loss> = ballots.iter().filter_map(loss_of).collect();
    let is_lost = losses.len() > ballots.len() - majority(ballots.len());
    is_lost.then(|| if losses.contains(&Loss::Taken) { Loss::Taken } else { Loss::Gone })
}

/// Whether a forced release found a lock.
pub fn force_freed(ballot: &Ballot) -> Option<bool> {
    if let Ballot::Answered(reply, _) = ballot { protocol::force_freed(reply) } else { None }
}

/// The owner that a node knows; None within: it is free there.
pub fn owner(ballot: &Ballot) -> Option<Option<Vec<u8>>> {
    let Ballot::Answered(reply, _) = ballot else { return None };
    protocol::owner(reply.clone()).ok()
}

/// The owner that a majority of so many nodes knows; None within: there is none, None: too few answered to tell.
pub fn owner_of(ballots: &[&Ballot], nodes: usize) -> Option<Option<Vec<u8>>> {
    let majority = majority(nodes);
    let owners: Vec<Option<Vec<u8>>> = ballots.iter().filter_map(|ballot| owner(ballot)).collect();
    let count = |one: &Option<Vec<u8>>| owners.iter().filter(|other| *other == one).count();
    if let Some(owner) = owners.iter().find(|one| one.is_some() && count(one) >= majority) {
        return Some(owner.clone());
    }
    // Those who did not answer may all know the same owner.
    let untold = nodes - owners.len();
    let most = owners.iter().filter(|one| one.is_some()).map(count).max().unwrap_or(0);
    (most + untold < majority).then_some(None)
}

/// Whether a majority may have granted it, for all we know.
pub fn may_have(ballots: &[Ballot], granted: usize, majority: usize) -> bool {
    granted + ballots.iter().filter(|ballot| matches!(ballot, Ballot::Unanswered(_))).count() >= majority
}

/// The outcome when others hold the lock; None when that cannot be said.
pub fn contention(ballots: &[Ballot], majority: usize) -> Option<Outcome> {
    let mut granted = 0;
    let mut reserved = 0;
    let mut dead = 0;
    let mut left: Vec<Option<Duration>> = Vec::new();
    for ballot in ballots {
        let Ballot::Answered(reply, _) = ballot else { continue };
        match protocol::claimed(reply) {
            Some(Claimed::Granted(_)) => granted += 1,
            Some(Claimed::Held(span)) => left.push(span),
            Some(Claimed::Reserved) => reserved += 1,
            Some(Claimed::Dead) => dead += 1,
            None => {}
        }
    }
    if may_have(ballots, granted, majority) || granted + left.len() + reserved + dead < majority {
        return None;
    }
    Some(match () {
        () if dead > 0 => Outcome::Dead,
        // Others were granted it elsewhere, or are about to be: nobody may have a majority.
        () if granted > 0 => Outcome::Split,
        // So many must expire before a majority is free; those without a TTL come last.
        () => {
            left.sort_by_key(|span| span.unwrap_or(Duration::MAX));
            let free = ballots.len() - left.len();
            let needed = majority.saturating_sub(free);
            let last = left.get(needed.saturating_sub(1)).copied().flatten();
            Outcome::Contended(if reserved > 0 && needed == 0 { None } else { last })
        }
    })
}

/// As what a ballot is counted: a vote, if it was about who gets the lock, and what failed. That an answer came is
/// counted where it is read.
pub fn counted(ballot: &Ballot, operation: Operation) -> impl Iterator<Item = PerServer> {
    let (vote, fault) = match ballot {
        Ballot::Answered(..) if fence(ballot).is_some() => (PerServer::VoteGranted, None),
        Ballot::Answered(..) => (PerServer::VoteHeld, None),
        Ballot::Refused(_) => (PerServer::VoteRefused, None),
        Ballot::Unasked(reason) => (PerServer::VoteAbsent, reason.kind()),
        Ballot::Unanswered(reason) => (PerServer::VoteSilent, reason.kind()),
    };
    (operation == Operation::Acquire).then_some(vote).into_iter().chain(fault)
}

/// Why a node's ballot is none for us.
pub fn reason(ballot: &Ballot) -> String {
    match ballot {
        Ballot::Answered(reply, _) => match (protocol::claimed(reply), extended(ballot)) {
            (Some(Claimed::Held(_) | Claimed::Reserved), _) => "another owner holds it".into(),
            (Some(Claimed::Dead), _) => "the token was released".into(),
            (_, Some(Extended::Lost(Loss::Taken))) => "another owner holds it".into(),
            (_, Some(Extended::Lost(Loss::Gone))) => "it holds nothing".into(),
            _ => protocol::shape(reply),
        },
        Ballot::Refused(refusal) => format!("{refusal}{}", hint(refusal)),
        Ballot::Unasked(reason) => reason.to_string(),
        Ballot::Unanswered(reason) => format!("sent, {reason}"),
    }
}

/// The error of a round in which only `agreed` nodes did what was asked.
pub fn error(operation: Operation, members: &[Member], ballots: &[Ballot], agreed: usize, majority: usize) -> Error {
    let refusals: Vec<_> = ballots
        .iter()
        .filter_map(|ballot| if let Ballot::Refused(refusal) = ballot { Some(refusal) } else { None })
        .collect();
    let was_asked = |ballot: &Ballot| matches!(ballot, Ballot::Answered(..) | Ballot::Unanswered(_));
    let is_refused = refusals.len() > ballots.len() - majority;
    let because = match refusals.first() {
        _ if may_have(ballots, agreed, majority) => NoMajority::Unknown,
        Some(refusal) if is_refused => NoMajority::Refused((*refusal).clone()),
        // What was taken goes back, and what was only looked at has not changed; all else stays done where it was.
        _ if ballots.iter().any(was_asked) && !matches!(operation, Operation::Acquire | Operation::Owner) => {
            NoMajority::Unknown
        }
        _ => NoMajority::Unavailable,
    };
    let nodes = reasons(operation, members, ballots);
    Error::NoMajority { operation, because, nodes, may_arrive_again: false }
}

/// The error of a round after which nobody can say whether a majority has it.
pub fn unknown(operation: Operation, members: &[Member], ballots: &[Ballot]) -> Error {
    let nodes = reasons(operation, members, ballots);
    Error::NoMajority { operation, because: NoMajority::Unknown, nodes, may_arrive_again: false }
}

/// Why those nodes that did not do what was asked did not.
fn reasons(operation: Operation, members: &[Member], ballots: &[Ballot]) -> NodeReasons {
    let agrees = |ballot: &Ballot| match operation {
        Operation::Acquire => fence(ballot).is_some(),
        Operation::Release => freed(ballot) == Some(Released::Ours),
        Operation::Owner => owner(ballot).is_some(),
        Operation::ForceRelease => force_freed(ballot).is_some(),
        _ => matches!(extended(ballot), Some(Extended::Held(_))),
    };
    let told = members.iter().zip(ballots).filter(|(_, ballot)| !agrees(ballot));
    let told = told.map(|(member, ballot)| format!("{}: {}", member.endpoint(), reason(ballot))).collect();
    NodeReasons { total: members.len(), told }
}
