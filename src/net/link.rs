//! One connection to one server, as a state machine that never blocks by itself.
//!
//! Whoever drives it decides how long to wait, so that one link and many are driven alike. A link that
//! failed, timed out or holds bytes nobody asked for is never used again: see [`Link::is_usable`].

use super::{
    connecting::Connecting,
    dsn::{Address, Endpoint, TlsFiles},
    fault::{Fault, Reason},
    poll::{self, Interest, Woken},
    reply::{self, Front, Refusal, Reply},
    spin::{Spin, Way},
    tls,
    wire::Wire,
};
use crate::{
    clock::Moment,
    metrics::{PerServer, Server},
    process,
};
use redis::{Cmd, Parser};
use std::time::Duration;

/// A connection, from its first look-up to its last reply.
pub struct Link {
    phase: Phase,
    greeting: Greeting,
    /// Where it leads to.
    address: String,
    outbox: Vec<u8>,
    inbox: Vec<u8>,
    parser: Parser,
    spin: Spin,
    pid: u32,
}

enum Phase {
    Connecting(Connecting),
    Securing(Wire),
    /// So many answers of the greeting are still to come.
    Greeting(Wire, usize),
    Open(Wire),
    Broken,
}

/// What is said before the first command: TLS, log-in and database.
#[derive(Default)]
struct Greeting {
    tls: Option<(TlsFiles, String)>,
    bytes: Vec<u8>,
    answers: usize,
}

/// How our connections are called in the server's list of clients.
const CLIENT_NAME: &str = concat!("redis_lease-", env!("CARGO_PKG_VERSION"));
/// How long after an error a server may take to hang up.
const HANG_UP: Duration = Duration::from_millis(5);

impl Link {
    /// Begins to connect to `endpoint`; the connection is to be made before `by`.
    pub fn begin(endpoint: &Endpoint, by: Moment) -> Result<Self, Reason> {
        Ok(Self {
            phase: Phase::Connecting(Connecting::begin(endpoint, by)?),
            greeting: Greeting::new(endpoint),
            address: endpoint.to_string(),
            outbox: Vec::new(),
            inbox: Vec::new(),
            parser: Parser::new(),
            spin: Spin::new(),
            pid: process::id(),
        })
    }

    /// Connects and logs in, before `by`.
    pub fn connect(endpoint: &Endpoint, by: Moment) -> Result<Self, Reason> {
        let mut link = Self::begin(endpoint, by)?;
        loop {
            link.advance()?;
            if link.is_open() {
                return Ok(link);
            }
            if by.is_past() {
                return Err(Reason::ConnectTimedOut(link.doing()));
            }
            poll::sleep(&[link.interest()], link.wake_by().map_or(by, |wake| wake.min(by))).map_err(Reason::Io)?;
        }
    }

