//! The store on several independent servers: a majority of those configured decides. There is no order
//! among them and no leader; what makes them one is the token, and the fence they are made to agree on.

use super::{
    Claim, Claimed, Grant, Keys, Line, Memory, Outcome, Released, Renewed, Signs, Standing, Store,
    follow::{Following, Waiting},
    member::{Ask, Member, NOBODY},
    node::Node,
    protocol::{self, Extended, Queueing, Request},
    round::{Nodes, Without},
    seat::Ballot,
    slot,
    verdict::{self, Tally},
};
use crate::{
    clock::Moment,
    error::{Error, Operation, Result},
    net::{Budget, Timeouts, topology},
};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

/// Several independent servers.
pub struct Quorum {
    nodes: Rc<RefCell<Nodes>>,
    /// In the order of the nodes.
    lines: Rc<[Waiting]>,
    /// How far the wall clocks of others are ahead of ours, in µs, as far as their fences have shown.
    behind: Cell<u64>,
}

/// Clocks that differ by more, in µs, are wrong: one of them must not carry all the others away.
const MOST_BEHIND: u64 = 60_000_000;

impl Quorum {
    /// A store on these servers, which are not connected to yet.
    pub fn new(nodes: topology::Nodes) -> Self {
        let lines = nodes.endpoints.iter().cloned().map(|endpoint| Waiting::new(Node::new(endpoint))).collect();
        let members = nodes.endpoints.into_iter().map(Member::new).collect();
        Self { nodes: Rc::new(RefCell::new(Nodes::new(members, nodes.restart_guard))), lines, behind: Cell::default() }
    }

    /// The least fence for a new grant: the time on the clock that is furthest ahead. On a clock behind, each
    /// node would count up from what it has seen, and those that missed a grant would differ.
    fn floor(&self) -> u64 {
        protocol::floor_after(self.behind.get())
    }

    /// Learns from a fence that was minted for this floor whether our clock is behind others'.
    fn learn(&self, fence: u64, floor: u64) {
        let behind = self.behind.get() + fence.saturating_sub(floor);
        if behind <= MOST_BEHIND {
            self.behind.set(behind);
        }
    }

    /// Asks the same of all nodes.
    fn ask(
        &self,
        keys: &Keys,
        request: Request<'_>,
        budget: Budget,
        without: Without,
        is_decided: impl Fn(&Tally<'_>) -> bool,
    ) -> (Vec<Ballot>, u64) {
        let floor = self.floor();
        let ask = |_, ticket| Ask { ticket, request, keys, floor, budget };
        self.nodes.borrow_mut().ask(without, ask, is_decided)
    }

    /// Sends something behind what is under way on the links, to the nodes chosen; nobody reads the answers.
    fn post(&self, keys: &Keys, request: Request<'_>, floor: u64, budget: Budget, to: impl Fn(usize, &Member) -> bool) {
        let mut nodes = self.nodes.borrow_mut();
        for (place, member) in nodes.members.iter_mut().enumerate() {
            if to(place, member) {
                member.post(&Ask { ticket: NOBODY, request, keys, floor, budget });
            }
        }
    }

    fn error(&self, operation: Operation, ballots: &[Ballot], agreed: usize) -> Error {
        let nodes = self.nodes.borrow();
        verdict::error(operation, &nodes.members, ballots, agreed, nodes.majority())
    }

    /// Whether a question of that round may arrive after whatever is sent now: it went unanswered on a link that
    /// is gone, so nothing can be queued behind it.
    fn may_arrive_again(&self, ballots: &[Ballot], ticket: u64) -> bool {
        let nodes = self.nodes.borrow();
        let mut parts = nodes.members.iter().zip(ballots);
        nodes.broke_off()
            || parts.any(|(member, ballot)| matches!(ballot, Ballot::Unanswered(_)) && !member.owes(ticket))
    }

    /// Makes a majority hold at least `fence` for this token, where too few of them do.
    fn agree(&self, keys: &Keys, token: &[u8], fence: u64, ttl: Duration, budget: Budget) -> Result<()> {
        let request = Request::Raise { token, ttl };
        let mut nodes = self.nodes.borrow_mut();
        let majority = nodes.majority();
        let ask = |_, ticket| Ask { ticket, request, keys, floor: fence, budget };
        let holds = |ballot: &Ballot| matches!(verdict::extended(ballot), Some(Extended::Held(held)) if held >= fence);
        let (ballots, _) = nodes.ask(Without::TheSilent, ask, |tally| tally.is_settled(holds));
        if ballots.iter().filter(|ballot| holds(ballot)).count() >= majority {
            return Ok(());
        }
        // The lock may well be the token's, but with no fence that anybody may be told.
        Err(verdict::unknown(Operation::Raise, &nodes.members, &ballots))
    }

    /// Takes back what a failed attempt got, or may still get: behind it on the same link, so that it comes after.
    fn take_back(&self, keys: &Keys, token: &[u8], mark: &[u8], ballots: &[Ballot], ticket: u64, budget: Budget) {
        // On one link nothing overtakes: no mark is needed.
        let memory = Memory::For(Duration::ZERO);
        self.post(keys, Request::Release { token, mark, memory }, 0, budget, |place, member| {
            member.owes(ticket) || ballots.get(place).is_some_and(|ballot| verdict::fence(ballot).is_some())
        });
    }
}

impl Store for Quorum {
    fn acquire(&self, keys: &Keys, claim: &Claim<'_>, budget: Budget) -> Result<Claimed> {
        let &Claim { token, ttl, waits, reservation } = claim;
        let mark = keys.mark(token);
        let home = home(keys, &mut self.nodes.borrow_mut());
        let floor = self.floor();
        let majority = self.nodes.borrow().majority();
        // Only the home node reserves for waiters: reservations on several would block each other.
        let queue = |place| (place == home).then_some(Queueing { waits, reservation });
        let request = |place| Request::Acquire { token, mark: &mark, ttl, queue: queue(place) };
        let ask = |place, ticket| Ask { ticket, request: request(place), keys, floor, budget };
        let (ballots, ticket) = self.nodes.borrow_mut().ask(Without::TheSilent, ask, |tally| tally.is_claimed());

        let grants: Vec<(u64, Moment)> = ballots.iter().filter_map(verdict::grant).collect();
        let may_arrive_again = self.may_arrive_again(&ballots, ticket);
        let highest = grants.iter().map(|(fence, _)| *fence).max().unwrap_or_default();
        self.learn(highest, floor);
        if grants.len() >= majority {
            if grants.iter().filter(|(fence, _)| *fence == highest).count() < majority {
                self.agree(keys, token, highest, ttl, budget)?;
            }
            // The TTL runs from the first of the grants that count.
            let sent_at = grants.iter().map(|(_, sent_at)| *sent_at).min().unwrap_or_else(Moment::now);
            return Ok(Claimed { outcome: Outcome::Held(Grant { fence: highest, sent_at }), may_arrive_again });
        }
        let result = match verdict::contention(&ballots, majority) {
            Some(outcome) => Ok(Claimed { outcome, may_arrive_again }),
            None => match self.error(Operation::Acquire, &ballots, grants.len()) {
                // A majority may have granted it: only the token's owner can find out, so nothing is taken back.
                error if error.is_unknown() => return Err(error),
                error if may_arrive_again => Err(error.owed()),
                error => Err(error),
            },
        };
        self.take_back(keys, token, &mark, &ballots, ticket, budget);
        result
    }

