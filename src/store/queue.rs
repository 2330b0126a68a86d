//! Waiting for a lock on one server: blocked on its wake list, on a link of its own, so that the main
//! link stays free for another try and giving up can close this one.

use super::{Line, jittered, node::Node};
use crate::{
    clock::Moment,
    error::Operation,
    host::{Host, Interrupted},
    net::{
        Budget, Link, Timeouts,
        dsn::Endpoint,
        poll::{self, Interest, Woken},
    },
};
use redis::Value;
use std::{cell::RefCell, rc::Rc, time::Duration};

/// What one server's waits share.
#[derive(Default)]
pub struct Queue {
    /// A link whose last wait was answered, kept for the next.
    idle: Option<Idle>,
    /// Why the server does not let us block, once it has said so.
    refusal: Option<String>,
    is_refusal_told: bool,
}

/// A link that can wait for another lock.
struct Idle {
    link: Link,
    id: Id,
    generation: u64,
    leads_to: Option<Endpoint>,
}

/// A place in the line for one lock.
pub struct Place {
    queue: Rc<RefCell<Queue>>,
    timeouts: Timeouts,
    key: Vec<u8>,
    /// When the wait ends.
    deadline: Moment,
    link: Option<Link>,
    /// Where the link leads.
    leads_to: Option<Endpoint>,
    /// When a link under way must be made.
    connect_by: Moment,
    /// A BLPOP is under way on the link.
    is_queued: bool,
    /// The link's number on the server, once it has said it: what ends a BLPOP from outside.
    id: Id,
    /// Which main link there was when the number was asked for: on another server it is another client's.
    generation: u64,
    /// The main link's node, free while we wait.
    node: Rc<RefCell<Node>>,
    /// The next pause, while there is no place in the line to be had.
    pause: Duration,
}

/// What is known of a link's number on the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Id {
    Unasked,
    /// Asked for, and not answered yet.
    Asked,
    Known(i64),
    /// The server does not tell.
    Untold,
}

/// What a look at the link shows.
enum Seen {
    Nothing,
    Reservation(Vec<u8>),
    /// The server's time limit ended the block.
    Ended,
    /// The list is on another server of the cluster now.
    Moved,
    Failed,
}

/// A server that answered within this can be asked for one thing more before we go.
const NEAR: Duration = Duration::from_millis(10);
/// How long the last answer is awaited when a place is given up: a round trip or two, as a rule.
const LAST_LOOK: Duration = Duration::from_millis(20);
/// Pause after the first try without a place in the line; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
const CONNECTING: Duration = Duration::from_millis(30);

impl Queue {
    /// Closes the idle link. The next one may be to a server that lets us block.
    pub fn close(&mut self) {
        *self = Self::default();
    }

    /// Why waiting polls on the server of that name, told once, as a line of `ping()`.
    pub fn tell_refusal(&mut self, name: &str) -> Option<(String, Result<Duration, String>)> {
        let refusal = self.refusal.clone().filter(|_| !self.is_refusal_told)?;
        self.is_refusal_told = true;
        Some((format!("{name} (waiting)"), Err(format!("polls, since BLPOP is refused: {refusal}"))))
    }
}

impl Place {
    /// A place in the line for the lock whose wake list is `key`, not taken yet.
    pub fn new(
        queue: &Rc<RefCell<Queue>>,
        node: &Rc<RefCell<Node>>,
        key: &[u8],
        timeouts: Timeouts,
        deadline: Moment,
    ) -> Self {
        let idle = queue.borrow_mut().idle.take();
        let (id, generation) = idle.as_ref().map_or((Id::Unasked, 0), |idle| (idle.id, idle.generation));
        let (link, leads_to) = idle.map(|idle| (idle.link, idle.leads_to)).unzip();
        Self {
            queue: Rc::clone(queue),
            node: Rc::clone(node),
            timeouts,
            key: key.to_vec(),
            deadline,
            link,
            leads_to: leads_to.flatten(),
            id,
            generation,
            connect_by: deadline,
            is_queued: false,
            pause: FIRST_PAUSE,
        }
    }

    /// Takes a place in the line, or goes on doing so. False when that is not possible now.
    fn join(&mut self) -> bool {
        if self.link.as_ref().is_some_and(|link| !link.is_ours()) {
            // A signal handler forked, and this is the child: the place is its parent's.
            self.drop_link();
        }
        if self.link.is_some() && self.leads_to.as_ref() != self.node.borrow().endpoint() {
            // Another server is the primary now.
            self.drop_link();
        }
        if self.is_queued {
            return true;
        }
        if self.queue.borrow().refusal.is_some() {
            return false;
        }
        if self.link.as_mut().is_some_and(|link| link.is_open() && !link.is_usable()) {
            self.link = None;
        }
        if self.link.is_none() {
            self.connect_by = Budget::until(self.timeouts, self.deadline).connect_by();
            self.leads_to = self.node.borrow().endpoint().cloned();
            self.link = self.leads_to.as_ref().and_then(|endpoint| Link::begin(endpoint, self.connect_by).ok());
            self.id = Id::Unasked;
        }
        let Some(link) = &mut self.link else { return false };
        if link.advance().is_err() || (!link.is_open() && self.connect_by.is_past()) {
            self.link = None;
            return false;
        }
        if link.is_open() {
            // For the whole wait: who blocks again is the last in the line.
            let longest = self.deadline.remaining() + Duration::from_millis(500);
            if self.id == Id::Unasked {
                self.generation = self.node.borrow().generation();
                link.queue(redis::cmd("CLIENT").arg("ID"));
                self.id = Id::Asked;
            }
            link.queue(redis::cmd("BLPOP").arg(&self.key).arg(longest.as_secs_f64()));
            self.is_queued = link.advance().is_ok();
            return self.is_queued;
        }
        true
    }

