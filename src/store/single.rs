//! The store that keeps a lock on one server at a time: on the only one, on the primary of the moment, or on
//! the one that owns its slot.

use super::{
    Claim, Claimed, Grant, Keys, Line, Memory, Outcome, Released, Renewal, Renewed, Signs, Standing, Store,
    node::{Encode, Node},
    protocol::{self, Extended, Queueing, Request},
    servers::Servers,
};
use crate::{
    clock::Moment,
    error::{Error, Operation, Result},
    net::{Budget, Reason, Reply, Timeouts, topology::Replicas},
};
use redis::Cmd;
use std::{cell::RefCell, rc::Rc, time::Duration};

/// A lock on one server at a time.
pub struct Single<S> {
    servers: S,
    /// How many replicas must confirm a grant.
    replicas: Replicas,
}

impl<S: Servers> Single<S> {
    /// A store on these servers, whose grants so many replicas must confirm.
    pub fn new(servers: S, replicas: Replicas) -> Self {
        Self { servers, replicas }
    }

    /// An answer that none of our scripts gives.
    fn nonsense<T>(&self, keys: &Keys, operation: Operation, reply: &Reply) -> Result<T> {
        let reason = Reason::Protocol(protocol::shape(reply));
        let node = self.servers.node(keys);
        let mut node = node.borrow_mut();
        node.close();
        Err(Error::Unknown { operation, node: node.name(), reason })
    }

    /// A grant counts only when enough replicas have it; one that does not is given back.
    fn replicate(&self, keys: &Keys, token: &[u8], budget: Budget) -> Result<()> {
        let node = self.servers.node(keys);
        let confirmed = node.borrow_mut().await_replicas(self.replicas, budget);
        confirmed.inspect_err(|_| {
            // When this fails too, the TTL ends it.
            let _ = self.release(keys, token, Memory::ForGood, budget);
        })
    }
}

impl<S: Servers> Store for Single<S> {
    fn acquire(&self, keys: &Keys, claim: &Claim<'_>, budget: Budget) -> Result<Claimed> {
        let &Claim { token, ttl, waits, reservation } = claim;
        let mark = keys.mark(token);
        let queueing = Queueing { waits, reservation };
        let ask = |queue| self.servers.ask(keys, &Request::Acquire { token, mark: &mark, ttl, queue }, budget);
        let needs_queue = waits || reservation.is_some();
        let mut answer = ask(needs_queue.then_some(queueing))?;
        let mut claimed = protocol::claimed(&answer.reply);
        if !needs_queue && claimed == Some(protocol::Claimed::Reserved) {
            // Perhaps nobody is there to take it: the longer form looks.
            let unanswered_before = answer.may_arrive_again;
            answer = ask(Some(queueing))?;
            answer.may_arrive_again |= unanswered_before;
            claimed = protocol::claimed(&answer.reply);
        }
        let outcome = match claimed {
            Some(protocol::Claimed::Granted(fence)) => Outcome::Held(Grant { fence, sent_at: answer.sent_at }),
            Some(protocol::Claimed::Held(left)) => Outcome::Contended(left),
            // How long it is kept for a waiter is no reason to wake others.
            Some(protocol::Claimed::Reserved) => Outcome::Contended(None),
            Some(protocol::Claimed::Dead) => Outcome::Dead,
            None => return self.nonsense(keys, Operation::Acquire, &answer.reply),
        };
        if self.replicas > 0 && matches!(outcome, Outcome::Held(_)) {
            self.replicate(keys, token, budget)?;
        }
        Ok(Claimed { outcome, may_arrive_again: answer.may_arrive_again })
    }

    fn renew(&self, keys: &Keys, token: &[u8], standing: Standing, ttl: Duration, budget: Budget) -> Result<Renewed> {
        let request = Request::Renew { token, ttl, is_revival: standing == Standing::Over };
        let answer = self.servers.ask(keys, &request, budget)?;
        match renewed(&answer.reply, answer.sent_at) {
            Some(renewed) => Ok(renewed),
            None => self.nonsense(keys, Operation::Renew, &answer.reply),
        }
    }

