//! Host names to addresses. The system's resolver has no time-out, so it runs on a thread that the
//! caller need not wait for; a socket pair tells when it is done. While it is slow, those who ask for
//! the same name again join the look-up that is under way.

use crate::{clock::Moment, process, signals};
use parking_lot::Mutex;
use std::{
    cell::RefCell,
    collections::HashMap,
    io::{self, Write},
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    os::{
        fd::{AsRawFd, RawFd},
        unix::net::UnixStream,
    },
    sync::Arc,
    time::Duration,
};

type Answer = Result<Vec<SocketAddr>, String>;
type Name = (String, u16);

/// The addresses at once when the host is an IP address, else the look-up to wait for.
pub enum Host {
    /// Nothing to look up.
    Literal(SocketAddr),
    /// A look-up under way.
    Name(Resolving),
}

/// A name being resolved.
pub struct Resolving {
    name: Name,
    lookup: Arc<Lookup>,
}

struct Lookup {
    /// The process whose thread will answer; in a forked child nobody will.
    pid: u32,
    answer: Mutex<Option<(Answer, Moment)>>,
    done: UnixStream,
}

thread_local! {
    static UNDER_WAY: RefCell<HashMap<Name, Arc<Lookup>>> = RefCell::default();
}

/// How long an answer is good for one who joins the look-up: it came too late for the one who began it.
const FRESH: Duration = Duration::from_secs(1);
const STACK: usize = 256 << 10;

/// Begins to resolve `host`.
pub fn begin(host: &str, port: u16) -> io::Result<Host> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(Host::Literal(SocketAddr::new(ip, port)));
    }
    let name = (host.to_owned(), port);
    let joined = UNDER_WAY.with_borrow(|names| names.get(&name).filter(|lookup| lookup.is_of_use()).cloned());
    let lookup = match joined {
        Some(lookup) => lookup,
        None => {
            let lookup = start(&name)?;
            UNDER_WAY.with_borrow_mut(|names| names.insert(name.clone(), Arc::clone(&lookup)));
            lookup
        }
    };
    Ok(Host::Name(Resolving { name, lookup }))
}

fn start(name: &Name) -> io::Result<Arc<Lookup>> {
    let (done, mut tell) = UnixStream::pair()?;
    let lookup = Arc::new(Lookup { pid: process::id(), answer: Mutex::new(None), done });
    let (asked, answered) = (name.clone(), Arc::clone(&lookup));
    let _signals = signals::Blocked::new();
    std::thread::Builder::new().name("redis_lease:dns".into()).stack_size(STACK).spawn(move || {
        let found = (asked.0.as_str(), asked.1).to_socket_addrs();
        let answer = found.map(Iterator::collect).map_err(|error| error.to_string());
        *answered.answer.lock() = Some((answer, Moment::now()));
        // The caller may have gone: then nobody is left to tell.
        let _ = tell.write_all(b".");
    })?;
    Ok(lookup)
}

impl Lookup {
    /// In a forked child the answer is not even looked at: its lock may be held for ever.
    fn is_of_use(&self) -> bool {
        self.pid == process::id() && self.answer.lock().as_ref().is_none_or(|(_, at)| !(*at + FRESH).is_past())
    }
}

impl Resolving {
    /// The descriptor that becomes readable when the answer is there.
    pub fn fd(&self) -> RawFd {
        self.lookup.done.as_raw_fd()
    }

    /// The answer, once it is there.
    pub fn poll(&self) -> Option<Answer> {
        let (answer, _) = self.lookup.answer.lock().clone()?;
        UNDER_WAY.with_borrow_mut(|names| names.remove(&self.name));
        Some(answer)
    }
}
