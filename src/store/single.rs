//! The store on one server.

use super::{
    Claim, Claimed, Grant, Keys, Line, Loss, Memory, Outcome, Released, Renewed, Store,
    node::Node,
    queue::{Place, Queue},
    script::{ACQUIRE, FORCE_RELEASE, GIVE_BACK, RELEASE, RENEW},
};
use crate::{
    clock::{self, Moment},
    error::{Error, Operation, Result},
    net::{Budget, Reason, Reply, Timeouts, dsn::Endpoint},
};
use redis::{Cmd, Value};
use std::{cell::RefCell, rc::Rc, time::Duration};

/// How long the fence outlives the lease it belongs to. Afterwards the clock alone makes it rise.
const FENCE_OUTLIVES: Duration = Duration::from_secs(300);
/// How long the mark of a waiter lasts; each of its tries renews it.
const WAITER_MARK: Duration = Duration::from_secs(4);
/// The largest number that Lua counts up from exactly.
const MAX_FLOOR: u64 = (1 << 53) - (1 << 20);
/// How long an abandoned command can be under way: in a proxy, in a stopped server's socket.
const DEAD_MARK: Duration = Duration::from_secs(60);
/// What a lock that nobody may own any more looks like: see free.lua.
const RESERVED: &[u8] = b"reserved:";

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

    /// An answer that none of our scripts gives.
    fn nonsense<T>(&self, operation: Operation, reply: &Reply) -> Result<T> {
        let reason = Reason::Protocol(format!("it answered {}", shape(reply)));
        let mut node = self.node.borrow_mut();
        node.close();
        Err(Error::Unknown { operation, node: node.name(), reason })
    }
}

impl Store for Single {
    fn acquire(&self, keys: &Keys, claim: &Claim<'_>, budget: Budget) -> Result<Claimed> {
        let mark = keys.mark(claim.token);
        let (short, long): ([&[u8]; 3], [&[u8]; 5]) =
            ([&keys.lock, &keys.fence, &mark], [&keys.lock, &keys.fence, &mark, &keys.wake, &keys.waiter]);
        let waiting = if claim.waits { millis(WAITER_MARK) } else { 0 };
        let ask = |keys: &[&[u8]]| {
            let encode = |form, command: &mut Cmd| {
                let command = ACQUIRE.call(command, form, keys).arg(claim.token).arg(millis(claim.ttl));
                command.arg(&floor()).arg(millis(claim.ttl + FENCE_OUTLIVES));
                if keys.len() > short.len() {
                    command.arg(waiting).arg(claim.reservation.unwrap_or_default());
                }
            };
            self.node.borrow_mut().run(Operation::Acquire, &encode, budget)
        };
        let mut answer = if claim.waits || claim.reservation.is_some() { ask(&long)? } else { ask(&short)? };
        if !claim.waits && matches!(said(&answer.reply), Said::Word(b"reserved", _)) {
            // Perhaps nobody is there to take it: the longer form looks.
            let unanswered_before = answer.may_arrive_again;
            answer = ask(&long)?;
            answer.may_arrive_again |= unanswered_before;
        }
        let outcome = match said(&answer.reply) {
            Said::Number(fence @ 1..) => Outcome::Held(Grant { fence, sent_at: answer.sent_at }),
            Said::Word(b"contended", Some(left)) => {
                Outcome::Contended(u64::try_from(left).ok().map(Duration::from_millis))
            }
            // How long it is kept for a waiter is no reason to wake others.
            Said::Word(b"reserved", Some(_)) => Outcome::Contended(None),
            Said::Word(b"dead", None) => Outcome::Dead,
            _ => return self.nonsense(Operation::Acquire, &answer.reply),
        };
        Ok(Claimed { outcome, may_arrive_again: answer.may_arrive_again })
    }

    fn renew(&self, keys: &Keys, token: &[u8], ttl: Duration, budget: Budget) -> Result<Renewed> {
        let encode = |form, command: &mut Cmd| {
            let command = RENEW.call(command, form, &[&keys.lock, &keys.fence]).arg(token).arg(millis(ttl));
            command.arg(&floor()).arg(millis(ttl + FENCE_OUTLIVES));
        };
        let answer = self.node.borrow_mut().run(Operation::Renew, &encode, budget)?;
        match said(&answer.reply) {
            Said::Number(fence @ 1..) => Ok(Renewed::Held(Grant { fence, sent_at: answer.sent_at })),
            Said::Word(b"lost", Some(taken)) => Ok(Renewed::Lost(loss(taken))),
            _ => self.nonsense(Operation::Renew, &answer.reply),
        }
    }

