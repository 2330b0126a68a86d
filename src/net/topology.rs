//! What a DSN describes: one server, or several independent ones that decide by majority.

use super::dsn::{self, DsnError, Endpoint};
use std::{fmt, time::Duration};

/// Where locks are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Single(Endpoint, Replicas),
    /// Several independent servers.
    Quorum(Nodes),
    /// A primary that sentinels watch over and replace.
    Sentinel(Watched, Replicas),
    /// A Redis Cluster: one of its servers, and others that are known.
    Cluster(Endpoint, Vec<Endpoint>, Replicas),
}

/// How many replicas must confirm a grant: 0 to 100, 0 asks none.
pub type Replicas = u8;

/// A primary that sentinels watch over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The sentinels, at least one.
    pub sentinels: Vec<Endpoint>,
    /// What they call the primary.
    pub name: String,
    /// Who we are to the primary; its address is what the sentinels say.
    pub primary: Endpoint,
}

/// Several independent servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// An odd number of them, at least three, and no two of one address.
    pub endpoints: Vec<Endpoint>,
    /// A server that started less than this long ago grants nothing new; zero: all do.
    pub restart_guard: Duration,
}

/// More nodes than anybody runs; each costs a connection.
const MOST_NODES: usize = 15;
/// The option that belongs to all nodes together.
const RESTART_GUARD: &str = "restart_guard=";
/// The option for a store whose grants replicas are to confirm.
const WAIT_REPLICAS: &str = "wait_replicas=";
const MOST_REPLICAS: Replicas = 100;
const DEFAULT_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26_379;
/// The longest guard: as the longest TTL, a year.
const LONGEST_GUARD: f64 = 31_536_000.0;

/// Reads a DSN: one server, several separated by white space, `redis+sentinel://` or `redis+cluster://`.
pub fn parse(dsn: &str) -> Result<Topology, DsnError> {
    let words: Vec<&str> = dsn.split_ascii_whitespace().collect();
    match words.as_slice() {
        [] => Err(DsnError::Empty),
        [word] => one_word(word),
        words if words.iter().any(|word| kind(word) != Kind::Server) => {
            Err(malformed("several words, of which one is Sentinel or Cluster: independent nodes are single servers"))
        }
        words => nodes(words).map(Topology::Quorum),
    }
}

/// What the scheme of a word says beside TLS.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Server,
    Sentinel,
    Cluster,
}

fn kind(word: &str) -> Kind {
    match word.split_once("://").and_then(|(scheme, _)| scheme.split_once('+')) {
        Some((_, "sentinel")) => Kind::Sentinel,
        Some((_, "cluster")) => Kind::Cluster,
        _ => Kind::Server,
    }
}

fn one_word(word: &str) -> Result<Topology, DsnError> {
    let (word, replicas) = take(word, WAIT_REPLICAS);
    let replicas = replicas.map_or(Ok(0), |text| {
        let number = text.parse::<u8>().ok().filter(|number| *number <= MOST_REPLICAS);
        number.ok_or_else(|| malformed("a wait_replicas that is not a number from 0 to 100"))
    })?;
    match kind(&word) {
        Kind::Server => Ok(Topology::Single(dsn::parse(&word)?, replicas)),
        Kind::Cluster => {
            let group = Group::parse(&word)?;
            if !group.path.is_empty() {
                return Err(malformed("a database: a cluster has only 0, and takes no path"));
            }
            let mut seeds = group.endpoints(group.login, DEFAULT_PORT, "")?;
            let first = seeds.remove(0);
            Ok(Topology::Cluster(first, seeds, replicas))
        }
        Kind::Sentinel => sentinel(&word).map(|watched| Topology::Sentinel(watched, replicas)),
    }
}

fn sentinel(word: &str) -> Result<Watched, DsnError> {
    let (word, user) = take(word, "sentinel_user=");
    let (word, pass) = take(&word, "sentinel_pass=");
    let group = Group::parse(&word)?;
    let (name, database) = group.path.split_once('/').unwrap_or((group.path, "0"));
    if name.is_empty() {
        return Err(malformed("no name of the primary: redis+sentinel://host,host/name was expected"));
    }
    let login = match (&user, &pass) {
        (None, None) => None,
        (user, Some(pass)) => Some(format!("{}:{pass}", user.as_deref().unwrap_or_default())),
        (Some(_), None) => return Err(malformed("a sentinel_user without a sentinel_pass")),
    };
    let mut primary = group.endpoints(group.login, SENTINEL_PORT, database)?;
    Ok(Watched {
        sentinels: group.endpoints(login.as_deref(), SENTINEL_PORT, "")?,
        name: dsn::unescaped_text(name).ok_or_else(|| malformed("a name of the primary that is not UTF-8"))?,
        primary: primary.swap_remove(0),
    })
}