    fn renew(&self, keys: &Keys, token: &[u8], standing: Standing, ttl: Duration, budget: Budget) -> Result<Renewed> {
        let request = Request::Renew { token, ttl, is_revival: standing == Standing::Over };
        let holds = |ballot: &Ballot| matches!(verdict::extended(ballot), Some(Extended::Held(_)));
        let lost = |ballot: &Ballot| match verdict::extended(ballot)? {
            Extended::Lost(loss) => Some(loss),
            Extended::Held(_) => None,
        };
        let is_decided = |tally: &Tally<'_>| tally.is_answered(holds, |ballot| lost(ballot).is_some());
        let (ballots, _) = self.ask(keys, request, budget, Without::TheSilent, is_decided);
        let majority = self.nodes.borrow().majority();
        let held: Vec<(u64, Moment)> = ballots.iter().filter_map(verdict::renewal).collect();
        for (member, ballot) in self.nodes.borrow_mut().members.iter_mut().zip(&ballots) {
            if let Some(answer) = verdict::extended(ballot) {
                member.note_copy(token, !answer.is_gone());
            }
        }
        if held.len() < majority {
            let loss = verdict::loss(&ballots, lost);
            return loss.map(Renewed::Lost).ok_or_else(|| self.error(Operation::Renew, &ballots, held.len()));
        }
        let highest = held.iter().map(|(fence, _)| *fence).max().unwrap_or_default();
        let do_agree = held.iter().all(|(fence, _)| *fence == highest);
        let fence = match standing {
            // Judged now, after the answers: a later grant's fence may be higher than that of a lease that is over.
            Standing::Valid { fence, until } if !until.is_past() => {
                if do_agree {
                    highest.max(fence)
                } else {
                    fence
                }
            }
            _ => highest,
        };
        if held.iter().filter(|(held, _)| *held >= fence).count() < majority {
            self.agree(keys, token, fence, ttl, budget)?;
        }
        let sent_at = held.iter().map(|(_, sent_at)| *sent_at).min().unwrap_or_else(Moment::now);
        // A node that lost its copy gets it back, now that a majority has confirmed the lease.
        let mark = keys.mark(token);
        let refill = Request::Acquire { token, mark: &mark, ttl, queue: None };
        // A refill is a grant, too.
        let guard = self.nodes.borrow().restart_guard();
        let may_grant =
            |member: &Member| member.identity().map_or(guard.is_zero(), |identity| identity.has_run_for(guard));
        self.post(keys, refill, fence, budget, |_, member| member.misses(token) && may_grant(member));
        Ok(Renewed::Held(Grant { fence, sent_at }))
    }

