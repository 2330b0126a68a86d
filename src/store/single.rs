//! The store on one server.

use super::{
    Claim, Claimed, Grant, Keys, Line, Memory, Outcome, Released, Renewed, Standing, Store,
    node::{Answer, Node},
    protocol::{self, Extended, Freed, Queueing, Request},
    queue::{Place, Queue},
};
use crate::{
    clock::Moment,
    error::{Error, Operation, Result},
    net::{Budget, Reason, Reply, Timeouts, dsn::Endpoint},
};
use std::{cell::RefCell, rc::Rc, time::Duration};

/// One server.
pub struct Single {
    node: Rc<RefCell<Node>>,
    queue: Rc<RefCell<Queue>>,
}

impl Single {
    /// A store on the server at `endpoint`, which is not connected to yet.
    pub fn new(endpoint: Endpoint) -> Self {
        Self { node: Rc::new(RefCell::new(Node::new(endpoint))), queue: Rc::default() }
    }

    fn ask(&self, keys: &Keys, request: &Request<'_>, budget: Budget) -> Result<Answer> {
        let encode = |form, command: &mut _| request.encode(keys, protocol::floor_now(), form, command);
        self.node.borrow_mut().run(request.operation(), &encode, budget)
    }

    /// An answer that none of our scripts gives.
    fn nonsense<T>(&self, operation: Operation, reply: &Reply) -> Result<T> {
        let reason = Reason::Protocol(protocol::shape(reply));
        let mut node = self.node.borrow_mut();
        node.close();
        Err(Error::Unknown { operation, node: node.name(), reason })
    }
}

impl Store for Single {
    fn acquire(&self, keys: &Keys, claim: &Claim<'_>, budget: Budget) -> Result<Claimed> {
        let &Claim { token, ttl, waits, reservation } = claim;
        let mark = keys.mark(token);
        let queueing = Queueing { waits, reservation };
        let ask = |queue| self.ask(keys, &Request::Acquire { token, mark: &mark, ttl, queue }, budget);
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
            None => return self.nonsense(Operation::Acquire, &answer.reply),
        };
        Ok(Claimed { outcome, may_arrive_again: answer.may_arrive_again })
    }

    fn renew(&self, keys: &Keys, token: &[u8], standing: Standing, ttl: Duration, budget: Budget) -> Result<Renewed> {
        let answer = self.ask(keys, &Request::Renew { token, ttl, is_revival: standing == Standing::Over }, budget)?;
        match protocol::extended(&answer.reply) {
            Some(Extended::Held(fence)) => Ok(Renewed::Held(Grant { fence, sent_at: answer.sent_at })),
            Some(Extended::Lost(loss)) => Ok(Renewed::Lost(loss)),
            None => self.nonsense(Operation::Renew, &answer.reply),
        }
    }

    fn release(&self, keys: &Keys, token: &[u8], memory: Memory, budget: Budget) -> Result<Released> {
        let mark = keys.mark(token);
        let answer = self.ask(keys, &Request::Release { token, mark: &mark, memory }, budget)?;
        match protocol::freed(&answer.reply) {
            Some(Freed::Ours) => Ok(Released::Ours),
            Some(Freed::Lost(loss)) => Ok(Released::Lost(loss)),
            None => self.nonsense(Operation::Release, &answer.reply),
        }
    }

    fn owner(&self, keys: &Keys, budget: Budget) -> Result<Option<Vec<u8>>> {
        let answer = self.ask(keys, &Request::Owner, budget)?;
        protocol::owner(answer.reply).or_else(|other| self.nonsense(Operation::Owner, &other))
    }

    fn force_release(&self, keys: &Keys, budget: Budget) -> Result<bool> {
        let answer = self.ask(keys, &Request::ForceRelease, budget)?;
        match protocol::force_freed(&answer.reply) {
            Some(was_there) => Ok(was_there),
            None => self.nonsense(Operation::ForceRelease, &answer.reply),
        }
    }

    fn line(&self, keys: &Keys, timeouts: Timeouts, deadline: Moment) -> Box<dyn Line> {
        Box::new(Place::new(&self.queue, &self.node, &keys.wake, timeouts, deadline))
    }

    fn give_back(&self, keys: &Keys, reservation: &[u8], budget: Budget) -> Result<()> {
        self.ask(keys, &Request::GiveBack(reservation), budget).map(|_| ())
    }

    fn ping(&self, budget: Budget) -> Vec<(String, std::result::Result<Duration, String>)> {
        let mut node = self.node.borrow_mut();
        let mut answers = vec![(node.name(), node.ping(budget))];
        answers.extend(self.queue.borrow_mut().tell_refusal(&node.name()));
        answers
    }

    fn close(&self) {
        self.node.borrow_mut().close();
        self.queue.borrow_mut().close();
    }
}
