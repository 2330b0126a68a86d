//! Where a primary is that sentinels watch over. Any sentinel that answers is believed, and the server it
//! names only after it has said itself that it is the primary.

use super::{
    dsn::{Address, Endpoint},
    fault::Reason,
    link::Link,
    topology::Watched,
};
use crate::clock::Moment;
use redis::Value;
use std::time::Duration;

/// The sentinels of one primary, the one that answered last first.
pub struct Sentinels {
    watched: Watched,
}

/// The least time that one sentinel is given, where there is so much.
const SHARE: Duration = Duration::from_millis(50);

impl Sentinels {
    /// Sentinels that are not asked yet.
    pub fn new(watched: Watched) -> Self {
        Self { watched }
    }

    /// What the sentinels call the primary.
    pub fn name(&self) -> &str {
        &self.watched.name
    }

    /// Connects to the server that is the primary now, before `by`.
    pub fn connect(&mut self, by: Moment) -> Result<(Link, Endpoint), Reason> {
        let mut reasons = Vec::new();
        for turn in 0..self.watched.sentinels.len() {
            let Some(sentinel) = self.watched.sentinels.get(turn) else { break };
            let left = u32::try_from(self.watched.sentinels.len() - turn).unwrap_or(u32::MAX);
            // One that hangs must leave time for the others, and for the primary.
            let share = (by.remaining() / (left + 1)).max(SHARE);
            let told = ask(sentinel, &self.watched.name, by.min(Moment::now() + share));
            let found = told.and_then(|(host, port)| {
                let primary = Endpoint { address: Address::Tcp(host, port), ..self.watched.primary.clone() };
                let link = connect_to_primary(&primary, by)
                    .map_err(|reason| Reason::Elsewhere(primary.to_string(), Box::new(reason)))?;
                Ok((link, primary))
            });
            match found {
                Ok(found) => {
                    self.watched.sentinels.rotate_left(turn);
                    return Ok(found);
                }
                Err(reason) => reasons.push(Reason::Elsewhere(sentinel.to_string(), Box::new(reason))),
            }
            if by.is_past() {
                break;
            }
        }
        // The next call begins with another one.
        self.watched.sentinels.rotate_left(1);
        Err(Reason::NoPrimary { name: self.watched.name.clone(), reasons })
    }
}

fn ask(sentinel: &Endpoint, name: &str, by: Moment) -> Result<(String, u16), Reason> {
    let mut link = Link::connect(sentinel, by)?;
    let mut command = redis::cmd("SENTINEL");
    command.arg("get-master-addr-by-name").arg(name);
    let (reply, _) = link.exchange(&command, by, Duration::ZERO).map_err(|fault| fault.reason)?;
    match reply {
        Ok(Value::Nil) => Err(Reason::Unwatched),
        Ok(Value::Array(items)) => match items.as_slice() {
            [Value::BulkString(host), Value::BulkString(port)] => {
                let host = String::from_utf8(host.clone()).ok();
                let port = std::str::from_utf8(port).ok().and_then(|port| port.parse().ok());
                host.zip(port).ok_or_else(|| Reason::Protocol("an address that is none".into()))
            }
            _ => Err(Reason::Protocol("an answer of another form".into())),
        },
        Ok(_) => Err(Reason::Protocol("an answer of another form".into())),
        Err(refusal) => Err(Reason::Refused(refusal)),
    }
}

/// A replica would refuse what writes, and answer the rest from what it had yesterday.
fn connect_to_primary(endpoint: &Endpoint, by: Moment) -> Result<Link, Reason> {
    let mut link = Link::connect(endpoint, by)?;
    let (reply, _) = link.exchange(&redis::cmd("ROLE"), by, Duration::ZERO).map_err(|fault| fault.reason)?;
    let role = match reply {
        Ok(Value::Array(items)) => items.into_iter().next(),
        Ok(_) => None,
        Err(refusal) => return Err(Reason::Refused(refusal)),
    };
    match role {
        Some(Value::BulkString(role)) if role == b"master" => Ok(link),
        Some(Value::BulkString(_)) => Err(Reason::NotPrimary),
        _ => Err(Reason::Protocol("an answer to ROLE of another form".into())),
    }
}
