//! The store on one server.

use super::{
    Claim, Claimed, Grant, Keys, Loss, Outcome, Released, Renewed, Store,
    node::{Answer, Node},
    script::{ACQUIRE, FORCE_RELEASE, RELEASE, RENEW},
};
use crate::{
    clock,
    error::{Error, Operation, Result},
    net::{Budget, Reason, Reply, dsn::Endpoint},
};
use redis::Value;
use std::{cell::RefCell, time::Duration};

/// How long the state outlives the lease it belongs to: long enough for every retry of a release.
const STATE_OUTLIVES: Duration = Duration::from_secs(300);
/// How long a released lock is kept for the waiter that was woken.
const RESERVATION: Duration = Duration::from_millis(100);
/// How long an abandoned command can be under way: in a proxy, in a stopped server's socket.
const DEAD_MARK: Duration = Duration::from_secs(60);
/// What a lock that nobody may own any more looks like: see free.lua.
const RESERVED: &[u8] = b"reserved:";

/// One server.
pub struct Single {
    node: RefCell<Node>,
}

impl Single {
    /// A store on the server at `endpoint`, which is not connected to yet.
    pub fn new(endpoint: Endpoint) -> Self {
        Self { node: RefCell::new(Node::new(endpoint)) }
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
        let dead = keys.dead(claim.token);
        let (ttl, state_ttl) = (millis(claim.ttl), millis(claim.ttl + STATE_OUTLIVES));
        let answer = self.node.borrow_mut().run(
            Operation::Acquire,
            &|form| {
                ACQUIRE.command(
                    form,
                    &[&keys.lock, &keys.state, &dead, &keys.wake, &keys.waiter],
                    &[claim.token, ttl.as_bytes(), floor().as_bytes(), state_ttl.as_bytes(), b"0", b""],
                )
            },
            budget,
        )?;
        let (word, numbers) = words(&answer.reply);
        let outcome = match (word, numbers.as_slice()) {
            (b"held", [fence]) => Outcome::Held(grant(&answer, *fence)),
            (b"contended", [left, _]) => Outcome::Contended(u64::try_from(*left).ok().map(Duration::from_millis)),
            (b"dead", []) => Outcome::Dead,
            _ => return self.nonsense(Operation::Acquire, &answer.reply),
        };
        Ok(Claimed { outcome, may_arrive_again: answer.may_arrive_again })
    }

    fn renew(&self, keys: &Keys, token: &[u8], ttl: Duration, budget: Budget) -> Result<Renewed> {
        let (ttl, state_ttl) = (millis(ttl), millis(ttl + STATE_OUTLIVES));
        let answer = self.node.borrow_mut().run(
            Operation::Renew,
            &|form| {
                RENEW.command(
                    form,
                    &[&keys.lock, &keys.state],
                    &[token, ttl.as_bytes(), floor().as_bytes(), state_ttl.as_bytes()],
                )
            },
            budget,
        )?;
        let (word, numbers) = words(&answer.reply);
        match (word, numbers.as_slice()) {
            (b"held", [fence]) => Ok(Renewed::Held(grant(&answer, *fence))),
            (b"lost", [taken]) => Ok(Renewed::Lost(loss(*taken))),
            _ => self.nonsense(Operation::Renew, &answer.reply),
        }
    }

    fn release(&self, keys: &Keys, token: &[u8], for_good: bool, budget: Budget) -> Result<Released> {
        let dead = for_good.then(|| keys.dead(token));
        let (state_ttl, window, mark) = (millis(STATE_OUTLIVES), millis(RESERVATION), millis(DEAD_MARK));
        let mut names: Vec<&[u8]> = vec![&keys.lock, &keys.state, &keys.wake, &keys.waiter];
        names.extend(dead.as_deref());
        let arguments: [&[u8]; 4] = [token, state_ttl.as_bytes(), window.as_bytes(), mark.as_bytes()];
        let answer = self.node.borrow_mut().run(
            Operation::Release,
            &|form| RELEASE.command(form, &names, &arguments),
            budget,
        )?;
        let (word, numbers) = words(&answer.reply);
        match (word, numbers.as_slice()) {
            (b"released", []) => Ok(Released::Ours),
            (b"lost", [taken]) => Ok(Released::Lost(loss(*taken))),
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
        let window = millis(RESERVATION);
        let answer = self.node.borrow_mut().run(
            Operation::ForceRelease,
            &|form| FORCE_RELEASE.command(form, &[&keys.lock, &keys.wake, &keys.waiter], &[window.as_bytes()]),
            budget,
        )?;
        let (word, numbers) = words(&answer.reply);
        match (word, numbers.as_slice()) {
            (b"released", []) => Ok(true),
            (b"lost", [_]) => Ok(false),
            _ => self.nonsense(Operation::ForceRelease, &answer.reply),
        }
    }

    fn ping(&self, budget: Budget) -> Vec<(String, std::result::Result<Duration, String>)> {
        let mut node = self.node.borrow_mut();
        vec![(node.name(), node.ping(budget))]
    }

    fn close(&self) {
        self.node.borrow_mut().close();
    }
}

fn grant(answer: &Answer, fence: i64) -> Grant {
    Grant { fence: fence.unsigned_abs(), sent_at: answer.sent_at }
}

fn loss(taken: i64) -> Loss {
    if taken == 1 { Loss::Taken } else { Loss::Gone }
}

/// The floor of a fence, as it is at this sending.
fn floor() -> String {
    clock::wall_micros().to_string()
}

fn millis(span: Duration) -> String {
    span.as_millis().to_string()
}

/// A script's answer: a word, and numbers.
fn words(reply: &Reply) -> (&[u8], Vec<i64>) {
    let Value::Array(items) = reply else { return (b"", Vec::new()) };
    let Some((Value::BulkString(word), rest)) = items.split_first() else { return (b"", Vec::new()) };
    let numbers: Option<Vec<i64>> =
        rest.iter().map(|item| if let Value::Int(number) = item { Some(*number) } else { None }).collect();
    numbers.map_or((b"", Vec::new()), |numbers| (word, numbers))
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
