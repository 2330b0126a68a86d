//! Getting connected: a host name to its addresses, and these one after the other, within one deadline.

use super::{
    dsn::{Address, Endpoint},
    fault::Reason,
    poll::Interest,
    resolve::{self, Host, Resolving},
};
use crate::clock::Moment;
use socket2::{Domain, SockAddr, Socket, Type};
use std::{collections::VecDeque, io, net::SocketAddr, os::fd::AsRawFd, time::Duration};

/// A connection being made.
pub enum Connecting {
    /// The host name is being looked up.
    Resolving(Resolving, Moment),
    /// An address is being tried.
    Trying(Try),
}

/// One connect under way, and the addresses left to try if it fails.
pub struct Try {
    socket: Socket,
    address: SockAddr,
    /// Whether the kernel took the connect; a unix socket whose queue is full must be asked again.
    is_queued: bool,
    rest: VecDeque<SocketAddr>,
    /// When this address has had its share of the time, and when all of it is up.
    share: Moment,
    by: Moment,
}

/// How often a unix socket whose queue is full is tried again: the kernel gives no event for it.
const UNIX_RETRY: Duration = Duration::from_millis(1);

impl Connecting {
    /// Begins to connect to `endpoint`; the connection is to be made before `by`.
    pub fn begin(endpoint: &Endpoint, by: Moment) -> Result<Self, Reason> {
        match &endpoint.address {
            Address::Unix(path) => {
                let address = SockAddr::unix(path).map_err(Reason::Connect)?;
                Ok(Self::Trying(Try::start(address, VecDeque::new(), by)?))
            }
            Address::Tcp(host, port) => match resolve::begin(host, *port).map_err(Reason::Connect)? {
                Host::Literal(address) => Ok(Self::Trying(Try::first(VecDeque::from([address]), by)?)),
                Host::Name(resolving) => Ok(Self::Resolving(resolving, by)),
            },
        }
    }

    /// Whether it is connected; goes on as far as that is possible without waiting.
    pub fn advance(&mut self) -> Result<bool, Reason> {
        if let Self::Resolving(resolving, by) = self {
            match resolving.poll() {
                None => return Ok(false),
                Some(Err(error)) => return Err(Reason::Resolve(error)),
                Some(Ok(addresses)) => *self = Self::Trying(Try::first(addresses.into(), *by)?),
            }
        }
        match self {
            Self::Trying(attempt) => attempt.is_connected(),
            Self::Resolving(..) => Ok(false),
        }
    }

    /// The connected socket.
    pub fn into_socket(self) -> Option<Socket> {
        match self {
            Self::Trying(attempt) => Some(attempt.socket),
            Self::Resolving(..) => None,
        }
    }

    /// What to poll for before the next [`advance`](Self::advance).
    pub fn interest(&self) -> Interest {
        match self {
            Self::Resolving(resolving, _) => Interest { fd: resolving.fd(), read: true, write: false },
            Self::Trying(attempt) if attempt.is_queued => {
                Interest { fd: attempt.socket.as_raw_fd(), read: false, write: true }
            }
            Self::Trying(_) => Interest::NONE,
        }
    }

    /// When to advance even if nothing became ready.
    pub fn wake_by(&self) -> Option<Moment> {
        match self {
            Self::Resolving(..) => None,
            Self::Trying(attempt) if attempt.is_queued => Some(attempt.share),
            Self::Trying(_) => Some(Moment::now() + UNIX_RETRY),
        }
    }

    /// What it is at, for a message.
    pub fn doing(&self) -> &'static str {
        match self {
            Self::Resolving(..) => "the host name was being resolved",
            Self::Trying(_) => NOT_ACCEPTED,
        }
    }
}

const NOT_ACCEPTED: &str = "the server did not accept";

impl Try {
    /// Tries addresses in their order until one connect is under way.
    fn first(mut addresses: VecDeque<SocketAddr>, by: Moment) -> Result<Self, Reason> {
        let mut last = Reason::Resolve("the name has no address".into());
        while let Some(address) = addresses.pop_front() {
            match Self::start(address.into(), addresses.clone(), by) {
                Ok(attempt) => return Ok(attempt),
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
        let mut attempt = Self { socket, address, is_queued: false, rest, share, by };
        attempt.ask()?;
        Ok(attempt)
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
            Some(error) => Reason::Connect(error),
            None if self.socket.peer_addr().is_ok() => return Ok(true),
            None if self.share.is_past() => Reason::ConnectTimedOut(NOT_ACCEPTED),
            None => return Ok(false),
        };
        if self.rest.is_empty() {
            return Err(failed);
        }
        *self = Self::first(std::mem::take(&mut self.rest), self.by)?;
        Ok(false)
    }
}
