//! One node of a quorum: its link, and what is still owed on it. Nothing here waits: the round does, for all
//! nodes at once.

use super::{
    Keys,
    node::kind_of,
    outage::Outage,
    probe::{self, Identity},
    protocol::Request,
    script::Form,
};
use crate::{
    clock::Moment,
    error::Operation,
    metrics::{PerServer, Server},
    net::{Budget, Link, Reason, Refusal, Reply, dsn::Endpoint, poll::Interest},
};
use redis::Cmd;
use std::{collections::VecDeque, time::Duration};

/// One node.
pub struct Member {
    pub(super) endpoint: Endpoint,
    pub(super) link: Option<Link>,
    /// When the link must be made.
    pub(super) connect_by: Moment,
    /// Since when it has owed us a connection or the oldest answer.
    pub(super) silent_since: Moment,
    /// When it was last looked whether a silent node has answered after all.
    looked_at: Moment,
    /// What was sent and not answered yet, oldest first.
    owed: VecDeque<Owed>,
    /// What the server said of itself on this link, once it has.
    pub(super) identity: Option<Identity>,
    /// The scripts this link has sent in full, a bit for each operation.
    known: u16,
    pub(super) outage: Outage,
    server: Server,
    /// Whether there was a link that was answered on.
    was_connected: bool,
    /// The latest link failed, and no other has been answered on since.
    is_away: bool,
    /// How long the latest answer took.
    trip: Duration,
    /// A renewal found that the node holds no copy for this token.
    missing: Option<Box<[u8]>>,
    /// Kept for its memory only.
    command: Cmd,
}

/// An answer that is owed.
struct Owed {
    /// The round it belongs to; none reads the answer to [`NOBODY`]'s.
    ticket: u64,
    operation: Operation,
    sent_at: Moment,
    /// The renewal's token: a late "no longer yours" is good to know.
    renews: Option<Box<[u8]>>,
}

/// A node's answer, and when the question had been sent.
pub type Answer = (Result<Reply, Refusal>, Moment);

/// The question of one round, the same for all members but for the request itself.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    pub ticket: u64,
    pub request: Request<'a>,
    pub keys: &'a Keys,
    pub floor: u64,
    pub budget: Budget,
}

impl Ask<'_> {
    /// Whether nothing is lost when it is not waited for.
    pub fn can_be_put_off(&self) -> bool {
        self.request.operation().can_be_put_off() || self.budget.is_hurried()
    }
}

/// A ticket of commands whose answers nobody reads.
pub(super) const NOBODY: u64 = 0;
/// The ticket of the probe.
pub(super) const PROBE: u64 = 1;
/// Who owes an answer for so long is left out of rounds that can do without it.
const SILENCE: Duration = Duration::from_millis(10);
/// How often it is looked whether it has answered.
const LOOK: Duration = Duration::from_millis(1);
/// More unanswered commands than this are not queued on one link.
const MOST_OWED: usize = 256;
/// Who owes so many is asked nothing more: there must be room behind a question for what takes it back.
const MOST_ASKED: usize = 64;
/// A link that is full is given up after so long a silence. Earlier, it still carries the releases of what
/// was taken on it: a server does not read to the end what it cannot answer any more.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(30);

impl Member {
    /// A node not connected to yet.
    pub fn new(endpoint: Endpoint) -> Self {
        let now = Moment::now();
        Self {
            endpoint,
            link: None,
            connect_by: now,
            silent_since: now,
            looked_at: now,
            owed: VecDeque::new(),
            identity: None,
            known: 0,
            outage: Outage::default(),
            server: Server::default(),
            was_connected: false,
            is_away: false,
            trip: Duration::MAX,
            missing: None,
            command: Cmd::new(),
        }
    }

    /// Where the node is.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// How long the latest answer took; for ever, if there was none yet.
    pub fn trip(&self) -> Duration {
        self.trip
    }

    /// What the server at the other end said of itself, while the link stands.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Takes up whatever has arrived, and forgets a link that another process made.
    pub(super) fn refresh(&mut self) {
        if self.link.as_ref().is_some_and(|link| !link.is_ours()) {
            self.drop_link();
        }
        let Some(link) = &mut self.link else { return };
        if let Err(reason) = link.advance() {
            self.failed(&reason);
        } else if link.is_open() {
            // What nobody waits for any more.
            if let Err(reason) = self.drain(NOBODY) {
                self.failed(&reason);
            }
        } else if self.connect_by.is_past() {
            self.failed(&Reason::ConnectTimedOut("the server did not answer"));
        }
    }

    /// Why a round should do without this node if it can.
    pub fn left_out(&mut self) -> Option<Reason> {
        let is_silent = |member: &Self| {
            let owes = member.link.as_ref().is_some_and(|link| !link.is_open() || !member.owed.is_empty());
            owes && (Moment::now().since(member.silent_since) > SILENCE || member.owed.len() > MOST_ASKED)
        };
        if is_silent(self) {
            let now = Moment::now();
            if now.since(self.looked_at) > LOOK {
                self.looked_at = now;
                self.refresh();
            }
            if is_silent(self) {
                return Some(Reason::LeftAlone("no answer".into()));
            }
        }
        if self.link.is_some() { None } else { self.outage.reason() }
    }