    /// Whether it is connected and logged in.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open(_))
    }

    /// Whether this process made it, and has not merely inherited it.
    pub fn is_ours(&self) -> bool {
        self.pid == process::id()
    }

    /// Tells the server that nothing more comes. It ends a command that blocks; what it had to say before
    /// can still be read, until the end of the stream.
    pub fn end_sending(&mut self) -> Result<(), Reason> {
        wire(&self.phase).map_or(Err(Reason::Closed), Wire::end_sending)
    }

    /// Whether an open link may carry the next command: made by this process, alive as far as can be
    /// told without a round trip, and with no byte on it that belongs to an earlier command.
    pub fn is_usable(&mut self) -> bool {
        let is_idle = self.is_ours() && self.inbox.is_empty() && self.outbox.is_empty();
        match &mut self.phase {
            Phase::Open(wire) => is_idle && wire.is_flushed() && wire.is_quiet(),
            _ => false,
        }
    }

    /// Sends one command and awaits its answer, before `by`. Looks for it awake for up to `spin`. Tells also
    /// when the sending began.
    pub fn exchange(
        &mut self,
        command: &Cmd,
        by: Moment,
        spin: Duration,
    ) -> Result<(Result<Reply, Refusal>, Moment), Fault> {
        let sent_at = Moment::now();
        self.queue(command);
        let result = self.await_reply(sent_at, by, spin).map(|reply| (reply, sent_at));
        // A write that the kernel took whole may have been executed; one it did not take whole was not.
        let sent = self.is_sent();
        result.map_err(|reason| {
            let reason = if sent { reason } else { self.last_words().unwrap_or(reason) };
            self.phase = Phase::Broken;
            Fault { sent, reason }
        })
    }

    /// Sends what is queued, and awaits so many answers before `by`.
    pub fn exchange_queued(&mut self, count: usize, by: Moment) -> Result<Vec<Result<Reply, Refusal>>, Reason> {
        let sent_at = Moment::now();
        let replies: Result<Vec<_>, _> = (0..count).map(|_| self.await_reply(sent_at, by, Duration::ZERO)).collect();
        // Of those that did not come nothing is known: the link is of no more use.
        replies.inspect_err(|_| self.phase = Phase::Broken)
    }

    /// What the server said before it hung up, which explains why nothing could be sent.
    fn last_words(&mut self) -> Option<Reason> {
        // The end of the stream is expected here.
        let _ = self.fill();
        match self.take_reply() {
            Ok(Some(Err(refusal))) => Some(Reason::TurnedAway(refusal)),
            _ => None,
        }
    }

    /// The sending belongs to the time that a reply takes: a server on the same core runs within it.
    fn await_reply(&mut self, sent_at: Moment, by: Moment, spin: Duration) -> Result<Result<Reply, Refusal>, Reason> {
        self.flush()?;
        let way = self.spin.choose(spin);
        loop {
            if let Some(reply) = self.take_reply()? {
                self.spin.learn(spin, Moment::now().since(sent_at));
                return Ok(reply);
            }
            if way == Way::Spin && Moment::now().since(sent_at) < spin {
                std::hint::spin_loop();
                self.fill()?;
                continue;
            }
            match poll::sleep(&[self.interest()], by).map_err(Reason::Io)? {
                Woken::Ready => self.fill()?,
                Woken::Deadline if by.is_past() => return Err(Reason::TimedOut),
                Woken::Deadline | Woken::Signal => {}
            }
            self.flush()?;
        }
    }

    /// Whether the kernel has taken every byte.
    pub fn is_sent(&self) -> bool {
        self.outbox.is_empty() && wire(&self.phase).is_none_or(Wire::is_flushed)
    }

    /// Hands the kernel what it takes of what is to be sent.
    pub fn send(&mut self) -> Result<(), Reason> {
        self.flush().inspect_err(|_| self.phase = Phase::Broken)
    }

    /// Adds a command to what is to be sent.
    pub fn queue(&mut self, command: &Cmd) {
        command.write_packed_command(&mut self.outbox);
    }

    /// What to poll for before the next [`advance`](Self::advance).
    pub fn interest(&self) -> Interest {
        match &self.phase {
            Phase::Connecting(connecting) => connecting.interest(),
            Phase::Securing(wire) => wire.interest(false),
            Phase::Greeting(wire, _) | Phase::Open(wire) => wire.interest(!self.outbox.is_empty()),
            Phase::Broken => Interest::NONE,
        }
    }

    /// When to advance even if nothing became ready.
    pub fn wake_by(&self) -> Option<Moment> {
        match &self.phase {
            Phase::Connecting(connecting) => connecting.wake_by(),
            _ => None,
        }
    }

    /// Goes as far as it can without waiting.
    pub fn advance(&mut self) -> Result<(), Reason> {
        self.step().map_err(|reason| {
            let reason = match &self.phase {
                Phase::Greeting(..) => self.ungreeted(reason),
                _ => reason,
            };
            if let (Some((files, _)), false) = (&self.greeting.tls, self.is_open()) {
                tls::forget(files);
            }
            self.phase = Phase::Broken;
            reason
        })
    }

    /// A log-in that came to nothing: what the server said before it hung up, or what else it may be.
    fn ungreeted(&mut self, reason: Reason) -> Reason {
        match reason {
            Reason::TurnedAway(_) | Reason::Refused(_) | Reason::Tls(_) => reason,
            reason => match self.last_words() {
                Some(said) => said,
                None if self.greeting.tls.is_none() => Reason::NotGreeted(Box::new(reason)),
                None => reason,
            },
        }
    }

    fn step(&mut self) -> Result<(), Reason> {
        if let Phase::Connecting(connecting) = &mut self.phase {
            if !connecting.advance()? {
                return Ok(());
            }
            self.secure()?;
        }
        if let Phase::Securing(wire) = &mut self.phase {
            if wire.is_handshaking()? {
                return Ok(());
            }
            self.greet();
        }
        self.flush()?;
        self.fill()?;
        while let Phase::Greeting(_, answers) = self.phase
            && answers > 0
        {
            match self.take_reply()? {
                None => return Ok(()),
                // The last answer is the one to our name, which is for people and may be refused.
                Some(_) if answers == 1 => self.greeted(0),
                Some(Err(refusal)) if refusal.code == "ERR" && self.is_hung_up() => {
                    return Err(Reason::TurnedAway(refusal));
                }
                Some(Err(refusal)) => return Err(Reason::Refused(refusal)),
                Some(Ok(_)) => self.greeted(answers - 1),
            }
        }
        self.greeted(0);
        Ok(())
    }

    /// Whether the server ended the connection with the error it just sent: then that was no answer to the
    /// log-in, the connection itself was refused. The end may come a moment after the error.
    fn is_hung_up(&mut self) -> bool {
        if self.fill().is_ok() {
            let _ = poll::sleep(&[self.interest()], Moment::now() + HANG_UP);
        }
        self.fill().is_err()
    }

    fn secure(&mut self) -> Result<(), Reason> {
        if let Phase::Connecting(connecting) = std::mem::replace(&mut self.phase, Phase::Broken)
            && let Some(socket) = connecting.into_socket()
        {
            self.phase = Phase::Securing(match &self.greeting.tls {
                None => Wire::plain(socket),
                Some((files, host)) => Wire::secured(socket, files, host)?,
            });
        }
        Ok(())
    }

    fn greet(&mut self) {
        if let Phase::Securing(wire) = std::mem::replace(&mut self.phase, Phase::Broken) {
            self.outbox = std::mem::take(&mut self.greeting.bytes);
            self.phase = Phase::Greeting(wire, self.greeting.answers);
        }
    }

    fn greeted(&mut self, left: usize) {
        if left == 0 && matches!(self.phase, Phase::Greeting(..)) {
            Server::default().count(PerServer::Connects, || std::mem::take(&mut self.address));
        }
        self.phase = match std::mem::replace(&mut self.phase, Phase::Broken) {
            Phase::Greeting(wire, _) if left == 0 => Phase::Open(wire),
            Phase::Greeting(wire, _) => Phase::Greeting(wire, left),
            other => other,
        };
    }

    fn doing(&self) -> &'static str {
        match &self.phase {
            Phase::Connecting(connecting) => connecting.doing(),
            Phase::Securing(_) => {
                "the server did not answer the TLS handshake; if this port speaks no TLS, use redis://"
            }
            _ => "the server did not answer the log-in",
        }
    }

    /// Hands the kernel what it takes of the outbox.
    fn flush(&mut self) -> Result<(), Reason> {
        match &mut self.phase {
            Phase::Greeting(wire, _) | Phase::Open(wire) => wire.send(&mut self.outbox),
            _ => Ok(()),
        }
    }

    /// Takes what has arrived into the inbox.
    fn fill(&mut self) -> Result<(), Reason> {
        match &mut self.phase {
            Phase::Greeting(wire, _) | Phase::Open(wire) => wire.receive(&mut self.inbox),
            _ => Ok(()),
        }
    }

    /// The next whole reply in the inbox.
    pub fn take_reply(&mut self) -> Result<Option<Result<Reply, Refusal>>, Reason> {
        if self.inbox.is_empty() {
            return Ok(None);
        }
        let Front::Whole(length) = reply::front(&self.inbox).map_err(Reason::Protocol)? else { return Ok(None) };
        let frame = self.inbox.get(..length).unwrap_or_default();
        let parsed = reply::parse(&mut self.parser, frame).map_err(Reason::Protocol)?;
        self.inbox.drain(..length);
        Ok(Some(parsed))
    }
}

