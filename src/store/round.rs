//! One question to all nodes at once, in one poll loop, until enough of them have answered. A slow node
//! is never waited for longer than the others need; it is left out while its answers are outstanding.

use super::{
    member::{Ask, Member},
    outage::KNOCK,
    probe::Identity,
    seat::{Ballot, Seat},
    verdict::{self, Tally},
};
use crate::{
    clock::Moment,
    error::Operation,
    metrics::{self, Counter},
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
    /// Whether a sending of the latest round broke off unanswered: a copy of it may arrive.
    broke_off: bool,
}

/// Whom a round does without.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Without {
    /// Who has been silent, as long as the others can decide.
    TheSilent,
    /// Nobody.
    Nobody,
}

/// The first ticket of a round: lower ones are the members' own.
const FIRST_TICKET: u64 = 16;
/// What a node that is just being connected to gets of a decided round: a lease that only a bare majority has is
/// lost with the next node. A link that a server had closed may have a copy behind it, which a release must find.
const SHORTEST_GRACE: Duration = Duration::from_millis(10);
const LONGEST_GRACE: Duration = Duration::from_millis(25);
/// How long the last answers are awaited when the links are closed.
const LAST_LOOK: Duration = Duration::from_millis(100);
/// Spinning would take the processors from the servers; so would looking too often.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

impl Nodes {
    /// Nodes not connected to yet.
    pub fn new(members: Vec<Member>, restart_guard: Duration) -> Self {
        let run_ids = RefCell::new(vec![None; members.len()]);
        Self { members, run_ids, restart_guard, tickets: FIRST_TICKET, broke_off: false }
    }

    /// Closes the links.
    pub fn close(&mut self) {
        self.settle();
        self.members.iter_mut().for_each(Member::close);
    }

    /// Whether a sending of the latest round broke off unanswered, though another may have been answered.
    pub fn broke_off(&self) -> bool {
        self.broke_off
    }

    /// A server that started less than this long ago grants nothing new.
    pub fn restart_guard(&self) -> Duration {
        self.restart_guard
    }

    /// The number of nodes that decides.
    pub fn majority(&self) -> usize {
        verdict::majority(self.members.len())
    }

    /// Asks all nodes but those it does without, until `is_decided` or until every answer has come or its time
    /// is up. What came of it for each node is in the order of the nodes. The round's ticket tells later which
    /// nodes still owe the answer.
    pub fn ask<'a>(
        &mut self,
        without: Without,
        ask: impl Fn(usize, u64) -> Ask<'a>,
        is_decided: impl Fn(&Tally<'_>) -> bool,
    ) -> (Vec<Ballot>, u64) {
        self.tickets += 1;
        let ticket = self.tickets;
        let start = Moment::now();
        let mut asks: Vec<Ask<'a>> = (0..self.members.len()).map(|place| ask(place, ticket)).collect();
        self.look();
        let mut seats = self.seats(without);
        if self.is_out_of_reach() {
            // As with a single server that was silent just now: a knock, so that an outage does not cost every
            // call a time-out.
            let knocks = asks.iter_mut().filter(|ask| ask.can_be_put_off());
            knocks.for_each(|ask| ask.budget = ask.budget.at_most(KNOCK));
        }
        let mut interests = vec![Interest::NONE; seats.len()];
        let mut grace: Option<Moment> = None;
        loop {
            let wake_by = self.go_on(&mut seats, &asks, &mut interests);
            let is_decided = is_decided(&Tally::new(seats.iter().map(Seat::ballot), seats.len()));
            let Some(mut wake_by) = wake_by else {
                // The others were not enough to tell.
                if !is_decided && seats.iter_mut().map(Seat::take_part).filter(|took| *took).count() > 0 {
                    continue;
                }
                break;
            };
            if is_decided {
                // Whom the question has not reached yet has a moment more, and no more.
                let lags = seats.iter().zip(&self.members).any(|(seat, member)| seat.is_unsent(member));
                let end = *grace.get_or_insert_with(|| grace_after(start, &asks));
                if !lags || end.is_past() {
                    break;
                }
                wake_by = wake_by.min(end);
            }
            let until = wake_by.min(Moment::now() + LONGEST_SLEEP);
            match poll::sleep_until_ready(&mut interests, until) {
                Ok(_) => {}
                Err(error) if poll::is_cancelled(&error) => break,
                // Whatever it was, each socket tells for itself.
                Err(_) => interests.iter_mut().for_each(|interest| interest.read = true),
            }
        }
        self.broke_off = seats.iter().any(|seat| seat.unanswered.is_some());
        let resent = seats.iter().filter(|seat| seat.was_resent_to());
        resent.for_each(|_| metrics::count(Counter::UnknownResent));
        let ballots: Vec<Ballot> = seats.iter_mut().map(Seat::close).collect();
        for ((member, ballot), ask) in self.members.iter().zip(&ballots).zip(&asks) {
            verdict::counted(ballot, ask.request.operation()).for_each(|what| member.count(what));
        }
        (ballots, ticket)
    }

