//! One server: its link, kept from call to call, and what a command's fate says about its outcome.
//!
//! Connect failed: not executed. Write incomplete: not executed. No answer: unknown, and resolved by
//! sending the same command again on a fresh link, as long as the call's budget lasts.

use super::{
    outage::{KNOCK, Outage},
    script::Form,
};
use crate::{
    clock::Moment,
    error::{Error, Operation, Result},
    metrics::{self, Counter, PerServer, Server},
    net::{Budget, Fault, Link, Reason, Refusal, Reply, dsn::Endpoint, poll, sentinel::Sentinels, topology::Watched},
};
use rand::{TryRng, rngs::SysRng};
use redis::Cmd;
use std::time::Duration;

/// One server and the link to it.
pub struct Node {
    place: Place,
    link: Option<Link>,
    /// The next command is for a slot that is just being moved here.
    is_asking: bool,
    /// Whether there was a link before.
    was_connected: bool,
    /// How many links there have been.
    generation: u64,
    /// How long the latest answer took.
    latest_trip: Duration,
    outage: Outage,
    server: Server,
    /// Kept for its memory only.
    command: Cmd,
}

/// Where the server is.
enum Place {
    Fixed(Endpoint),
    /// Where the sentinels say, and the primary they named last.
    Watched(Box<Sentinels>, Option<Endpoint>),
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

/// Pause before the first resending; each further one waits up to twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

impl Node {
    /// A server not connected to yet.
    pub fn new(endpoint: Endpoint) -> Self {
        Self::at(Place::Fixed(endpoint))
    }

    /// The primary that sentinels name, not connected to yet.
    pub fn watched(watched: Watched) -> Self {
        Self::at(Place::Watched(Box::new(Sentinels::new(watched)), None))
    }

    fn at(place: Place) -> Self {
        Self {
            place,
            link: None,
            is_asking: false,
            was_connected: false,
            generation: 0,
            latest_trip: Duration::MAX,
            outage: Outage::default(),
            server: Server::default(),
            command: Cmd::new(),
        }
    }

    /// The address, for messages.
    pub fn name(&self) -> String {
        match &self.place {
            Place::Fixed(endpoint) | Place::Watched(_, Some(endpoint)) => endpoint.to_string(),
            Place::Watched(sentinels, None) => sentinels.name().to_owned(),
        }
    }