    /// When to look again even if nothing became ready.
    fn wake_by(&self, until: Moment) -> Moment {
        let Some(link) = self.link.as_ref().filter(|link| !link.is_open()) else { return until };
        link.wake_by().map_or(self.connect_by, |wake| wake.min(self.connect_by)).min(until)
    }

    fn look(&mut self) -> Seen {
        if !self.is_queued {
            return Seen::Nothing;
        }
        let Some(link) = &mut self.link else { return Seen::Failed };
        let reply = match link.advance().and_then(|()| link.take_reply()) {
            Ok(None) => return Seen::Nothing,
            Ok(Some(reply)) => reply,
            Err(_) => {
                self.drop_link();
                return Seen::Failed;
            }
        };
        if self.id == Id::Asked {
            self.id = if let Ok(Value::Int(id)) = reply { Id::Known(id) } else { Id::Untold };
            return self.look();
        }
        self.is_queued = false;
        if reply.is_ok() {
            // The server does let us wait. One that only hangs up is asked ever more seldom.
            self.pause = FIRST_PAUSE;
        }
        match reply {
            Ok(Value::Nil) => Seen::Ended,
            Ok(Value::Array(items)) => match <[Value; 2]>::try_from(items) {
                Ok([_, Value::BulkString(reservation)]) => Seen::Reservation(reservation),
                _ => Seen::Failed,
            },
            Ok(_) => Seen::Failed,
            Err(refusal) => {
                if refusal.code == "MOVED" {
                    self.drop_link();
                    return Seen::Moved;
                }
                // Not allowed, or not known (a proxy): it will not be otherwise a moment later.
                if matches!(refusal.code.as_str(), "NOPERM" | "ERR") {
                    self.queue.borrow_mut().refusal = Some(refusal.message);
                }
                self.drop_link();
                Seen::Failed
            }
        }
    }

    /// Has the server end our BLPOP, so that it answers at once: with nothing, or with the reservation that it
    /// has handed over in this very moment. Where it does not do that for us, the end of what we send ends the
    /// block too, but a reservation handed over just before is lost with the link, if rarely.
    fn end_block(&mut self) -> bool {
        if let Id::Known(id) = self.id
            && self.node.borrow().generation() == self.generation
            && self.node.borrow().latest_trip() <= NEAR
        {
            let budget = Budget::until(self.timeouts, Moment::now() + LAST_LOOK);
            let unblock = |_, command: &mut redis::Cmd| command.clone_from(redis::cmd("CLIENT").arg("UNBLOCK").arg(id));
            let mut node = self.node.borrow_mut();
            let was_silent = node.is_silent();
            if node.run(Operation::Unblock, &unblock, budget).is_ok() {
                return true;
            }
            // So short a silence tells nothing of the server: the last try at the deadline has its whole time. Who leaves
            // early does so for a handler that throws, and is to go on at once.
            if !was_silent && self.deadline.is_past() {
                node.forgive();
            }
        }
        self.link.as_mut().is_some_and(|link| link.end_sending().is_ok())
    }

    fn drop_link(&mut self) {
        self.link = None;
        self.is_queued = false;
    }

    /// Without a place in the line: when to try again, later each time.
    fn next_try(&mut self, until: Moment) -> Moment {
        // A link under way is given a moment, since it is nearly always there at once.
        let pause = if self.link.is_some() { self.pause.max(CONNECTING) } else { self.pause };
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        until.min(Moment::now() + jittered(pause))
    }
}

impl Line for Place {
    fn wait(&mut self, until: Moment, host: &dyn Host) -> Result<Option<Vec<u8>>, Interrupted> {
        let end = until;
        let (mut until, mut has_place) = (end, true);
        loop {
            let seen = if self.join() { self.look() } else { Seen::Failed };
            match seen {
                Seen::Reservation(reservation) => return Ok(Some(reservation)),
                // Who asks for the lock again is told where it is.
                Seen::Moved => return Ok(None),
                Seen::Ended if until.is_past() => return Ok(None),
                Seen::Ended => continue,
                Seen::Nothing | Seen::Failed => {}
            }
            if self.is_queued {
                (until, has_place) = (end, true);
            } else if has_place {
                (until, has_place) = (self.next_try(end), false);
            }
            let interest = self.link.as_ref().map_or(Interest::NONE, Link::interest);
            match poll::sleep_with_host(&[interest], self.wake_by(until), host)? {
                Ok(Woken::Deadline) if until.is_past() => return Ok(None),
                Ok(_) => {}
                Err(_) => self.drop_link(),
            }
        }
    }

    fn leave(&mut self) -> Option<Vec<u8>> {
        if self.link.as_ref().is_some_and(|link| !link.is_ours()) {
            self.drop_link();
        }
        let mut seen = self.look();
        if self.is_queued && self.end_block() {
            let by = Moment::now() + LAST_LOOK;
            while self.is_queued && !by.is_past() {
                let interest = self.link.as_ref().map_or(Interest::NONE, Link::interest);
                // An error shows at the look.
                let _ = poll::sleep(&[interest], by);
                seen = self.look();
            }
        }
        if self.is_queued {
            self.drop_link();
        }
        match seen {
            Seen::Reservation(reservation) => Some(reservation),
            _ => None,
        }
    }
}

/// A link without a block under way can wait for the next lock.
impl Drop for Place {
    fn drop(&mut self) {
        if let Some(mut link) = self.link.take()
            && !self.is_queued
            && link.is_usable()
        {
            let leads_to = self.leads_to.take();
            self.queue.borrow_mut().idle = Some(Idle { link, id: self.id, generation: self.generation, leads_to });
        }
    }
}