    /// Whether so many nodes were silent just now that the others are no majority.
    fn is_out_of_reach(&self) -> bool {
        let silent = self.members.iter().filter(|member| member.outage.reason().is_some()).count();
        self.members.len() - silent < self.majority()
    }

    /// Every seat goes as far as it can. When to go on at the latest; None when all is done.
    fn go_on(&mut self, seats: &mut [Seat], asks: &[Ask<'_>], interests: &mut [Interest]) -> Option<Moment> {
        let mut wake_by: Option<Moment> = None;
        let parts = self.members.iter_mut().zip(seats).zip(asks.iter().zip(interests));
        for (place, ((member, seat), (ask, interest))) in parts.enumerate() {
            let operation = ask.request.operation();
            let admit = |identity: &Identity| admit(&self.run_ids, place, identity, operation, self.restart_guard);
            seat.go_on(member, ask, interest.read || interest.write, &admit);
            *interest = if seat.listens() { member.interest() } else { Interest::NONE };
            if let Some(moment) = seat.wake_by(member, ask) {
                wake_by = Some(wake_by.map_or(moment, |earliest| earliest.min(moment)));
            }
        }
        wake_by
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

    /// Awaits for a moment what is still owed. A server that finds us gone when it answers reads no further, and
    /// never sees the release that was sent behind the question.
    fn settle(&mut self) {
        let by = Moment::now() + LAST_LOOK;
        while !by.is_past() {
            let owes = |member: &Member| if member.owes_lately(LAST_LOOK) { member.interest() } else { Interest::NONE };
            let interests: Vec<Interest> = self.members.iter().map(owes).collect();
            if interests.iter().all(|interest| *interest == Interest::NONE) || poll::sleep(&interests, by).is_err() {
                return;
            }
            for (member, interest) in self.members.iter_mut().zip(interests) {
                if interest != Interest::NONE {
                    member.refresh();
                }
            }
        }
    }

    /// A part for each node: an empty one for who is slow or was silent just now, if a majority is left.
    fn seats(&mut self, without: Without) -> Vec<Seat> {
        if without == Without::Nobody {
            return self.members.iter().map(|_| Seat::new()).collect();
        }
        let left_out: Vec<Option<Reason>> = self.members.iter_mut().map(Member::left_out).collect();
        let in_reach = left_out.iter().filter(|reason| reason.is_none()).count();
        let is_enough = in_reach >= self.majority();
        let seat = |reason: Option<Reason>| match reason {
            Some(reason) if is_enough => Seat::empty(reason),
            _ => Seat::new(),
        };
        left_out.into_iter().map(seat).collect()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.settle();
    }
}

/// How long a decided round goes on for those whom its question has not reached yet: as long again, and for what
/// is owed to a lease as long as it may be.
fn grace_after(start: Moment, asks: &[Ask<'_>]) -> Moment {
    let now = Moment::now();
    let is_owed = asks.iter().any(|ask| matches!(ask.request.operation(), Operation::Release | Operation::Renew));
    now + if is_owed { LONGEST_GRACE } else { now.since(start).clamp(SHORTEST_GRACE, LONGEST_GRACE) }
}

/// A server counts once, whatever its addresses, and one that has just started grants nothing new.
fn admit(
    run_ids: &RefCell<Vec<Option<String>>>,
    place: usize,
    identity: &Identity,
    operation: Operation,
    restart_guard: Duration,
) -> Result<(), Refusal> {
    if identity.is_replica {
        // It would refuse what writes, and answer the rest from what its primary had.
        return Err(refusal("READONLY", "it is a replica, and no node of its own".into()));
    }
    if let Some(mine) = &identity.run_id {
        let mut run_ids = run_ids.borrow_mut();
        if let Some(twin) = run_ids.iter().position(|id| id.as_ref() == Some(mine)).filter(|twin| *twin != place) {
            return Err(refusal("SAMENODE", format!("the same server as node {} of the DSN", twin + 1)));
        }
        if let Some(known) = run_ids.get_mut(place).filter(|known| known.as_ref() != Some(mine)) {
            *known = Some(mine.clone());
        }
    }
    if operation != Operation::Acquire || identity.has_run_for(restart_guard) {
        return Ok(());
    }
    match (identity.started, &identity.silence) {
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
