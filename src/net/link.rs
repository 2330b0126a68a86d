//! One connection to one server, as a state machine that never blocks by itself.
//!
//! Whoever drives it decides how long to wait, so that one link and many are driven alike. A link that
//! failed, timed out or holds bytes nobody asked for is never used again: see [`Link::is_usable`].

use super::{
    dsn::{Address, Endpoint},
    fault::{Fault, Reason},
    poll::{self, Interest, Woken},
    reply::{self, Front, Refusal, Reply},
    resolve::{self, Host, Resolving},
    spin::{Spin, Way},
};
use crate::{clock::Moment, process};
use redis::{Cmd, Parser};
use socket2::{Domain, SockAddr, Socket, Type};
use std::{collections::VecDeque, io, mem::MaybeUninit, net::SocketAddr, os::fd::AsRawFd, time::Duration};

/// A connection, from its first look-up to its last reply.
pub struct Link {
    phase: Phase,
    greeting: Greeting,
    outbox: Vec<u8>,
    inbox: Vec<u8>,
    parser: Parser,
    spin: Spin,
    pid: u32,
}

enum Phase {
    Resolving(Resolving, Moment),
    Connecting(Connecting),
    Greeting(Socket, usize),
    Open(Socket),
    Broken,
}

/// One connect under way, and the addresses left to try if it fails.
struct Connecting {
    socket: Socket,
    address: SockAddr,
    /// Whether the kernel took the connect; a unix socket whose queue is full must be asked again.
    is_queued: bool,
    rest: VecDeque<SocketAddr>,
    /// When this address has had its share of the time, and when all of it is up.
    share: Moment,
    by: Moment,
}

/// The commands that log in, and how many answers they get.
#[derive(Default)]
struct Greeting {
    bytes: Vec<u8>,
    answers: usize,
}

/// How much is read at once: more than any reply of ours.
const CHUNK: usize = 512;
/// How often a unix socket whose queue is full is tried again: the kernel gives no event for it.
const UNIX_RETRY: Duration = Duration::from_millis(1);