    /// Whether the node is in nobody's way, as far as is known without asking.
    pub fn is_there(&mut self) -> bool {
        !self.is_away && self.left_out().is_none()
    }

    /// Closes the link.
    pub fn close(&mut self) {
        self.drop_link();
        self.outage.end();
    }

    pub(super) fn drop_link(&mut self) {
        self.link = None;
        self.owed.clear();
        self.identity = None;
        self.known = 0;
    }

    pub(super) fn failed(&mut self, reason: &Reason) {
        self.drop_link();
        self.is_away = true;
        self.outage.note(reason);
    }

    /// Sends a command whose answer nobody reads, behind whatever is under way on the link. Without a
    /// link nothing is sent.
    pub fn post(&mut self, ask: &Ask<'_>) {
        if self.link.as_ref().is_some_and(|link| link.is_open() && link.is_ours()) {
            if self.owed.len() < MOST_OWED {
                // A link that fails shows it the next time.
                let _ = self.send(&Ask { ticket: NOBODY, ..*ask });
            } else if Moment::now().since(self.silent_since) > GIVEN_UP_AFTER {
                self.drop_link();
            }
        }
    }

    /// Whether the node owes answers, and not for longer than `span`.
    pub fn owes_lately(&self, span: Duration) -> bool {
        let is_open = self.link.as_ref().is_some_and(|link| link.is_open() && link.is_ours());
        is_open && !self.owed.is_empty() && Moment::now().since(self.silent_since) < span
    }

    /// Whether the node owes the answer to the round's question.
    pub fn owes(&self, ticket: u64) -> bool {
        self.owed.iter().any(|owed| owed.ticket == ticket)
    }

    /// Whether a renewal with this token found nothing here.
    pub fn misses(&self, token: &[u8]) -> bool {
        self.missing.as_deref() == Some(token)
    }

    /// Notes that the node has, or has not, a copy for this token.
    pub fn note_copy(&mut self, token: &[u8], is_there: bool) {
        self.missing = (!is_there).then(|| token.into());
    }

    pub(super) fn send(&mut self, ask: &Ask<'_>) -> Result<Moment, Reason> {
        let Some(link) = &mut self.link else { return Err(Reason::Closed) };
        let operation = ask.request.operation();
        let bit = 1_u16 << (operation as u16);
        // In full the first time on each link: a digest that the server does not know would be found out too
        // late where nobody waits for the answer.
        let form = if self.known & bit == 0 { Form::Source } else { Form::Digest };
        self.known |= bit;
        ask.request.encode(ask.keys, ask.floor, form, &mut self.command);
        let sent_at = Moment::now();
        link.queue(&self.command);
        if self.owed.is_empty() {
            self.silent_since = sent_at;
        }
        let renews = match ask.request {
            Request::Renew { token, .. } => Some(token.into()),
            _ => None,
        };
        self.owed.push_back(Owed { ticket: ask.ticket, operation, sent_at, renews });
        link.send().map(|()| sent_at)
    }

    pub(super) fn probe(&mut self) -> Result<(), Reason> {
        let Some(link) = &mut self.link else { return Err(Reason::Closed) };
        link.queue(&probe::command());
        self.silent_since = Moment::now();
        let sent_at = self.silent_since;
        self.owed.push_back(Owed { ticket: PROBE, operation: Operation::Ping, sent_at, renews: None });
        link.send()
    }

    /// Reads the answers that are there. The one to `ticket` is given back, the others are taken note of.
    pub(super) fn drain(&mut self, ticket: u64) -> Result<Option<Answer>, Reason> {
        while let Some(link) = &mut self.link
            && let Some(reply) = link.take_reply()?
        {
            let Some(owed) = self.owed.pop_front() else {
                return Err(Reason::Protocol("an answer that nobody asked for".into()));
            };
            let now = Moment::now();
            self.trip = now.since(owed.sent_at);
            self.silent_since = now;
            self.is_away = false;
            self.outage.end();
            self.count(kind_of(&reply));
            if owed.ticket == PROBE {
                if std::mem::replace(&mut self.was_connected, true) {
                    self.count(PerServer::Reconnects);
                }
                self.identity = Some(Identity::read(&reply, now));
            } else if let Err(refusal) = &reply
                && refusal.code == "NOSCRIPT"
            {
                self.known &= !(1 << (owed.operation as u16));
            }
            if let (Some(token), Ok(answer)) = (&owed.renews, &reply) {
                let is_there = super::protocol::extended(answer).is_none_or(|answer| !answer.is_gone());
                self.note_copy(&token.clone(), is_there);
            }
            if owed.ticket == ticket && ticket > PROBE {
                return Ok(Some((reply, owed.sent_at)));
            }
        }
        Ok(None)
    }

    /// One more of what is counted for each server.
    pub fn count(&self, what: PerServer) {
        self.server.count(what, || self.endpoint.to_string());
    }

    /// What to poll for.
    pub fn interest(&self) -> Interest {
        self.link.as_ref().map_or(Interest::NONE, Link::interest)
    }
}
