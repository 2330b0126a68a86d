//! One server: its link, kept from call to call, and what a command's fate says about its outcome.
//!
//! Connect failed: not executed. Write incomplete: not executed. No answer: unknown, and resolved by
//! sending the same command again on a fresh link, as long as the call's budget lasts.

use super::{outage::Outage, script::Form};
use crate::{
    clock::Moment,
    error::{Error, Operation, Result},
    net::{Budget, Fault, Link, Reason, Refusal, Reply, dsn::Endpoint, poll},
};
use rand::{TryRng, rngs::SysRng};
use redis::Cmd;
use std::time::Duration;

/// One server and the link to it.
pub struct Node {
    endpoint: Endpoint,
    link: Option<Link>,
    /// How many links there have been.
    generation: u64,
    /// How long the latest answer took.
    latest_trip: Duration,
    outage: Outage,
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

/// The fate of one sending.
enum Sending {
    Answered(Reply, Moment),
    Refused(Refusal),
    /// Not all of it left, on a link that was kept from earlier or not.
    NotSent(Reason, Kept),
    Unanswered(Reason),
}

/// Whether a link was kept from an earlier call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    Yes,
    No,
}

/// How long a knock is waited for.
const KNOCK: Duration = Duration::from_millis(25);
/// Pause before the first resending; each further one waits up to twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

impl Node {
    /// A server not connected to yet.
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            link: None,
            generation: 0,
            latest_trip: Duration::MAX,
            outage: Outage::default(),
            command: Cmd::new(),
        }
    }

    /// The address, for messages.
    pub fn name(&self) -> String {
        self.endpoint.to_string()
    }

    /// Where the server is.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Changes with each new link, which may lead to another server.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// How long the latest answer took; for ever, if there was none yet.
    pub fn latest_trip(&self) -> Duration {
        self.latest_trip
    }

    /// Closes the link.
    pub fn close(&mut self) {
        self.link = None;
    }

    /// Runs a command and finds out what came of it, by sending it again where that changes nothing.
    /// `encode` makes it anew for each sending.
    pub fn run(&mut self, operation: Operation, encode: Encode<'_>, budget: Budget) -> Result<Answer> {
        if (operation.can_be_put_off() || budget.is_hurried())
            && let Some(reason) = self.outage.reason()
            && !self.knock(budget)
        {
            return Err(self.not_executed(operation, reason));
        }
        let mut unanswered = None;
        let mut pause = FIRST_PAUSE;
        loop {
            match (self.send(encode, budget), &unanswered) {
                (Sending::Answered(reply, sent_at), _) => {
                    return Ok(Answer { reply, sent_at, may_arrive_again: unanswered.is_some() });
                }
                (Sending::Refused(refusal), None) => {
                    return Err(Error::Refused { operation, node: self.name(), refusal });
                }
                // A kept link that the server had closed: that was no try.
                (Sending::NotSent(_, Kept::Yes), None) => continue,
                (Sending::NotSent(reason, Kept::No), None) => return Err(self.not_executed(operation, reason)),
                (Sending::Unanswered(reason), None) if operation.is_repeatable() => unanswered = Some(reason),
                (Sending::Unanswered(reason), None) => return Err(self.unknown(operation, reason)),
                // Nobody will answer any more: the log-in is refused now.
                (Sending::NotSent(reason @ Reason::Refused(_), _), Some(_)) => {
                    return Err(self.unknown(operation, reason));
                }
                // One sending went unanswered: only an answer to another resolves it.
                (_, Some(_)) => {}
            }
            if pause >= budget.end.remaining() || !poll::pause(jittered(pause)) {
                return Err(self.unknown(operation, unanswered.unwrap_or(Reason::TimedOut)));
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Sends a command once, on the link at hand or a new one.
    fn send(&mut self, encode: Encode<'_>, budget: Budget) -> Sending {
        let kept = match self.keep_or_connect(budget) {
            Ok(kept) => kept,
            Err(reason) => return Sending::NotSent(reason, Kept::No),
        };
        match self.exchange(encode, budget) {
            Ok((Ok(reply), sent_at)) => Sending::Answered(reply, sent_at),
            Ok((Err(refusal), _)) => {
                if refusal.code == "READONLY" {
                    // The primary may be another server now, behind the same name.
                    self.close();
                }
                Sending::Refused(refusal)
            }
            Err(fault) if fault.sent => Sending::Unanswered(fault.reason),
            Err(fault) => Sending::NotSent(fault.reason, kept),
        }
    }

    /// Asks a question in a plain command.
    pub fn ask(&mut self, operation: Operation, command: &Cmd, budget: Budget) -> Result<Reply> {
        self.run(operation, &|_, to| to.clone_from(command), budget).map(|answer| answer.reply)
    }

    /// The round trip of a sign of life, or what is in its way.
    pub fn ping(&mut self, budget: Budget) -> std::result::Result<Duration, String> {
        self.keep_or_connect(budget).map_err(|reason| reason.to_string())?;
        match self.exchange(&|_, command| *command = redis::cmd("PING"), budget) {
            Ok((Ok(_), sent_at)) => Ok(Moment::now().since(sent_at)),
            Ok((Err(refusal), _)) => Err(refusal.to_string()),
            Err(fault) => Err(fault.reason.to_string()),
        }
    }

    /// Whether a server that has been silent answers at once now.
    fn knock(&mut self, budget: Budget) -> bool {
        self.ping(budget.at_most(KNOCK)).is_ok()
    }

    /// Makes sure of a usable link: the one at hand, or a new one.
    fn keep_or_connect(&mut self, budget: Budget) -> std::result::Result<Kept, Reason> {
        if self.link.as_mut().is_some_and(Link::is_usable) {
            return Ok(Kept::Yes);
        }
        self.link = None;
        self.generation += 1;
        let link = Link::connect(&self.endpoint, budget.connect_by());
        self.link = Some(link.inspect_err(|reason| self.outage.note(reason))?);
        Ok(Kept::No)
    }

    fn exchange(
        &mut self,
        encode: Encode<'_>,
        budget: Budget,
    ) -> std::result::Result<(std::result::Result<Reply, Refusal>, Moment), Fault> {
        let Self { link: slot, command, outage, latest_trip, .. } = self;
        let Some(link) = slot else { return Err(Fault::unsent(Reason::Closed)) };
        let mut exchange = |form| {
            encode(form, command);
            let sent_at = Moment::now();
            link.exchange(command, budget.command_by(), budget.spin()).map(|reply| (reply, sent_at))
        };
        let result = match exchange(Form::Digest) {
            Ok((Err(refusal), _)) if refusal.code == "NOSCRIPT" => exchange(Form::Source),
            other => other,
        };
        match &result {
            Ok((_, sent_at)) => {
                *latest_trip = Moment::now().since(*sent_at);
                outage.end();
            }
            Err(fault) => {
                outage.note(&fault.reason);
                *slot = None;
            }
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