    fn release(&self, keys: &Keys, token: &[u8], memory: Memory, budget: Budget) -> Result<Released> {
        let mark = keys.mark(token);
        let request = Request::Release { token, mark: &mark, memory };
        let ours = |ballot: &Ballot| verdict::freed(ballot) == Some(Released::Ours);
        let lost = |ballot: &Ballot| match verdict::freed(ballot)? {
            Released::Lost(loss) => Some(loss),
            Released::Ours => None,
        };
        let is_decided = |tally: &Tally<'_>| tally.is_answered(ours, |ballot| lost(ballot).is_some());
        let (ballots, ticket) = self.ask(keys, request, budget, Without::TheSilent, is_decided);
        // Who was left out may have a copy all the same.
        self.post(keys, request, 0, budget, |place, member| {
            !member.owes(ticket) && matches!(ballots.get(place), Some(Ballot::Unasked(_)))
        });
        let majority = self.nodes.borrow().majority();
        let count = ballots.iter().filter(|ballot| ours(ballot)).count();
        if count >= majority {
            return Ok(Released::Ours);
        }
        let loss = verdict::loss(&ballots, lost);
        loss.map(Released::Lost).ok_or_else(|| self.error(Operation::Release, &ballots, count))
    }

    fn owner(&self, keys: &Keys, budget: Budget) -> Result<Option<Vec<u8>>> {
        let (ballots, _) = self.ask(keys, Request::Owner, budget, Without::TheSilent, |tally| tally.is_owner_clear());
        match verdict::owner_of(&ballots.iter().collect::<Vec<_>>(), ballots.len()) {
            Some(owner) => Ok(owner),
            None => {
                let answered = ballots.iter().filter(|ballot| verdict::owner(ballot).is_some()).count();
                Err(self.error(Operation::Owner, &ballots, answered))
            }
        }
    }

    fn force_release(&self, keys: &Keys, budget: Budget) -> Result<bool> {
        // Every node that can answer is waited for: an operator wants it gone everywhere.
        let (ballots, _) = self.ask(keys, Request::ForceRelease, budget, Without::Nobody, |_| false);
        let answers: Vec<bool> = ballots.iter().filter_map(verdict::force_freed).collect();
        if answers.len() < self.nodes.borrow().majority() {
            return Err(self.error(Operation::ForceRelease, &ballots, answers.len()));
        }
        Ok(answers.contains(&true))
    }

    fn line(&self, keys: &Keys, timeouts: Timeouts, deadline: Moment) -> Box<dyn Line> {
        let (nodes, lines, own) = (Rc::clone(&self.nodes), Rc::clone(&self.lines), keys.clone());
        let whither = move || {
            let mut nodes = nodes.borrow_mut();
            let home = home(&own, &mut nodes);
            let waiting = lines.get(home)?;
            waiting.node.borrow_mut().note_trip(nodes.members.get(home)?.trip());
            Some(waiting.clone())
        };
        Box::new(Following::new(whither, &keys.wake, timeouts, deadline))
    }

    fn give_back(&self, keys: &Keys, reservation: &[u8], budget: Budget) -> Result<()> {
        // Whichever node reserved it: the others have nothing of that value.
        self.post(keys, Request::GiveBack(reservation), 0, budget, |_, _| true);
        Ok(())
    }

    fn ping(&self, budget: Budget) -> Signs {
        let nobody = Keys::new(b"", b"");
        let start = Moment::now();
        let (ballots, _) = self.ask(&nobody, Request::Ping, budget, Without::Nobody, |_| false);
        let nodes = self.nodes.borrow();
        let mut answers = Vec::with_capacity(ballots.len());
        for (member, ballot) in nodes.members.iter().zip(&ballots) {
            let name = member.endpoint().to_string();
            let result = match ballot {
                Ballot::Answered(..) => Ok(member.trip().min(Moment::now().since(start))),
                other => Err(verdict::reason(other)),
            };
            let untold = member.identity().and_then(|identity| identity.silence.clone());
            answers.push((name.clone(), result));
            answers.extend(untold.map(|why| {
                (format!("{name} (identity)"), Err(format!("whether it is a server of its own cannot be told: {why}")))
            }));
        }
        for (waiting, member) in self.lines.iter().zip(&nodes.members) {
            answers.extend(waiting.queue.borrow_mut().tell_refusal(&member.endpoint().to_string()));
        }
        answers
    }

    fn close(&self) {
        self.nodes.borrow_mut().close();
        self.lines.iter().for_each(Waiting::close);
    }
}

/// The node on which the waiters of a lock stand in line, so that a release reserves for one of them and not for
/// several at once: chosen by its name, the next one while that is away.
fn home(keys: &Keys, nodes: &mut Nodes) -> usize {
    let count = nodes.members.len();
    let first = usize::from(slot(&keys.lock)) % count;
    let is_there = |place: &usize| nodes.members.get_mut(*place).is_some_and(Member::is_there);
    (0..count).map(|step| (first + step) % count).find(is_there).unwrap_or(first)
}