    fn renew_all(&self, renewals: &[Renewal<'_>], budget: Budget) -> Vec<Result<Renewed>> {
        let mut groups: Vec<(Rc<RefCell<Node>>, Vec<usize>)> = Vec::new();
        for (place, one) in renewals.iter().enumerate() {
            let node = self.servers.node(one.keys);
            match groups.iter_mut().find(|(other, _)| Rc::ptr_eq(other, &node)) {
                Some((_, places)) => places.push(place),
                None => groups.push((node, vec![place])),
            }
        }
        let mut results: Vec<Option<Renewed>> = renewals.iter().map(|_| None).collect();
        for (node, places) in groups.iter().filter(|(_, places)| places.len() > 1) {
            let together: Vec<&Renewal<'_>> = places.iter().filter_map(|place| renewals.get(*place)).collect();
            let answers = renew_together(&mut node.borrow_mut(), &together, budget);
            for (place, renewed) in places.iter().zip(answers.into_iter().flatten()) {
                if let Some(result) = results.get_mut(*place) {
                    *result = renewed;
                }
            }
        }
        let alone = |one: &Renewal<'_>| self.renew(one.keys, one.token, one.standing, one.ttl, budget);
        results.into_iter().zip(renewals).map(|(result, one)| result.map_or_else(|| alone(one), Ok)).collect()
    }

    fn release(&self, keys: &Keys, token: &[u8], memory: Memory, budget: Budget) -> Result<Released> {
        let mark = keys.mark(token);
        let answer = self.servers.ask(keys, &Request::Release { token, mark: &mark, memory }, budget)?;
        match protocol::freed(&answer.reply) {
            Some(released) => Ok(released),
            None => self.nonsense(keys, Operation::Release, &answer.reply),
        }
    }

    fn owner(&self, keys: &Keys, budget: Budget) -> Result<Option<Vec<u8>>> {
        let answer = self.servers.ask(keys, &Request::Owner, budget)?;
        protocol::owner(answer.reply).or_else(|other| self.nonsense(keys, Operation::Owner, &other))
    }

    fn force_release(&self, keys: &Keys, budget: Budget) -> Result<bool> {
        let answer = self.servers.ask(keys, &Request::ForceRelease, budget)?;
        match protocol::force_freed(&answer.reply) {
            Some(was_there) => Ok(was_there),
            None => self.nonsense(keys, Operation::ForceRelease, &answer.reply),
        }
    }

    fn can_move(&self) -> bool {
        self.servers.can_move()
    }

    fn line(&self, keys: &Keys, timeouts: Timeouts, deadline: Moment) -> Box<dyn Line> {
        self.servers.line(keys, timeouts, deadline)
    }

    fn give_back(&self, keys: &Keys, reservation: &[u8], budget: Budget) -> Result<()> {
        self.servers.ask(keys, &Request::GiveBack(reservation), budget).map(|_| ())
    }

    fn ping(&self, budget: Budget) -> Signs {
        self.servers.ping(budget)
    }

    fn close(&self) {
        self.servers.close();
    }
}

/// Renews locks that are on one server. None: each is to be renewed by itself, and so is one that has no answer.
fn renew_together(node: &mut Node, renewals: &[&Renewal<'_>], budget: Budget) -> Option<Vec<Option<Renewed>>> {
    let encode = |one: &Renewal<'_>, form, command: &mut Cmd| {
        let is_revival = one.standing == Standing::Over;
        let request = Request::Renew { token: one.token, ttl: one.ttl, is_revival };
        request.encode(one.keys, protocol::floor_now(), form, command);
    };
    let encoders: Vec<_> =
        renewals.iter().map(|one| move |form, command: &mut Cmd| encode(one, form, command)).collect();
    let encoders: Vec<Encode<'_>> = encoders.iter().map(|encode| encode as Encode<'_>).collect();
    let (replies, sent_at) = node.run_together(&encoders, budget)?;
    Some(replies.iter().map(|reply| renewed(reply, sent_at)).collect())
}

fn renewed(reply: &Reply, sent_at: Moment) -> Option<Renewed> {
    Some(match protocol::extended(reply)? {
        Extended::Held(fence) => Renewed::Held(Grant { fence, sent_at }),
        Extended::Lost(loss) => Renewed::Lost(loss),
    })
}
