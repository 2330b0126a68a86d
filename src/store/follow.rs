//! A place in a line that may move to another server while one waits: the next node of a quorum, a cluster's
//! new owner of the slot.

use super::{
    Line, Signs,
    node::Node,
    queue::{Place, Queue},
};
use crate::{
    clock::Moment,
    host::{Host, Interrupted},
    net::{Budget, Timeouts, poll},
};
use std::{cell::RefCell, rc::Rc};

/// One server, and what waiting on it needs.
#[derive(Clone)]
pub struct Waiting {
    pub node: Rc<RefCell<Node>>,
    pub queue: Rc<RefCell<Queue>>,
}

impl Waiting {
    /// Nobody waits there yet.
    pub fn new(node: Node) -> Self {
        Self { node: Rc::new(RefCell::new(node)), queue: Rc::default() }
    }

    /// A place in the line for the lock whose wake list is `wake`, not taken yet.
    pub fn place(&self, wake: &[u8], timeouts: Timeouts, deadline: Moment) -> Place {
        Place::new(&self.queue, &self.node, wake, timeouts, deadline)
    }

    /// Asks the server for a sign of life.
    pub fn ping(&self, budget: Budget) -> Signs {
        let mut node = self.node.borrow_mut();
        let sign = node.ping(budget);
        let mut signs = vec![(node.name(), sign)];
        signs.extend(self.queue.borrow_mut().tell_refusal(&node.name()));
        signs
    }

    /// Closes the connections.
    pub fn close(&self) {
        self.node.borrow_mut().close();
        self.queue.borrow_mut().close();
    }
}

/// A place in the line on the server that `whither` names, in the end.
pub struct Following<F> {
    whither: F,
    wake: Vec<u8>,
    timeouts: Timeouts,
    deadline: Moment,
    place: Option<(Waiting, Place)>,
}

impl<F: FnMut() -> Option<Waiting>> Following<F> {
    /// A place in the line for the lock whose wake list is `wake`, not taken yet.
    pub fn new(whither: F, wake: &[u8], timeouts: Timeouts, deadline: Moment) -> Self {
        Self { whither, wake: wake.to_vec(), timeouts, deadline, place: None }
    }

    /// Goes where the line is now. A reservation that was handed over before is not lost.
    fn follow(&mut self) -> Option<Vec<u8>> {
        let waiting = (self.whither)()?;
        if self.place.as_ref().is_some_and(|(at, _)| Rc::ptr_eq(&at.node, &waiting.node)) {
            return None;
        }
        let reservation = self.place.take().and_then(|(_, mut place)| place.leave());
        let place = waiting.place(&self.wake, self.timeouts, self.deadline);
        self.place = Some((waiting, place));
        reservation
    }
}

impl<F: FnMut() -> Option<Waiting>> Line for Following<F> {
    fn wait(&mut self, until: Moment, host: &dyn Host) -> Result<Option<Vec<u8>>, Interrupted> {
        if let Some(reservation) = self.follow() {
            return Ok(Some(reservation));
        }
        match &mut self.place {
            Some((_, place)) => place.wait(until, host),
            None => poll::sleep_with_host(&[], until, host).map(|_| None),
        }
    }

    fn leave(&mut self) -> Option<Vec<u8>> {
        self.place.as_mut().and_then(|(_, place)| place.leave())
    }
}
