//! Where the waiters of a lock on several nodes stand in line: on one of them, its home, so that a release
//! reserves for one waiter and not for several at once.

use super::{
    Keys, Line,
    node::Node,
    queue::{Place, Queue},
    round::Nodes,
    slot,
};
use crate::{
    clock::Moment,
    host::{Host, Interrupted},
    net::{Timeouts, poll},
};
use std::{cell::RefCell, rc::Rc};

/// What waiting on one node needs: a link of its own, so that the rounds are not disturbed.
pub type Waiting = (Rc<RefCell<Node>>, Rc<RefCell<Queue>>);

/// The home node of a lock, in the order of the nodes: chosen by its name, the next one while that is away.
pub fn of(keys: &Keys, nodes: &mut Nodes) -> usize {
    let count = nodes.members.len();
    let first = usize::from(slot(&keys.lock)) % count;
    let is_there = |place: &usize| nodes.members.get_mut(*place).is_some_and(|node| node.left_out().is_none());
    (0..count).map(|step| (first + step) % count).find(is_there).unwrap_or(first)
}

/// A place in the line at the home node, and at the next one when that is away.
pub struct AtHome {
    nodes: Rc<RefCell<Nodes>>,
    lines: Rc<[Waiting]>,
    keys: Keys,
    timeouts: Timeouts,
    deadline: Moment,
    place: Option<(usize, Place)>,
}

impl AtHome {
    /// A place in the line for the lock of `keys`, not taken yet.
    pub fn new(
        nodes: &Rc<RefCell<Nodes>>,
        lines: &Rc<[Waiting]>,
        keys: &Keys,
        timeouts: Timeouts,
        deadline: Moment,
    ) -> Self {
        let (nodes, lines) = (Rc::clone(nodes), Rc::clone(lines));
        Self { nodes, lines, keys: keys.clone(), timeouts, deadline, place: None }
    }

    /// Goes to the home node, if the place is not there. A reservation that was handed over before is given back.
    fn go_home(&mut self) -> Option<Vec<u8>> {
        let mut nodes = self.nodes.borrow_mut();
        let home = of(&self.keys, &mut nodes);
        if self.place.as_ref().is_some_and(|(place, _)| *place == home) {
            return None;
        }
        let reservation = self.place.take().and_then(|(_, mut place)| place.leave());
        if let (Some((node, queue)), Some(member)) = (self.lines.get(home), nodes.members.get(home)) {
            node.borrow_mut().note_trip(member.trip());
            self.place = Some((home, Place::new(queue, node, &self.keys.wake, self.timeouts, self.deadline)));
        }
        reservation
    }
}

impl Line for AtHome {
    fn wait(&mut self, until: Moment, host: &dyn Host) -> Result<Option<Vec<u8>>, Interrupted> {
        if let Some(reservation) = self.go_home() {
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
