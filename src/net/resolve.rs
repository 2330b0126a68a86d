//! Host names to addresses. The system's resolver has no time-out, so it runs on a thread that the
//! caller need not wait for; a socket pair tells when it is done.

use crate::signals;
use parking_lot::Mutex;
use std::{
    io::{self, Read, Write},
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    os::{
        fd::{AsRawFd, RawFd},
        unix::net::UnixStream,
    },
    sync::Arc,
};

type Answer = Result<Vec<SocketAddr>, String>;

/// A name being resolved.
pub struct Resolving {
    answer: Arc<Mutex<Option<Answer>>>,
    done: UnixStream,
}

/// The addresses at once when the host is an IP address, else the look-up to wait for.
pub enum Host {
    /// Nothing to look up.
    Literal(SocketAddr),
    /// A look-up under way.
    Name(Resolving),
}

/// Begins to resolve `host`.
pub fn begin(host: &str, port: u16) -> io::Result<Host> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(Host::Literal(SocketAddr::new(ip, port)));
    }
    let (done, mut tell) = UnixStream::pair()?;
    done.set_nonblocking(true)?;
    let answer = Arc::new(Mutex::new(None));
    let slot = Arc::clone(&answer);
    let host = host.to_owned();
    let _signals = signals::Blocked::new();
    std::thread::Builder::new().name("redis_lease:dns".into()).stack_size(256 << 10).spawn(move || {
        let found = (host.as_str(), port).to_socket_addrs();
        *slot.lock() = Some(found.map(Iterator::collect).map_err(|error| error.to_string()));
        // The caller may have gone: then nobody is left to tell.
        let _ = tell.write_all(b".");
    })?;
    Ok(Host::Name(Resolving { answer, done }))
}

impl Resolving {
    /// The descriptor that becomes readable when the answer is there.
    pub fn fd(&self) -> RawFd {
        self.done.as_raw_fd()
    }

    /// The answer, once it is there.
    pub fn poll(&mut self) -> Option<Answer> {
        let mut byte = [0];
        match self.done.read(&mut byte) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            _ => Some(self.answer.lock().take().unwrap_or_else(|| Err("the resolver's thread died".into()))),
        }
    }
}
