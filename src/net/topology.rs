//! What a DSN describes: one server, or several independent ones that decide by majority.

use super::dsn::{self, DsnError, Endpoint};
use std::{fmt, time::Duration};

/// Where locks are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Single(Endpoint),
    /// Several independent servers.
    Quorum(Nodes),
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
/// The longest guard: as the longest TTL, a year.
const LONGEST_GUARD: f64 = 31_536_000.0;

/// Reads a DSN: one server, or several separated by white space.
pub fn parse(dsn: &str) -> Result<Topology, DsnError> {
    let words: Vec<&str> = dsn.split_ascii_whitespace().collect();
    if let [] | [_] = words.as_slice() {
        return dsn::parse(dsn).map(Topology::Single);
    }
    let mut nodes = Nodes { endpoints: Vec::with_capacity(words.len()), restart_guard: Duration::ZERO };
    let mut guard = None;
    for word in &words {
        let (word, option) = without_guard(word);
        if let Some(text) = option {
            let seconds = seconds(text)?;
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
    Ok(Topology::Quorum(nodes))
}

/// The word without the option that is not the endpoint's own, and that option's value.
fn without_guard(word: &str) -> (String, Option<&str>) {
    let Some((address, query)) = word.split_once('?') else { return (word.to_owned(), None) };
    let mut guard = None;
    let others: Vec<&str> = query
        .split('&')
        // A second one is left for the endpoint's parser, which refuses it.
        .filter(|pair| match pair.strip_prefix(RESTART_GUARD).filter(|_| guard.is_none()) {
            Some(value) => {
                guard = Some(value);
                false
            }
            None => true,
        })
        .collect();
    let rest = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
    (format!("{address}{rest}"), guard)
}

fn seconds(text: &str) -> Result<Duration, DsnError> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=LONGEST_GUARD).contains(number));
    number
        .map(Duration::from_secs_f64)
        .ok_or_else(|| malformed("a restart_guard that is not a number of seconds from 0 to 31536000"))
}

fn malformed(what: impl Into<String>) -> DsnError {
    DsnError::Malformed(what.into())
}

/// The addresses alone: what messages, `ping()` and phpinfo show.
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(endpoint) => endpoint.fmt(f),
            Self::Quorum(nodes) => {
                let names: Vec<String> = nodes.endpoints.iter().map(Endpoint::to_string).collect();
                f.write_str(&names.join(", "))
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
            Topology::Single(endpoint) => panic!("{endpoint}"),
        }
    }

    #[test]
    fn several_words_are_independent_nodes() {
        assert!(matches!(parse("redis://a"), Ok(Topology::Single(_))));
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
