//! What is asked of one server, and what its answers mean. Every store asks in these words, whether it
//! asks one server or many.

use super::{
    Keys, Loss, Memory, Released,
    script::{ACQUIRE, FORCE_RELEASE, Form, GIVE_BACK, RAISE, RELEASE, RENEW},
};
use crate::{clock, error::Operation, net::Reply};
use redis::{Cmd, Value};
use std::time::Duration;

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

/// One question to one server, about one lock.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// Takes the lock.
    Acquire {
        /// Unique to the attempt.
        token: &'a [u8],
        /// The mark of that token.
        mark: &'a [u8],
        /// How long the lock lives without a renewal.
        ttl: Duration,
        /// What who waits or met a reservation says beside.
        queue: Option<Queueing<'a>>,
    },
    /// Extends the lock while the token owns it.
    Renew {
        /// Whose lock it must be.
        token: &'a [u8],
        /// From now on, at least.
        ttl: Duration,
        /// Whether the lease was over for its owner: then its fence rises to the floor.
        is_revival: bool,
    },
    /// Raises the fence of a lock that the token owns to this number at least.
    Raise {
        /// Whose lock it must be.
        token: &'a [u8],
        /// How long the lock lives without a renewal.
        ttl: Duration,
    },
    /// Gives the lock back if the token owns it.
    Release {
        /// Whose lock it must be.
        token: &'a [u8],
        /// The mark of that token.
        mark: &'a [u8],
        /// How long this is remembered.
        memory: Memory,
    },
    /// Removes whoever's lock it is.
    ForceRelease,
    /// Passes a reservation on.
    GiveBack(&'a [u8]),
    /// Asks for the owner's token.
    Owner,
    /// Asks for a sign of life.
    Ping,
}

/// What an attempt that may use the wake list says.
#[derive(Clone, Copy, Debug)]
pub struct Queueing<'a> {
    /// Whether the caller waits if somebody else has the lock.
    pub waits: bool,
    /// The reservation that a release handed to the caller.
    pub reservation: Option<&'a [u8]>,
}

impl Request<'_> {
    /// Makes `command` the one that asks this about the lock of `keys`; `floor` is the least fence that a
    /// grant may give.
    pub fn encode(&self, keys: &Keys, floor: u64, form: Form, command: &mut Cmd) {
        let Keys { lock, fence, wake, waiter, .. } = keys;
        match *self {
            Self::Acquire { token, mark, ttl, queue } => {
                let long: [&[u8]; 5] = [lock, fence, mark, wake, waiter];
                let keys = if queue.is_some() { &long[..] } else { &[lock, fence, mark] };
                let command = ACQUIRE.call(command, form, keys).arg(token).arg(millis(ttl));
                command.arg(&digits(floor)).arg(millis(ttl + FENCE_OUTLIVES));
                if let Some(Queueing { waits, reservation }) = queue {
                    let mark = if waits { millis(WAITER_MARK) } else { 0 };
                    command.arg(mark).arg(reservation.unwrap_or_default());
                }
            }
            Self::Renew { token, ttl, is_revival } => {
                let command = RENEW.call(command, form, &[lock, fence]).arg(token).arg(millis(ttl));
                command.arg(&digits(floor)).arg(millis(ttl + FENCE_OUTLIVES));
                if is_revival {
                    command.arg("revival");
                }
            }
            Self::Raise { token, ttl } => {
                let command = RAISE.call(command, form, &[lock, fence]).arg(token);
                command.arg(&digits(floor)).arg(millis(ttl + FENCE_OUTLIVES));
            }
            Self::Release { token, mark, memory } => {
                let command = RELEASE.call(command, form, &[lock, mark, wake, waiter]).arg(token);
                match memory {
                    Memory::LockLife => {}
                    Memory::For(span) => {
                        command.arg(millis(span));
                    }
                    Memory::ForGood => {
                        command.arg(millis(DEAD_MARK)).arg("dead");
                    }
                }
            }
            Self::ForceRelease => {
                FORCE_RELEASE.call(command, form, &[lock, wake, waiter]);
            }
            Self::GiveBack(reservation) => {
                GIVE_BACK.call(command, form, &[lock, wake, waiter]).arg(reservation);
            }
            Self::Owner => {
                command.clear();
                command.arg("GET").arg(lock);
            }
            Self::Ping => {
                command.clear();
                command.arg("PING");
            }
        }
    }

    /// What it is called in messages.
    pub fn operation(&self) -> Operation {
        match self {
            Self::Acquire { .. } => Operation::Acquire,
            Self::Renew { .. } => Operation::Renew,
            Self::Raise { .. } => Operation::Raise,
            Self::Release { .. } => Operation::Release,
            Self::ForceRelease => Operation::ForceRelease,
            Self::GiveBack(_) => Operation::GiveBack,
            Self::Owner => Operation::Owner,
            Self::Ping => Operation::Ping,
        }
    }
}

