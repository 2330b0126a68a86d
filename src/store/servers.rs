//! Which server a lock is on, where it is on one at a time.

use super::{
    Keys, Line,
    node::{Answer, Node},
    protocol::{self, Request},
    queue::{Place, Queue},
};
use crate::{
    clock::Moment,
    error::Result,
    net::{Budget, Timeouts, dsn::Endpoint, topology::Watched},
};
use std::{cell::RefCell, rc::Rc, time::Duration};

/// What `ping()` tells: a server's address, and the round trip or what is wrong.
pub type Signs = Vec<(String, std::result::Result<Duration, String>)>;

/// The servers that locks may be on.
pub trait Servers {
    /// Asks the server that the lock is on, and finds out what came of it.
    fn ask(&self, keys: &Keys, request: &Request<'_>, budget: Budget) -> Result<Answer>;
    /// The server that the lock is on, as far as is known.
    fn node(&self, keys: &Keys) -> Rc<RefCell<Node>>;
    /// Whether locks may come to another server while one waits.
    fn can_move(&self) -> bool;
    /// A place in the line of those who wait for the lock.
    fn line(&self, keys: &Keys, timeouts: Timeouts, deadline: Moment) -> Box<dyn Line>;
    /// Asks each server for a sign of life.
    fn ping(&self, budget: Budget) -> Signs;
    /// Closes the connections.
    fn close(&self);
}

/// One server, or the primary that sentinels name.
pub struct One {
    node: Rc<RefCell<Node>>,
    queue: Rc<RefCell<Queue>>,
}

impl One {
    /// The server at `endpoint`, which is not connected to yet.
    pub fn fixed(endpoint: Endpoint) -> Self {
        Self { node: Rc::new(RefCell::new(Node::new(endpoint))), queue: Rc::default() }
    }

    /// The primary that sentinels name, not connected to yet.
    pub fn watched(watched: Watched) -> Self {
        Self { node: Rc::new(RefCell::new(Node::watched(watched))), queue: Rc::default() }
    }
}

impl Servers for One {
    fn ask(&self, keys: &Keys, request: &Request<'_>, budget: Budget) -> Result<Answer> {
        let encode = |form, command: &mut _| request.encode(keys, protocol::floor_now(), form, command);
        self.node.borrow_mut().run(request.operation(), &encode, budget)
    }

    fn node(&self, _: &Keys) -> Rc<RefCell<Node>> {
        Rc::clone(&self.node)
    }

    fn can_move(&self) -> bool {
        self.node.borrow().is_replaceable()
    }

    fn line(&self, keys: &Keys, timeouts: Timeouts, deadline: Moment) -> Box<dyn Line> {
        Box::new(Place::new(&self.queue, &self.node, &keys.wake, timeouts, deadline))
    }

    fn ping(&self, budget: Budget) -> Signs {
        let mut node = self.node.borrow_mut();
        let sign = node.ping(budget);
        let mut signs = vec![(node.name(), sign)];
        signs.extend(self.queue.borrow_mut().tell_refusal(&node.name()));
        signs
    }

    fn close(&self) {
        self.node.borrow_mut().close();
        self.queue.borrow_mut().close();
    }
}
