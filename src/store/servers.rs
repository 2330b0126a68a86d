//! Which server a lock is on, where it is on one at a time.

use super::{
    Keys, Line, Signs,
    follow::Waiting,
    node::{Answer, Node},
    protocol::{self, Request},
};
use crate::{
    clock::Moment,
    error::Result,
    net::{Budget, Timeouts, dsn::Endpoint, topology::Watched},
};
use std::{cell::RefCell, rc::Rc};

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
pub struct One(Waiting);

impl One {
    /// The server at `endpoint`, which is not connected to yet.
    pub fn fixed(endpoint: Endpoint) -> Self {
        Self(Waiting::new(Node::new(endpoint)))
    }

    /// The primary that sentinels name, not connected to yet.
    pub fn watched(watched: Watched) -> Self {
        Self(Waiting::new(Node::watched(watched)))
    }
}

impl Servers for One {
    fn ask(&self, keys: &Keys, request: &Request<'_>, budget: Budget) -> Result<Answer> {
        let encode = |form, command: &mut _| request.encode(keys, protocol::floor_now(), form, command);
        self.0.node.borrow_mut().run(request.operation(), &encode, budget)
    }

    fn node(&self, _: &Keys) -> Rc<RefCell<Node>> {
        Rc::clone(&self.0.node)
    }

    fn can_move(&self) -> bool {
        self.0.node.borrow().is_replaceable()
    }

    fn line(&self, keys: &Keys, timeouts: Timeouts, deadline: Moment) -> Box<dyn Line> {
        Box::new(self.0.place(&keys.wake, timeouts, deadline))
    }

    fn ping(&self, budget: Budget) -> Signs {
        self.0.ping(budget)
    }

    fn close(&self) {
        self.0.close();
    }
}