/// One server's answer to an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The lock is the token's, with this fence.
    Granted(u64),
    /// Another owner has it, for so long at most if nobody renews; None: it has no TTL.
    Held(Option<Duration>),
    /// It is kept for a waiter.
    Reserved,
    /// The token was released for good before.
    Dead,
}

/// One server's answer to a renewal, or to a fence that was raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extended {
    /// The lock is still the token's, with this fence.
    Held(u64),
    /// It is not.
    Lost(Loss),
}

impl Extended {
    /// Whether there is no lock at all in place of the token's.
    pub fn is_gone(self) -> bool {
        self == Self::Lost(Loss::Gone)
    }
}

/// Reads the answer to [`Request::Acquire`]; None for one that our script does not give.
pub fn claimed(reply: &Reply) -> Option<Claimed> {
    match said(reply)? {
        Said::Number(fence @ 1..) => Some(Claimed::Granted(fence)),
        Said::Word(b"contended", Some(left)) => {
            Some(Claimed::Held(u64::try_from(left).ok().map(Duration::from_millis)))
        }
        Said::Word(b"reserved", Some(_)) => Some(Claimed::Reserved),
        Said::Word(b"dead", None) => Some(Claimed::Dead),
        _ => None,
    }
}

/// Reads the answer to [`Request::Renew`] and to [`Request::Raise`].
pub fn extended(reply: &Reply) -> Option<Extended> {
    match said(reply)? {
        Said::Number(fence @ 1..) => Some(Extended::Held(fence)),
        Said::Word(b"lost", Some(taken)) => Some(Extended::Lost(loss(taken))),
        _ => None,
    }
}

/// Reads the answer to [`Request::Release`].
pub fn freed(reply: &Reply) -> Option<Released> {
    match said(reply)? {
        Said::Number(1) => Some(Released::Ours),
        Said::Word(b"lost", Some(taken)) => Some(Released::Lost(loss(taken))),
        _ => None,
    }
}

/// Reads the answer to [`Request::ForceRelease`]: whether there was a lock.
pub fn force_freed(reply: &Reply) -> Option<bool> {
    match said(reply)? {
        Said::Number(count @ 0..=1) => Some(count == 1),
        _ => None,
    }
}

/// Reads the answer to [`Request::Owner`]: the token of the owner, if there is one.
pub fn owner(reply: Reply) -> Result<Option<Vec<u8>>, Reply> {
    match reply {
        Value::Nil => Ok(None),
        Value::BulkString(token) if token.starts_with(RESERVED) => Ok(None),
        Value::BulkString(token) => Ok(Some(token)),
        other => Err(other),
    }
}

/// Wall time as the floor of a fence.
pub fn floor_now() -> u64 {
    floor_after(0)
}

/// Wall time as the floor of a fence, on a clock that is so many µs ahead of ours.
pub fn floor_after(ahead: u64) -> u64 {
    clock::wall_micros().saturating_add(ahead).min(MAX_FLOOR)
}

fn loss(taken: i64) -> Loss {
    if taken == 1 { Loss::Taken } else { Loss::Gone }
}

/// A fence as the scripts take it: 16 digits.
fn digits(mut number: u64) -> [u8; 16] {
    let mut digits = [b'0'; 16];
    for digit in digits.iter_mut().rev() {
        *digit += u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
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
}

fn said(reply: &Reply) -> Option<Said<'_>> {
    match reply {
        Value::Int(number) => u64::try_from(*number).ok().map(Said::Number),
        Value::Array(items) => match items.as_slice() {
            [Value::BulkString(word)] => Some(Said::Word(word, None)),
            [Value::BulkString(word), Value::Int(number)] => Some(Said::Word(word, Some(*number))),
            _ => None,
        },
        _ => None,
    }
}

/// What kind of reply it was, for the message about one that none of our scripts gives; its content may be
/// anything, so it is not shown.
pub fn shape(reply: &Reply) -> String {
    let kind = match reply {
        Value::Nil => "null",
        Value::Int(_) => "a number",
        Value::BulkString(_) | Value::SimpleString(_) | Value::Okay => "a string",
        Value::Array(_) => "an array of another form",
        _ => "a value of another kind",
    };
    format!("it answered {kind}")
}