/// A word with several hosts: what stands for all of them, and each.
struct Group<'a> {
    scheme: &'static str,
    login: Option<&'a str>,
    hosts: Vec<&'a str>,
    path: &'a str,
    query: &'a str,
}

impl<'a> Group<'a> {
    fn parse(word: &'a str) -> Result<Self, DsnError> {
        let (scheme, rest) = word.split_once("://").ok_or(DsnError::Scheme)?;
        let scheme = match scheme.split_once('+') {
            Some(("redis" | "valkey", _)) => "redis",
            Some(("rediss" | "valkeys", _)) => "rediss",
            _ => return Err(DsnError::Scheme),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        Ok(Self { scheme, login, hosts: hosts.split(',').collect(), path, query })
    }

    /// Each host as a server of its own, with this login and database. The endpoint's own parser judges all parts.
    fn endpoints(&self, login: Option<&str>, port: u16, database: &str) -> Result<Vec<Endpoint>, DsnError> {
        let login = login.map(|login| format!("{login}@")).unwrap_or_default();
        let query = if self.query.is_empty() { String::new() } else { format!("?{}", self.query) };
        let mut endpoints: Vec<Endpoint> = Vec::with_capacity(self.hosts.len());
        for host in &self.hosts {
            let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
            let host = if has_port { (*host).to_owned() } else { format!("{host}:{port}") };
            let endpoint = dsn::parse(&format!("{}://{login}{host}/{database}{query}", self.scheme))?;
            if endpoints.iter().any(|other| other.address == endpoint.address) {
                return Err(malformed(format!("the host {endpoint} twice")));
            }
            endpoints.push(endpoint);
        }
        Ok(endpoints)
    }
}

fn nodes(words: &[&str]) -> Result<Nodes, DsnError> {
    let mut nodes = Nodes { endpoints: Vec::with_capacity(words.len()), restart_guard: Duration::ZERO };
    let mut guard = None;
    for word in words {
        let (word, option) = take(word, RESTART_GUARD);
        if let Some(text) = option {
            let seconds = seconds(&text)?;
            if guard.is_some_and(|guard| guard != seconds) {
                return Err(malformed("two different restart_guard options: it holds for all nodes together"));
            }
            guard = Some(seconds);
        }
        let endpoint = dsn::parse(&word)?;
        if nodes.endpoints.iter().any(|other| other.address == endpoint.address) {
            return Err(malformed(format!("the node {endpoint} twice: a majority counts every server once")));
        }
        nodes.endpoints.push(endpoint);
    }
    nodes.restart_guard = guard.unwrap_or_default();
    if words.len() > MOST_NODES {
        return Err(malformed(format!("{} nodes: more than {MOST_NODES}", words.len())));
    }
    if words.len().is_multiple_of(2) {
        return Err(malformed(format!(
            "{} nodes: an even number survives no more failures than one node less, name 3, 5 or 7",
            words.len()
        )));
    }
    Ok(nodes)
}

/// The word without an option that is not the endpoint's own, and that option's value.
fn take(word: &str, name: &str) -> (String, Option<String>) {
    let Some((address, query)) = word.split_once('?') else { return (word.to_owned(), None) };
    let mut found = None;
    let others: Vec<&str> = query
        .split('&')
        // A second one is left for the endpoint's parser, which refuses it.
        .filter(|pair| match pair.strip_prefix(name).filter(|_| found.is_none()) {
            Some(value) => {
                found = Some(value.to_owned());
                false
            }
            None => true,
        })
        .collect();
    let rest = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
    (format!("{address}{rest}"), found)
}

fn seconds(text: &str) -> Result<Duration, DsnError> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=LONGEST_GUARD).contains(number));
    number
        .map(Duration::from_secs_f64)
        .ok_or_else(|| malformed("a restart_guard that is not a number of seconds from 0 to 31536000"))
}

fn names(endpoints: &[Endpoint]) -> String {
    endpoints.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(", ")
}

fn malformed(what: impl Into<String>) -> DsnError {
    DsnError::Malformed(what.into())
}

