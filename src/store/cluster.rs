//! A Redis Cluster: each lock is on the server that owns its slot, and follows the slot when that moves.

use super::{
    Keys, Line, Signs,
    follow::{Following, Waiting},
    jittered,
    node::{Answer, Node},
    protocol::{self, Request},
    servers::Servers,
    slot,
};
use crate::{
    clock::Moment,
    error::{Error, Operation, Result},
    net::{
        Budget, Refusal, Reply, Timeouts,
        dsn::{Address, Endpoint},
        poll,
    },
};
use redis::{Cmd, Value};
use std::{cell::RefCell, rc::Rc, time::Duration};

/// A cluster, known by some of its servers at first.
pub struct Cluster {
    map: Rc<RefCell<Map>>,
}

/// Which server owns which slots.
struct Map {
    /// Where to ask first, and who we are to every server.
    first: Endpoint,
    /// Who is known, the one that answered last first.
    servers: Vec<Rc<Server>>,
    /// First and last slot, and their owner.
    owned: Vec<(u16, u16, Rc<Server>)>,
}

struct Server {
    address: Address,
    waiting: Waiting,
}

/// Where else a lock is to be looked for.
enum Elsewhere {
    /// The slot is there now.
    Moved(Address),
    /// This key is there already, in a slot that is just being moved.
    Ask(Address),
}

/// So many times in one call a lock is looked for somewhere else at once; then the servers need a moment to agree.
const MOST_TURNS: u32 = 8;
/// Pause before a slot that is being moved is asked for again; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// How long one server may take to say who owns what.
const LOOK: Duration = Duration::from_millis(250);

impl Cluster {
    /// A cluster of which these servers are known, not connected to yet.
    pub fn new(first: Endpoint, others: &[Endpoint]) -> Self {
        let mut map = Map { first: first.clone(), servers: Vec::new(), owned: Vec::new() };
        for seed in std::iter::once(&first).chain(others) {
            map.server(&seed.address);
        }
        Self { map: Rc::new(RefCell::new(map)) }
    }

    fn owner(&self, keys: &Keys, budget: Budget) -> Rc<Server> {
        let mut map = self.map.borrow_mut();
        if map.owned.is_empty() {
            map.refresh(budget);
        }
        map.owner(slot(&keys.lock))
    }

    /// Where to ask after an error: another server, or the same one after a pause; None when the error stands.
    fn next(
        &self,
        error: &Error,
        server: &Rc<Server>,
        is_first: bool,
        keys: &Keys,
        budget: Budget,
    ) -> Option<Rc<Server>> {
        let mut map = self.map.borrow_mut();
        match error {
            Error::Refused { refusal, .. } => match elsewhere(refusal, &server.address)? {
                Elsewhere::Moved(address) => {
                    map.refresh(budget);
                    Some(map.moved(slot(&keys.lock), &address))
                }
                Elsewhere::Ask(address) => {
                    let server = map.server(&address);
                    server.waiting.node.borrow_mut().ask_next();
                    Some(server)
                }
            },
            // Perhaps another server has taken its place: asking that one with the same token changes nothing.
            Error::Unavailable { .. } | Error::Unknown { .. } => {
                map.refresh(budget);
                let owner = map.owner(slot(&keys.lock));
                // The same one has had only its share of the time.
                (is_first || !Rc::ptr_eq(&owner, server)).then_some(owner)
            }
            _ => None,
        }
    }
}

impl Servers for Cluster {
    fn ask(&self, keys: &Keys, request: &Request<'_>, budget: Budget) -> Result<Answer> {
        let operation = request.operation();
        let encode = |form, command: &mut _| request.encode(keys, protocol::floor_now(), form, command);
        let mut server = self.owner(keys, budget);
        let mut pause = FIRST_PAUSE;
        let mut turns = 0;
        let mut unanswered = None;
        loop {
            let is_first = turns == 0 && operation.is_repeatable();
            let time = if is_first { first_share(budget) } else { budget };
            let result = server.waiting.node.borrow_mut().run(operation, &encode, time);
            let error = match result {
                Ok(answer) => {
                    let may_arrive_again = answer.may_arrive_again || unanswered.is_some();
                    return Ok(Answer { may_arrive_again, ..answer });
                }
                Err(error) => error,
            };
            turns += 1;
            let is_moving = is_moving(&error);
            let is_stuck = is_moving || turns > MOST_TURNS;
            // What is owed to a lease is tried again; an acquire has its wait for that.
            let has_patience = !operation.can_be_put_off() && pause < budget.end.remaining();
            let may_ask_again = !error.is_unknown() || operation.is_repeatable();
            let next = if budget.end.is_past() || !may_ask_again || is_stuck && !has_patience {
                None
            } else {
                if is_stuck {
                    if !poll::pause(jittered(pause)) {
                        return Err(unanswered.unwrap_or(error));
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    turns = 0;
                }
                if is_moving {
                    Some(self.owner(keys, budget))
                } else {
                    self.next(&error, &server, is_first, keys, budget)
                }
            };
            // What another server refuses says nothing of what was sent to one that did not answer.
            let error = unanswered.take().unwrap_or(error);
            match next {
                Some(next) => server = next,
                None => return Err(error),
            }
            unanswered = Some(error).filter(Error::is_unknown);
        }
    }

    fn node(&self, keys: &Keys) -> Rc<RefCell<Node>> {
        Rc::clone(&self.map.borrow_mut().owner(slot(&keys.lock)).waiting.node)
    }

    fn can_move(&self) -> bool {
        true
    }

    fn line(&self, keys: &Keys, timeouts: Timeouts, deadline: Moment) -> Box<dyn Line> {
        let (map, slot) = (Rc::clone(&self.map), slot(&keys.lock));
        let whither = move || Some(map.borrow_mut().owner(slot).waiting.clone());
        Box::new(Following::new(whither, &keys.wake, timeouts, deadline))
    }

    fn ping(&self, budget: Budget) -> Signs {
        let mut map = self.map.borrow_mut();
        map.refresh(budget);
        map.servers.iter().flat_map(|server| server.waiting.ping(budget)).collect()
    }

    fn close(&self) {
        self.map.borrow().servers.iter().for_each(|server| server.waiting.close());
    }
}

impl Map {
    /// The server at this address, made if it is new.
    fn server(&mut self, address: &Address) -> Rc<Server> {
        if let Some(known) = self.servers.iter().find(|server| server.address == *address) {
            return Rc::clone(known);
        }
        let endpoint = Endpoint { address: address.clone(), ..self.first.clone() };
        let waiting = Waiting::new(Node::new(endpoint));
        let server = Rc::new(Server { address: address.clone(), waiting });
        self.servers.push(Rc::clone(&server));
        server
    }