    /// Where the server is; None while nobody has said it.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        match &self.place {
            Place::Fixed(endpoint) | Place::Watched(_, Some(endpoint)) => Some(endpoint),
            Place::Watched(_, None) => None,
        }
    }

    /// Whether another server may come in its place, so that its silence is not waited out.
    pub fn is_replaceable(&self) -> bool {
        matches!(self.place, Place::Watched(..))
    }

    /// The next command is about a slot that is just being moved to this server.
    pub fn ask_next(&mut self) {
        self.is_asking = true;
    }

    /// Changes with each new link, which may lead to another server.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// How long the latest answer took; for ever, if there was none yet.
    pub fn latest_trip(&self) -> Duration {
        self.latest_trip
    }

    /// Notes how long an answer took on another link to the same server.
    pub fn note_trip(&mut self, trip: Duration) {
        self.latest_trip = trip;
    }

    /// Whether the server is remembered as silent, and only knocked at for a moment.
    pub fn is_silent(&self) -> bool {
        self.outage.reason().is_some()
    }

    /// Forgets that the server was silent.
    pub fn forgive(&mut self) {
        self.outage.end();
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
        let mut is_demoted = false;
        loop {
            match (self.send(encode, budget), &unanswered) {
                (Sending::Answered(reply, sent_at), _) => {
                    if unanswered.is_some() {
                        metrics::count(Counter::UnknownResent);
                    }
                    return Ok(Answer { reply, sent_at, may_arrive_again: unanswered.is_some() });
                }
                // It was the primary when the link was made. Who is it now?
                (Sending::Refused(refusal), None)
                    if refusal.code == "READONLY" && self.is_replaceable() && !is_demoted =>
                {
                    is_demoted = true;
                    continue;
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
            metrics::count(Counter::RetryUnanswered);
        }
    }

    /// Runs several commands in one round trip, where that succeeds at once: the answers, and when the commands had
    /// been sent. None: each is to be run by itself, which changes nothing where it has been executed.
    pub fn run_together(&mut self, encode: &[Encode<'_>], budget: Budget) -> Option<(Vec<Reply>, Moment)> {
        if self.outage.reason().is_some() || self.keep_or_connect(budget).is_err() {
            return None;
        }
        let link = self.link.as_mut()?;
        for encode in encode {
            encode(Form::Digest, &mut self.command);
            link.queue(&self.command);
        }
        let sent_at = Moment::now();
        match link.exchange_queued(encode.len(), budget.command_by()) {
            Ok(replies) => {
                replies.iter().for_each(|reply| self.count(kind_of(reply)));
                replies.into_iter().collect::<std::result::Result<_, _>>().ok().map(|all| (all, sent_at))
            }
            Err(reason) => {
                self.note_fault(&reason);
                self.link = None;
                None
            }
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
        let by = budget.connect_by();
        let link = match &mut self.place {
            Place::Fixed(endpoint) => Link::connect(endpoint, by),
            Place::Watched(sentinels, known) => sentinels.connect(by).map(|(link, primary)| {
                *known = Some(primary);
                link
            }),
        };
        self.server.forget();
        self.link = Some(link.inspect_err(|reason| self.note_fault(reason))?);
        if self.was_connected {
            self.count(PerServer::Reconnects);
        }
        self.was_connected = true;
        Ok(Kept::No)
    }

    fn exchange(
        &mut self,
        encode: Encode<'_>,
        budget: Budget,
    ) -> std::result::Result<(std::result::Result<Reply, Refusal>, Moment), Fault> {
        let Self { link: slot, command, outage, latest_trip, is_asking, .. } = self;
        let Some(link) = slot else { return Err(Fault::unsent(Reason::Closed)) };
        if std::mem::take(is_asking) {
            // Whatever comes of it shows at the command itself.
            let asked = link.exchange(&redis::cmd("ASKING"), budget.command_by(), Duration::ZERO);
            let (_, _) = asked.map_err(|fault| Fault::unsent(fault.reason))?;
        }
        let mut exchange = |form| {
            encode(form, command);
            link.exchange(command, budget.command_by(), budget.spin())
        };
        let result = match exchange(Form::Digest) {
            Ok((Err(refusal), _)) if refusal.code == "NOSCRIPT" => exchange(Form::Source),
            other => other,
        };
        match &result {
            Ok((reply, sent_at)) => {
                *latest_trip = Moment::now().since(*sent_at);
                outage.end();
                self.count(kind_of(reply));
            }
            Err(fault) => {
                self.link = None;
                // That it found a kept link closed is no fault of the server's.
                if fault.sent || !matches!(fault.reason, Reason::Closed | Reason::Io(_)) {
                    self.note_fault(&fault.reason);
                }
            }
        }
        result
    }

    fn note_fault(&mut self, reason: &Reason) {
        self.outage.note(reason);
        if let Some(kind) = reason.kind() {
            self.count(kind);
        }
    }

    fn count(&self, what: PerServer) {
        self.server.count(what, || self.name());
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

/// As what an answer is counted. To be sent elsewhere, or asked for the whole script, is no fault.
pub(super) fn kind_of(reply: &std::result::Result<Reply, Refusal>) -> PerServer {
    match reply {
        Err(refusal) if !matches!(refusal.code.as_str(), "NOSCRIPT" | "MOVED" | "ASK") => PerServer::Refused,
        _ => PerServer::Answers,
    }
}

/// Half to all of `span`: callers that failed together must not come back together.
pub fn jittered(span: Duration) -> Duration {
    let share = SysRng.try_next_u32().unwrap_or_default() % 512;
    span * (512 + share) / 1024
}