impl Link {
    /// Begins to connect to `endpoint`; the connection is to be made before `by`.
    pub fn begin(endpoint: &Endpoint, by: Moment) -> Result<Self, Reason> {
        let phase = match &endpoint.address {
            Address::Unix(path) => {
                let address = SockAddr::unix(path).map_err(Reason::Connect)?;
                Phase::Connecting(Connecting::start(address, VecDeque::new(), by)?)
            }
            Address::Tcp(host, port) => match resolve::begin(host, *port).map_err(Reason::Connect)? {
                Host::Literal(address) => Phase::Connecting(Connecting::first(VecDeque::from([address]), by)?),
                Host::Name(resolving) => Phase::Resolving(resolving, by),
            },
        };
        let greeting = greeting(endpoint);
        Ok(Self {
            phase,
            greeting,
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

    /// Whether an open link may carry the next command: made by this process, alive as far as can be
    /// told without a round trip, and with no byte on it that belongs to an earlier command.
    pub fn is_usable(&self) -> bool {
        let Phase::Open(socket) = &self.phase else { return false };
        if self.pid != process::id() || !self.inbox.is_empty() || !self.outbox.is_empty() {
            return false;
        }
        let mut byte = [MaybeUninit::uninit()];
        matches!(socket.peek(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sends one command and awaits its answer, before `by`.
    pub fn exchange(&mut self, command: &Cmd, by: Moment, spin: Duration) -> Result<Result<Reply, Refusal>, Fault> {
        self.queue(command);
        let result = self.await_reply(by, spin);
        if result.is_err() {
            self.phase = Phase::Broken;
        }
        result
    }

    fn await_reply(&mut self, by: Moment, spin: Duration) -> Result<Result<Reply, Refusal>, Fault> {
        self.flush().map_err(|reason| self.fault(reason))?;
        let way = self.spin.choose(spin);
        let start = Moment::now();
        loop {
            if let Some(reply) = self.take_reply().map_err(|reason| self.fault(reason))? {
                self.spin.learn(way, Moment::now().since(start));
                return Ok(reply);
            }
            if way == Way::Spin && Moment::now().since(start) < spin {
                std::hint::spin_loop();
                self.fill().map_err(|reason| self.fault(reason))?;
                continue;
            }
            match poll::sleep(&[self.interest()], by) {
                Ok(Woken::Ready) => self.fill().map_err(|reason| self.fault(reason))?,
                Ok(Woken::Deadline) if by.is_past() => return Err(self.fault(Reason::TimedOut)),
                Ok(Woken::Deadline | Woken::Signal) => {}
                Err(error) => return Err(self.fault(Reason::Io(error))),
            }
            self.flush().map_err(|reason| self.fault(reason))?;
        }
    }

    /// A write that the kernel took whole may have been executed; one it did not take whole was not.
    fn fault(&self, reason: Reason) -> Fault {
        Fault { sent: self.outbox.is_empty(), reason }
    }

    /// Adds a command to what is to be sent.
    pub fn queue(&mut self, command: &Cmd) {
        command.write_packed_command(&mut self.outbox);
    }

    /// What to poll for before the next [`advance`](Self::advance).
    pub fn interest(&self) -> Interest {
        match &self.phase {
            Phase::Resolving(resolving, _) => Interest { fd: resolving.fd(), read: true, write: false },
            Phase::Connecting(connecting) if connecting.is_queued => {
                Interest { fd: connecting.socket.as_raw_fd(), read: false, write: true }
            }
            Phase::Greeting(socket, _) | Phase::Open(socket) => {
                Interest { fd: socket.as_raw_fd(), read: true, write: !self.outbox.is_empty() }
            }
            // Nothing to watch: poll(2) passes over a negative descriptor.
            Phase::Connecting(_) | Phase::Broken => Interest { fd: -1, read: false, write: false },
        }
    }

    /// When to advance even if nothing became ready.
    pub fn wake_by(&self) -> Option<Moment> {
        match &self.phase {
            Phase::Connecting(connecting) if connecting.is_queued => Some(connecting.share),
            Phase::Connecting(_) => Some(Moment::now() + UNIX_RETRY),
            _ => None,
        }
    }

    /// Goes as far as it can without waiting.
    pub fn advance(&mut self) -> Result<(), Reason> {
        let result = self.step();
        if result.is_err() {
            self.phase = Phase::Broken;
        }
        result
    }

    fn step(&mut self) -> Result<(), Reason> {
        if let Phase::Resolving(resolving, by) = &mut self.phase {
            let by = *by;
            match resolving.poll() {
                None => return Ok(()),
                Some(Err(error)) => return Err(Reason::Resolve(error)),
                Some(Ok(addresses)) => self.phase = Phase::Connecting(Connecting::first(addresses.into(), by)?),
            }
        }
        if let Phase::Connecting(connecting) = &mut self.phase {
            if !connecting.is_connected()? {
                return Ok(());
            }
            self.greet()?;
        }
        self.flush()?;
        self.fill()?;
        while let Phase::Greeting(_, awaited) = self.phase
            && awaited > 0
        {
            match self.take_reply()? {
                None => return Ok(()),
                Some(Err(refusal)) => return Err(Reason::Refused(refusal)),
                Some(Ok(_)) => {
                    if let Phase::Greeting(_, awaited) = &mut self.phase {
                        *awaited -= 1;
                    }
                }
            }
        }
        if matches!(self.phase, Phase::Greeting(_, 0))
            && let Phase::Greeting(socket, _) = std::mem::replace(&mut self.phase, Phase::Broken)
        {
            self.phase = Phase::Open(socket);
        }
        Ok(())
    }

    fn greet(&mut self) -> Result<(), Reason> {
        let Phase::Connecting(connecting) = std::mem::replace(&mut self.phase, Phase::Broken) else { return Ok(()) };
        let greeting = std::mem::take(&mut self.greeting);
        self.outbox = greeting.bytes;
        self.phase = Phase::Greeting(connecting.socket, greeting.answers);
        Ok(())
    }

    fn doing(&self) -> &'static str {
        match &self.phase {
            Phase::Resolving(..) => "the host name was being resolved",
            Phase::Connecting(_) => "the server did not accept",
            _ => "the server did not answer the log-in",
        }
    }

    /// Hands the kernel what it takes of the outbox.
    fn flush(&mut self) -> Result<(), Reason> {
        while !self.outbox.is_empty() {
            let Some(socket) = socket(&self.phase) else { return Ok(()) };
            match socket.send_with_flags(&self.outbox, libc::MSG_NOSIGNAL) {
                Ok(written) => drop(self.outbox.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Reason::Io(error)),
            }
        }
        Ok(())
    }

    /// Takes what has arrived into the inbox.
    fn fill(&mut self) -> Result<(), Reason> {
        loop {
            self.inbox.reserve(CHUNK);
            let Some(socket) = socket(&self.phase) else { return Ok(()) };
            match socket.recv(self.inbox.spare_capacity_mut()) {
                Ok(0) => return Err(Reason::Closed),
                Ok(length) => {
                    // SAFETY: the kernel wrote this many bytes into the spare capacity.
                    unsafe { self.inbox.set_len(self.inbox.len() + length) };
                    if length < CHUNK {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Reason::Io(error)),
            }
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

/// The socket that carries commands, once there is one.
fn socket(phase: &Phase) -> Option<&Socket> {
    match phase {
        Phase::Greeting(socket, _) | Phase::Open(socket) => Some(socket),
        _ => None,
    }
}

impl Connecting {
    /// Tries addresses in their order until one connect is under way.
    fn first(mut addresses: VecDeque<SocketAddr>, by: Moment) -> Result<Self, Reason> {
        let mut last = Reason::Resolve("the name has no address".into());
        while let Some(address) = addresses.pop_front() {
            match Self::start(address.into(), addresses.clone(), by) {
                Ok(connecting) => return Ok(connecting),
                Err(reason) => last = reason,
            }
        }
        Err(last)
    }

    fn start(address: SockAddr, rest: VecDeque<SocketAddr>, by: Moment) -> Result<Self, Reason> {
        let kind = Type::STREAM.nonblocking().cloexec();
        let socket = Socket::new(address.domain(), kind, None).map_err(Reason::Connect)?;
        if address.domain() != Domain::UNIX {
            socket.set_tcp_nodelay(true).map_err(Reason::Connect)?;
        }
        let now = Moment::now();
        let tries = u32::try_from(rest.len()).unwrap_or(u32::MAX).saturating_add(1);
        let share = now + by.since(now) / tries;
        let mut connecting = Self { socket, address, is_queued: false, rest, share, by };
        connecting.ask()?;
        Ok(connecting)
    }

    fn ask(&mut self) -> Result<(), Reason> {
        self.is_queued = match self.socket.connect(&self.address) {
            Ok(()) => true,
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => return Err(Reason::Connect(error)),
        };
        Ok(())
    }

    /// Whether the connect has succeeded; goes on to the next address when it failed or took its share.
    fn is_connected(&mut self) -> Result<bool, Reason> {
        if !self.is_queued {
            self.ask()?;
        }
        let failed = match self.socket.take_error().map_err(Reason::Connect)? {
            Some(error) => Some(Reason::Connect(error)),
            None if self.socket.peer_addr().is_ok() => return Ok(true),
            None if self.share.is_past() => Some(Reason::ConnectTimedOut("the server did not accept")),
            None => None,
        };
        match failed {
            None => Ok(false),
            Some(reason) if self.rest.is_empty() => Err(reason),
            Some(_) => {
                *self = Self::first(std::mem::take(&mut self.rest), self.by)?;
                Ok(false)
            }
        }
    }
}

/// Log-in and database, sent ahead of the first command and confirmed before it: a command must not
/// run as the wrong user or in the wrong database.
fn greeting(endpoint: &Endpoint) -> Greeting {
    let mut greeting = Greeting::default();
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
    greeting
}

impl Greeting {
    fn add(&mut self, command: &Cmd) {
        command.write_packed_command(&mut self.bytes);
        self.answers += 1;
    }
}