    fn release(&self, keys: &Keys, token: &[u8], memory: Memory, budget: Budget) -> Result<Released> {
        let mark = keys.mark(token);
        let encode = |form, command: &mut Cmd| {
            let command = RELEASE.call(command, form, &[&keys.lock, &mark, &keys.wake, &keys.waiter]).arg(token);
            match memory {
                Memory::LockLife => {}
                Memory::For(span) => {
                    command.arg(millis(span));
                }
                Memory::ForGood => {
                    command.arg(millis(DEAD_MARK)).arg("dead");
                }
            }
        };
        let answer = self.node.borrow_mut().run(Operation::Release, &encode, budget)?;
        match said(&answer.reply) {
            Said::Number(1) => Ok(Released::Ours),
            Said::Word(b"lost", Some(taken)) => Ok(Released::Lost(loss(taken))),
            _ => self.nonsense(Operation::Release, &answer.reply),
        }
    }

    fn owner(&self, keys: &Keys, budget: Budget) -> Result<Option<Vec<u8>>> {
        let reply = self.node.borrow_mut().ask(Operation::Owner, redis::cmd("GET").arg(&keys.lock), budget)?;
        match reply {
            Value::Nil => Ok(None),
            Value::BulkString(token) if token.starts_with(RESERVED) => Ok(None),
            Value::BulkString(token) => Ok(Some(token)),
            other => self.nonsense(Operation::Owner, &other),
        }
    }

    fn force_release(&self, keys: &Keys, budget: Budget) -> Result<bool> {
        let encode = |form, command: &mut Cmd| {
            FORCE_RELEASE.call(command, form, &[&keys.lock, &keys.wake, &keys.waiter]);
        };
        let answer = self.node.borrow_mut().run(Operation::ForceRelease, &encode, budget)?;
        match said(&answer.reply) {
            Said::Number(1) => Ok(true),
            Said::Number(0) => Ok(false),
            _ => self.nonsense(Operation::ForceRelease, &answer.reply),
        }
    }

    fn line(&self, keys: &Keys, timeouts: Timeouts, deadline: Moment) -> Box<dyn Line> {
        Box::new(Place::new(&self.queue, &self.node, &keys.wake, timeouts, deadline))
    }

    fn give_back(&self, keys: &Keys, reservation: &[u8], budget: Budget) -> Result<()> {
        let encode = |form, command: &mut Cmd| {
            GIVE_BACK.call(command, form, &[&keys.lock, &keys.wake, &keys.waiter]).arg(reservation);
        };
        self.node.borrow_mut().run(Operation::GiveBack, &encode, budget).map(|_| ())
    }

    fn ping(&self, budget: Budget) -> Vec<(String, std::result::Result<Duration, String>)> {
        let mut node = self.node.borrow_mut();
        let mut answers = vec![(node.name(), node.ping(budget))];
        if let Some(refusal) = self.queue.borrow_mut().tell_refusal() {
            answers
                .push((format!("{} (waiting)", node.name()), Err(format!("polls, since BLPOP is refused: {refusal}"))));
        }
        answers
    }

    fn close(&self) {
        self.node.borrow_mut().close();
        self.queue.borrow_mut().close();
    }
}

fn loss(taken: i64) -> Loss {
    if taken == 1 { Loss::Taken } else { Loss::Gone }
}

/// The floor of a fence, as it is at this sending: 16 digits.
fn floor() -> [u8; 16] {
    let mut rest = clock::wall_micros().min(MAX_FLOOR);
    let mut digits = [b'0'; 16];
    for digit in digits.iter_mut().rev() {
        *digit += u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
    }
    digits
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A script's answer.
enum Said<'a> {
    /// What is asked for most: a fence, or yes and no.
    Number(u64),
    /// How it is otherwise, and a number if that has one.
    Word(&'a [u8], Option<i64>),
    /// None of our scripts says so.
    Nonsense,
}

fn said(reply: &Reply) -> Said<'_> {
    match reply {
        Value::Int(number) => u64::try_from(*number).map_or(Said::Nonsense, Said::Number),
        Value::Array(items) => match items.as_slice() {
            [Value::BulkString(word)] => Said::Word(word, None),
            [Value::BulkString(word), Value::Int(number)] => Said::Word(word, Some(*number)),
            _ => Said::Nonsense,
        },
        _ => Said::Nonsense,
    }
}

/// What kind of reply it was; its content may be anything, so it is not shown.
fn shape(reply: &Reply) -> &'static str {
    match reply {
        Value::Nil => "null",
        Value::Int(_) => "a number",
        Value::BulkString(_) | Value::SimpleString(_) | Value::Okay => "a string",
        Value::Array(_) => "an array of another form",
        _ => "a value of another kind",
    }
}
