//! One question to all nodes at once, in one poll loop, until enough of them have answered. A slow node
//! is never waited for longer than the others need; it is left out while its answers are outstanding.

use super::{
    member::{Ask, Member},
    probe::Identity,
    seat::{Ballot, Seat},
};
use crate::{
    clock::Moment,
    error::Operation,
    net::{
        Reason, Refusal,
        poll::{self, Interest, Woken},
    },
};
use std::{cell::RefCell, time::Duration};

/// The nodes, and what they know of each other.
pub struct Nodes {
    /// In the order of the DSN.
    pub members: Vec<Member>,
    /// The run ids that the servers told, to find one that has two addresses.
    run_ids: RefCell<Vec<Option<String>>>,
    restart_guard: Duration,
    tickets: u64,
}

/// How far a round has come for one node.
#[derive(Clone, Copy)]
pub enum View<'a> {
    /// It is still under way.
    Pending,
    /// This came of it.
    Done(&'a Ballot),
}

/// The first ticket of a round: lower ones are the members' own.
const FIRST_TICKET: u64 = 16;
/// A decided round waits for so small a part of the time that it took, until its question has left to all.
const GRACE: u32 = 4;
/// Spinning would take the processors from the servers; so would looking too often.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

impl Nodes {
    /// Nodes not connected to yet.
    pub fn new(members: Vec<Member>, restart_guard: Duration) -> Self {
        let run_ids = RefCell::new(vec![None; members.len()]);
        Self { members, run_ids, restart_guard, tickets: FIRST_TICKET }
    }

    /// The number of nodes that decides.
    pub fn majority(&self) -> usize {
        self.members.len() / 2 + 1
    }

    /// Asks all nodes that a majority needs or that are not known to be slow, until `is_decided` or until
    /// every answer has come or its time is up. What came of it for each node is in the order of the nodes.
    /// The round's ticket tells later which nodes still owe the answer.
    pub fn ask<'a>(
        &mut self,
        ask: impl Fn(usize, u64) -> Ask<'a>,
        is_decided: impl Fn(&[View<'_>]) -> bool,
    ) -> (Vec<Ballot>, u64) {
        self.tickets += 1;
        let ticket = self.tickets;
        let asks: Vec<Ask<'a>> = (0..self.members.len()).map(|place| ask(place, ticket)).collect();
        self.look();
        let spares = !asks.iter().any(|ask| ask.request.operation().is_for_all());
        let mut seats = self.seats(spares);
        let start = Moment::now();
        let mut grace: Option<Moment> = None;
        let mut interests = vec![Interest::NONE; seats.len()];
        loop {
            let mut wake_by: Option<Moment> = None;
            for (place, seat) in seats.iter_mut().enumerate() {
                let (Some(member), Some(ask), Some(interest)) =
                    (self.members.get_mut(place), asks.get(place), interests.get_mut(place))
                else {
                    continue;
                };
                let admit = |identity: &Identity| {
                    admit(&self.run_ids, place, identity, ask.request.operation(), self.restart_guard)
                };
                seat.go_on(member, ask, interest.read || interest.write, &admit);
                *interest = if seat.listens() { member.interest() } else { Interest::NONE };
                if let Some(moment) = seat.wake_by(member, ask) {
                    wake_by = Some(wake_by.map_or(moment, |earliest| earliest.min(moment)));
                }
            }
            let views: Vec<View<'_>> =
                seats.iter().map(|seat| seat.ballot().map_or(View::Pending, View::Done)).collect();
            let Some(mut wake_by) = wake_by else { break };
            if is_decided(&views) {
                // Whom the question has not reached yet has a moment more: a copy more is worth that, and no more.
                let lags = seats.iter().zip(&self.members).any(|(seat, member)| seat.is_unsent(member));
                let end = *grace.get_or_insert_with(|| Moment::now() + Moment::now().since(start) / GRACE);
                if !lags || end.is_past() {
                    break;
                }
                wake_by = wake_by.min(end);
            }
            let until = wake_by.min(Moment::now() + LONGEST_SLEEP);
            if poll::sleep_until_ready(&mut interests, until).is_err() {
                // Whatever it was, each socket tells for itself.
                interests.iter_mut().for_each(|interest| interest.read = true);
            }
        }
        (seats.iter_mut().map(Seat::close).collect(), ticket)
    }

    /// Takes up what has arrived since the last round. Above all the end of a link: what is sent on one that a
    /// server has closed looks as if it might have been executed.
    fn look(&mut self) {
        let reading = |member: &Member| Interest { write: false, ..member.interest() };
        let mut interests: Vec<Interest> = self.members.iter().map(reading).collect();
        if let Ok(Woken::Ready) = poll::sleep_until_ready(&mut interests, Moment::now()) {
            let ready = self.members.iter_mut().zip(&interests).filter(|(_, interest)| interest.read);
            ready.for_each(|(member, _)| member.refresh());
        }
    }

    /// A part for each node: where some may be spared, an empty one for who is slow or was silent just now, if
    /// a majority is left.
    fn seats(&mut self, spares: bool) -> Vec<Seat> {
        let left_out: Vec<Option<Reason>> = self.members.iter_mut().map(Member::left_out).collect();
        let in_reach = left_out.iter().filter(|reason| reason.is_none()).count();
        let is_enough = spares && in_reach >= self.majority();
        let seat = |reason: Option<Reason>| match reason {
            Some(reason) if is_enough => Seat::empty(reason),
            _ => Seat::new(),
        };
        left_out.into_iter().map(seat).collect()
    }
}

/// A server counts once, whatever its addresses, and one that has just started grants nothing new.
fn admit(
    run_ids: &RefCell<Vec<Option<String>>>,
    place: usize,
    identity: &Identity,
    operation: Operation,
    restart_guard: Duration,
) -> Result<(), Refusal> {
    if let Some(mine) = &identity.run_id {
        let mut run_ids = run_ids.borrow_mut();
        if let Some(twin) = run_ids.iter().position(|id| id.as_ref() == Some(mine)).filter(|twin| *twin != place) {
            return Err(refusal("SAMENODE", format!("the same server as node {} of the DSN", twin + 1)));
        }
        if let Some(known) = run_ids.get_mut(place).filter(|known| known.as_ref() != Some(mine)) {
            *known = Some(mine.clone());
        }
    }
    if restart_guard.is_zero() || operation != Operation::Acquire {
        return Ok(());
    }
    match (identity.started, &identity.silence) {
        (Some(age), _) if age.now() >= restart_guard => Ok(()),
        (Some(age), _) => {
            let left = restart_guard.saturating_sub(age.now()).as_secs_f64();
            Err(refusal("RESTARTED", format!("it started too short ago, and grants nothing for {left:.1} s yet")))
        }
        (None, told) => {
            let told = told.as_deref().unwrap_or("INFO has no uptime_in_seconds");
            Err(refusal("RESTARTED", format!("restart_guard cannot be kept, since it does not tell its age: {told}")))
        }
    }
}

/// A refusal of ours in a server's stead.
fn refusal(code: &str, message: String) -> Refusal {
    Refusal { code: code.to_owned(), message: format!("{code} {message}") }
}