/// The addresses alone: what messages, `ping()` and phpinfo show.
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(endpoint, _) => endpoint.fmt(f),
            Self::Quorum(nodes) => f.write_str(&names(&nodes.endpoints)),
            Self::Sentinel(watched, _) => write!(f, "{}, watched by {}", watched.name, names(&watched.sentinels)),
            Self::Cluster(first, others, _) => {
                write!(f, "cluster of {first}")?;
                others.iter().try_for_each(|other| write!(f, ", {other}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(dsn: &str) -> Nodes {
        match parse(dsn).unwrap() {
            Topology::Quorum(nodes) => nodes,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn several_words_are_independent_nodes() {
        assert!(matches!(parse("redis://a"), Ok(Topology::Single(_, 0))));
        let three = nodes(" redis://a  rediss://b:7000?ca=/x\tunix:///s?db=3 ");
        assert_eq!(three.endpoints.len(), 3);
        assert_eq!(three.endpoints[2].database, 3);
        assert_eq!(three.restart_guard, Duration::ZERO);
        assert_eq!(parse("redis://a redis://a:1 unix:///s").unwrap().to_string(), "a:6379, a:1, /s");
    }

    #[test]
    fn the_restart_guard_holds_for_all_nodes_wherever_it_stands() {
        let guarded = nodes("redis://a?restart_guard=12.5 rediss://b?ca=/x&restart_guard=12.5 unix:///s?db=1");
        assert_eq!(guarded.restart_guard, Duration::from_millis(12_500));
        assert!(guarded.endpoints[1].tls.as_ref().is_some_and(|tls| tls.ca.is_some()));
    }

    #[test]
    fn sentinels_have_a_login_of_their_own() {
        let dsn = "rediss+sentinel://app:s%40crt@a,b:7000/my%2Fmain/3?ca=/x&sentinel_user=w&sentinel_pass=p%26&wait_replicas=1";
        let Ok(Topology::Sentinel(watched, 1)) = parse(dsn) else { panic!("{:?}", parse(dsn)) };
        assert_eq!(watched.name, "my/main");
        assert_eq!((watched.primary.database, watched.primary.password.as_deref()), (3, Some("s@crt")));
        let names: Vec<String> = watched.sentinels.iter().map(Endpoint::to_string).collect();
        assert_eq!(names, ["a:26379", "b:7000"]);
        let sentinel = &watched.sentinels[1];
        assert_eq!((sentinel.username.as_deref(), sentinel.password.as_deref()), (Some("w"), Some("p&")));
        assert!(sentinel.tls.is_some() && sentinel.database == 0 && watched.primary.tls.is_some());
    }

    #[test]
    fn a_cluster_is_named_by_some_of_its_servers() {
        let Ok(Topology::Cluster(first, others, 0)) = parse("redis+cluster://:p@[::1]:7000,b") else { panic!() };
        assert_eq!((first.to_string(), names(&others)), ("[::1]:7000".into(), "b:6379".into()));
        assert_eq!(others[0].password.as_deref(), Some("p"));
        let bad = [
            "redis+cluster://a/1",
            "redis+cluster://a,a",
            "redis+cluster://",
            "redis+cluster://a,",
            "redis+cluster://a?db=1",
            "redis+cluster://a?wait_replicas=101",
            "redis+sentinel://a",
            "redis+sentinel://a/",
            "redis+sentinel://a/m/x",
            "redis+sentinel://a/m?sentinel_user=u",
            "http+sentinel://a/m",
            "redis+cluster://a redis://b redis://c",
            "redis://a?wait_replicas=x",
            "redis://a redis://b redis://c?wait_replicas=1",
        ];
        for dsn in bad {
            assert!(parse(dsn).is_err(), "{dsn}");
        }
    }

    #[test]
    fn what_makes_no_quorum_is_refused() {
        let bad = [
            "redis://a redis://b",
            "redis://a redis://b redis://c redis://d",
            "redis://a redis://b redis://a:6379",
            "unix:///s unix:///s?db=1 redis://a",
            "redis://a redis://b http://c",
            "redis://a redis://b redis://c?restart_guard=x",
            "redis://a redis://b redis://c?restart_guard=-1",
            "redis://a redis://b redis://c?restart_guard=NaN",
            "redis://a redis://b redis://c?restart_guard=1&restart_guard=1",
            "redis://a?restart_guard=1 redis://b?restart_guard=2 redis://c",
            "redis://a?restart_guard=1",
        ];
        for dsn in bad {
            assert!(parse(dsn).is_err(), "{dsn}");
        }
        let many: Vec<String> = (0..17).map(|number| format!("redis://h:{}", number + 1)).collect();
        assert!(parse(&many.join(" ")).is_err());
    }
}