fn wire(phase: &Phase) -> Option<&Wire> {
    match phase {
        Phase::Greeting(wire, _) | Phase::Open(wire) => Some(wire),
        _ => None,
    }
}

impl Greeting {
    /// Log-in and database, sent ahead of the first command and confirmed before it: a command must not
    /// run as the wrong user or in the wrong database. At least one answer is awaited: only it tells that
    /// the server lets us in, and under TLS 1.3 that it took our certificate.
    fn new(endpoint: &Endpoint) -> Self {
        let mut greeting = Self::default();
        if let (Some(files), Address::Tcp(host, _)) = (&endpoint.tls, &endpoint.address) {
            greeting.tls = Some((files.clone(), host.clone()));
        }
        if let Some(password) = &endpoint.password {
            let mut auth = redis::cmd("AUTH");
            if let Some(username) = &endpoint.username {
                auth.arg(username);
            }
            greeting.add(auth.arg(password));
        }
        if endpoint.database != 0 {
            greeting.add(redis::cmd("SELECT").arg(endpoint.database));
        }
        if endpoint.resp3 {
            greeting.add(redis::cmd("HELLO").arg(3));
        }
        if greeting.answers == 0 {
            greeting.add(&redis::cmd("PING"));
        }
        greeting.add(redis::cmd("CLIENT").arg("SETNAME").arg(CLIENT_NAME));
        greeting
    }

    fn add(&mut self, command: &Cmd) {
        command.write_packed_command(&mut self.bytes);
        self.answers += 1;
    }
}