    /// The slot's owner; any server while nobody knows, since that one tells.
    fn owner(&mut self, slot: u16) -> Rc<Server> {
        let owned = self.owned.iter().find(|(first, last, _)| (*first..=*last).contains(&slot));
        if let Some((_, _, server)) = owned.cloned() {
            return server;
        }
        let first = self.first.address.clone();
        self.servers.first().cloned().unwrap_or_else(|| self.server(&first))
    }

    /// Notes that a slot is on the server at this address now.
    fn moved(&mut self, slot: u16, address: &Address) -> Rc<Server> {
        let server = self.server(address);
        // The newest first: it is found before the range that it was taken from.
        self.owned.insert(0, (slot, slot, Rc::clone(&server)));
        server
    }

    /// Asks who owns what, one server after the other until one answers.
    fn refresh(&mut self, budget: Budget) {
        for place in 0..self.servers.len() {
            let Some(server) = self.servers.get(place).cloned() else { break };
            let encode = |_, command: &mut Cmd| command.clone_from(redis::cmd("CLUSTER").arg("SLOTS"));
            let answer = server.waiting.node.borrow_mut().run(Operation::Slots, &encode, budget.at_most(LOOK));
            let Some(ranges) = answer.ok().and_then(|answer| ranges(&answer.reply, &server.address)) else { continue };
            self.owned =
                ranges.into_iter().map(|(first, last, address)| (first, last, self.server(&address))).collect();
            // Who owns nothing any more is forgotten, but for those who can tell where the rest is.
            let owners: Vec<Rc<Server>> = self.owned.iter().map(|(_, _, owner)| Rc::clone(owner)).collect();
            let first = self.first.address.clone();
            self.servers.retain(|one| {
                one.address == first || Rc::ptr_eq(one, &server) || owners.iter().any(|owner| Rc::ptr_eq(one, owner))
            });
            if let Some(place) = self.servers.iter().position(|one| Rc::ptr_eq(one, &server)) {
                self.servers.swap(0, place);
            }
            return;
        }
    }
}

/// What the first server asked may spend: one that hangs leaves time to find who has taken its place.
fn first_share(budget: Budget) -> Budget {
    budget.at_most(budget.command().max(budget.end.remaining() * 2 / 3))
}

/// Whether a slot, or the whole cluster, is just being rearranged.
fn is_moving(error: &Error) -> bool {
    matches!(error, Error::Refused { refusal, .. } if matches!(refusal.code.as_str(), "TRYAGAIN" | "CLUSTERDOWN"))
}

/// Where the server that refused says that the slot is.
fn elsewhere(refusal: &Refusal, said_by: &Address) -> Option<Elsewhere> {
    let address = || {
        let (host, port) = refusal.message.split_ascii_whitespace().nth(2)?.rsplit_once(':')?;
        Some(Address::Tcp(host_of(host, said_by)?, port.parse().ok()?))
    };
    match refusal.code.as_str() {
        "MOVED" => address().map(Elsewhere::Moved),
        "ASK" => address().map(Elsewhere::Ask),
        _ => None,
    }
}

/// A server that does not know its own name leaves it out: it is the one that was asked.
fn host_of(host: &str, said_by: &Address) -> Option<String> {
    match (host, said_by) {
        ("" | "?", Address::Tcp(host, _)) => Some(host.clone()),
        ("" | "?", Address::Unix(_)) => None,
        (host, _) => Some(host.to_owned()),
    }
}

/// Reads the answer to CLUSTER SLOTS: first and last slot, and where their primary is.
fn ranges(reply: &Reply, said_by: &Address) -> Option<Vec<(u16, u16, Address)>> {
    let Value::Array(items) = reply else { return None };
    let range = |item: &Value| {
        let Value::Array(parts) = item else { return None };
        let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = parts.as_slice() else { return None };
        let [host, Value::Int(port), ..] = primary.as_slice() else { return None };
        let host = match host {
            Value::BulkString(host) => std::str::from_utf8(host).ok()?,
            _ => "",
        };
        let address = Address::Tcp(host_of(host, said_by)?, u16::try_from(*port).ok()?);
        Some((u16::try_from(*first).ok()?, u16::try_from(*last).ok()?, address))
    };
    items.iter().map(range).collect()
}
