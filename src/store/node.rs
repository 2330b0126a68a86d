//! One server: its link, kept from call to call, and what a command's fate says about its outcome.
//!
//! Connect failed: not executed. Write incomplete: not executed. No answer: unknown, and resolved by
//! sending the same command again on a fresh link, as long as the call's budget lasts.

use super::script::Form;
use crate::{
    clock::Moment,
    error::{Error, Operation, Result, is_passing_code},
    net::{Budget, Fault, Link, Reason, Refusal, Reply, dsn::Endpoint},
};
use rand::{TryRng, rngs::SysRng};
use redis::Cmd;
use std::time::Duration;

/// One server and the link to it.
pub struct Node {
    endpoint: Endpoint,
    link: Option<Link>,
    /// Kept for its memory only.
    command: Cmd,
}

/// Makes the command for one sending of a request.
pub type Encode<'a> = &'a dyn Fn(Form, &mut Cmd);

/// A reply, and what is known of its command.
pub struct Answer {
    /// What the server said.
    pub reply: Reply,
    /// When the command that was answered had been sent.
    pub sent_at: Moment,
    /// Whether an earlier sending went unanswered: it may still arrive.
    pub may_arrive_again: bool,
}

/// Pause before the first resending; each further one waits up to twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

impl Node {
    /// A server not connected to yet.
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, link: None, command: Cmd::new() }
    }

    /// The address, for messages.
    pub fn name(&self) -> String {
        self.endpoint.to_string()
    }

    /// Where the server is.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Closes the link.
    pub fn close(&mut self) {
        self.link = None;
    }

    /// Runs a command and finds out what came of it, by sending it again where that changes nothing.
    /// `encode` makes it anew for each sending.
    pub fn run(&mut self, operation: Operation, encode: Encode<'_>, budget: Budget) -> Result<Answer> {
        let mut unanswered: Option<Reason> = None;
        let mut pause = FIRST_PAUSE;
        loop {
            let is_kept = self.keep_or_connect(budget);
            let fault = match is_kept.map(|is_kept| (is_kept, self.attempt(encode, budget))) {
                Ok((_, Ok((Ok(reply), sent_at)))) => {
                    return Ok(Answer { reply, sent_at, may_arrive_again: unanswered.is_some() });
                }
                Ok((_, Ok((Err(refusal), _)))) => {
                    if refusal.code == "READONLY" {
                        // The primary may be another server now, behind the same name.
                        self.close();
                    }
                    // A refusal answers this sending; one that went unanswered stays unknown.
                    match unanswered {
                        None => return Err(Error::Refused { operation, node: self.name(), refusal }),
                        Some(_) if is_passing_code(&refusal.code) => Fault::unsent(Reason::Refused(refusal)),
                        Some(reason) => return Err(self.unknown(operation, reason)),
                    }
                }
                // A kept link that the server had closed: that was no try.
                Ok((true, Err(fault))) if !fault.sent && unanswered.is_none() => continue,
                Ok((_, Err(fault))) => fault,
                Err(reason) => Fault::unsent(reason),
            };
            if fault.sent && !operation.is_repeatable() {
                return Err(self.unknown(operation, fault.reason));
            }
            if fault.sent {
                unanswered.get_or_insert(fault.reason);
            } else if unanswered.is_none() {
                return Err(self.not_executed(operation, fault.reason));
            }
            if pause >= budget.end.remaining() {
                let reason = unanswered.unwrap_or(Reason::TimedOut);
                return Err(self.unknown(operation, reason));
            }
            std::thread::sleep(jittered(pause));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Asks a question in a plain command.
    pub fn ask(&mut self, operation: Operation, command: &Cmd, budget: Budget) -> Result<Reply> {
        self.run(operation, &|_, to| to.clone_from(command), budget).map(|answer| answer.reply)
    }

    /// The round trip of a sign of life, or what is in its way.
    pub fn ping(&mut self, budget: Budget) -> std::result::Result<Duration, String> {
        self.keep_or_connect(budget).map_err(|reason| reason.to_string())?;
        match self.attempt(&|_, command| *command = redis::cmd("PING"), budget) {
            Ok((Ok(_), sent_at)) => Ok(Moment::now().since(sent_at)),
            Ok((Err(refusal), _)) => Err(refusal.to_string()),
            Err(fault) => Err(fault.reason.to_string()),
        }
    }

    /// A usable link: the one at hand (true), or a new one (false).
    fn keep_or_connect(&mut self, budget: Budget) -> std::result::Result<bool, Reason> {
        if self.link.as_ref().is_some_and(Link::is_usable) {
            return Ok(true);
        }
        self.link = None;
        self.link = Some(Link::connect(&self.endpoint, budget.connect_by())?);
        Ok(false)
    }

    fn attempt(
        &mut self,
        encode: Encode<'_>,
        budget: Budget,
    ) -> std::result::Result<(std::result::Result<Reply, Refusal>, Moment), Fault> {
        let command = &mut self.command;
        let Some(link) = &mut self.link else { return Err(Fault::unsent(Reason::Closed)) };
        let mut exchange = |form| {
            encode(form, command);
            let sent_at = Moment::now();
            link.exchange(command, budget.command_by(), budget.spin()).map(|reply| (reply, sent_at))
        };
        let result = match exchange(Form::Digest) {
            Ok((Err(refusal), _)) if refusal.code == "NOSCRIPT" => exchange(Form::Source),
            other => other,
        };
        if result.is_err() {
            self.link = None;
        }
        result
    }

    fn not_executed(&self, operation: Operation, reason: Reason) -> Error {
        match reason {
            Reason::Refused(refusal) => Error::Refused { operation, node: self.name(), refusal },
            reason => Error::Unavailable { node: self.name(), reason },
        }
    }

    fn unknown(&self, operation: Operation, reason: Reason) -> Error {
        Error::Unknown { operation, node: self.name(), reason }
    }
}

/// Half to all of `span`: callers that failed together must not come back together.
pub fn jittered(span: Duration) -> Duration {
    let share = SysRng.try_next_u32().unwrap_or_default() % 512;
    span * (512 + share) / 1024
}
