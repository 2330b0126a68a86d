//! Where a server is: reads a DSN strictly, so that no part of it is silently ignored.
//!
//! The redis crate interprets the URL; this file refuses what it would overlook, in words that never
//! hold a user name or a password.

use redis::{ConnectionAddr, IntoConnectionInfo};
use std::{fmt, path::PathBuf};
use thiserror::Error;
use url::Url;

/// One server, and who we are to it.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// How to reach it.
    pub address: Address,
    /// The ACL user; None for the default user.
    pub username: Option<String>,
    /// The password; None when the server asks for none.
    pub password: Option<String>,
    /// The database number.
    pub database: u32,
    /// Whom to trust and who we are, if TLS is asked for.
    pub tls: Option<TlsFiles>,
    /// Whether to speak RESP3, the protocol since Redis 6, instead of RESP2.
    pub resp3: bool,
}

/// The files of a TLS session; all are read at connect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TlsFiles {
    /// Certificates of the CAs that may have signed the server's; None: the system's.
    pub ca: Option<PathBuf>,
    /// Our certificate and its key, where the server wants them.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A host name or IP address, and a port.
    Tcp(String, u16),
    /// A socket file.
    Unix(PathBuf),
}

/// What is wrong with a DSN.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DsnError {
    /// Nothing but white space.
    #[error("must not be empty")]
    Empty,
    /// The text before `://`.
    #[error(
        "must begin with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster:// (valkey for redis is the same)"
    )]
    Scheme,
    /// A part that has the wrong form.
    #[error("has {0}")]
    Malformed(String),
}

/// Reads the DSN of one server.
pub fn parse(dsn: &str) -> Result<Endpoint, DsnError> {
    let word = dsn.trim_ascii();
    if word.is_empty() {
        return Err(DsnError::Empty);
    }
    if word.contains(|char: char| char.is_ascii_whitespace()) {
        return Err(malformed("white space within the address of a server"));
    }
    let (scheme, rest) =
        word.split_once("://").ok_or_else(|| malformed("no scheme: redis://host:port was expected"))?;
    let (is_unix, is_tls) = match scheme {
        "redis" | "valkey" => (false, false),
        "rediss" | "valkeys" => (false, true),
        "unix" | "redis+unix" | "valkey+unix" => (true, false),
        _ => return Err(DsnError::Scheme),
    };
    check_characters(rest)?;
    // The redis crate reads a rediss:// URL only with a TLS stack of its own.
    let url =
        Url::parse(&if is_tls { format!("redis://{rest}") } else { word.to_owned() }).map_err(|error| match error {
            url::ParseError::InvalidPort => malformed(
                "a port that is not a number from 1 to 65535 (in a password, write @ : / ? # % as percent-escapes)",
            ),
            url::ParseError::EmptyHost => malformed("no host"),
            other => malformed(format!("an error: {other}")),
        })?;
    let tls = match (is_unix, is_tls) {
        (true, _) => check_unix(&url).map(|()| None)?,
        (false, false) => check_tcp(&url, &["protocol"]).map(|()| None)?,
        (false, true) => {
            check_tcp(&url, &["ca", "cert", "key", "protocol"]).and_then(|()| tls_files(&url).map(Some))?
        }
    };
    let query = url.query().map(str::to_owned);
    let resp3 = match parameter(query.as_deref(), "protocol").as_deref() {
        None if !query.as_deref().unwrap_or_default().contains("protocol") => false,
        Some("2") => false,
        Some("3") => true,
        _ => return Err(malformed("a protocol that is neither 2 nor 3")),
    };
    let info = url.into_connection_info().map_err(|error| malformed(format!("an error: {error}")))?;
    let address = match info.addr() {
        ConnectionAddr::Tcp(host, port) => Address::Tcp(host.clone(), *port),
        ConnectionAddr::Unix(path) => Address::Unix(path.clone()),
        _ => return Err(DsnError::Scheme),
    };
    let login = info.redis_settings();
    // In a query a + is read as a space; a password must stay as it was written.
    let written = |name| if is_unix { parameter(query.as_deref(), name) } else { None };
    Ok(Endpoint {
        address,
        username: written("user").or_else(|| login.username().map(str::to_owned)),
        password: written("pass").or_else(|| login.password().map(str::to_owned)),
        tls,
        resp3,
        database: u32::try_from(login.db()).map_err(|_| malformed("a negative database number"))?,
    })
}

/// Bytes a URL cannot hold, and percent signs that escape nothing.
fn check_characters(text: &str) -> Result<(), DsnError> {
    if text.contains('#') {
        return Err(malformed("a fragment: write # as %23"));
    }
    if text.chars().any(|char| char.is_control()) {
        return Err(malformed("a control character"));
    }
    match unescaped(text) {
        None => Err(malformed("a % that is not followed by two hex digits: write %25")),
        Some(bytes) if std::str::from_utf8(&bytes).is_err() => Err(malformed("an escaped byte that is not UTF-8")),
        Some(_) => Ok(()),
    }
}

/// The bytes that the percent-escapes stand for; None when one is broken.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok().filter(|_| !part.starts_with('+'))?);
        bytes.extend(part.bytes().skip(2));
    }
    Some(bytes)
}

/// A text without its percent-escapes; None when they are broken.
pub fn unescaped_text(text: &str) -> Option<String> {
    String::from_utf8(unescaped(text)?).ok()
}

/// One parameter of a query, its percent-escapes undone and nothing else.
fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
    let value = pairs.into_iter().find(|(key, _)| *key == name)?.1;
    unescaped_text(value)
}

fn check_tcp(url: &Url, options: &[&str]) -> Result<(), DsnError> {
    if url.host_str().is_none_or(str::is_empty) {
        return Err(malformed("no host"));
    }
    let is_name = |host: &str| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte));
    if !url.host_str().is_some_and(is_name) {
        return Err(malformed("a host that is neither a name nor an address"));
    }
    if url.port() == Some(0) {
        return Err(malformed("port 0: ports go from 1 to 65535"));
    }
    check_database(url.path().strip_prefix('/').unwrap_or_default())?;
    check_query(url, options)?;
    if !url.username().is_empty() && url.password().is_none() {
        return Err(malformed(
            "a user without a password: write redis://user:password@host, or redis://:password@host",
        ));
    }
    Ok(())
}

fn tls_files(url: &Url) -> Result<TlsFiles, DsnError> {
    let path = |name| parameter(url.query(), name).map(PathBuf::from);
    let identity = match (path("cert"), path("key")) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err(malformed("a client certificate without its key, or the other way round (?cert=…&key=…)")),
    };
    Ok(TlsFiles { ca: path("ca"), identity })
}

fn check_unix(url: &Url) -> Result<(), DsnError> {
    if url.has_authority() && url.authority() != "" {
        return Err(malformed("a host: three slashes begin the path of a socket, unix:///path"));
    }
    if url.path().trim_matches('/').is_empty() {
        return Err(malformed("no path: unix:///path was expected"));
    }
    check_query(url, &["db", "user", "pass", "protocol"])?;
    let value = |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value);
    match value("db") {
        Some(number) if number.is_empty() => return Err(malformed("a database that is not a number from 0 to 999999")),
        Some(number) => check_database(&number)?,
        None => {}
    }
    if value("user").is_some() && value("pass").is_none() {
        return Err(malformed("a user without a password (?user=…&pass=…)"));
    }
    Ok(())
}

fn check_database(text: &str) -> Result<(), DsnError> {
    let is_number = text.len() <= 6 && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { Ok(()) } else { Err(malformed("a database that is not a number from 0 to 999999")) }
}

fn check_query(url: &Url, known: &[&str]) -> Result<(), DsnError> {
    let mut seen = Vec::new();
    for (key, _) in url.query_pairs() {
        if !known.contains(&key.as_ref()) {
            let hint = match key.as_ref() {
                "db" => "the database goes into the path, as in /3",
                "wait_replicas" => "wait_replicas is for one server, Sentinel or Cluster, not for independent nodes",
                "restart_guard" => "restart_guard is for several independent nodes",
                _ => "in a password, write & as %26",
            };
            return Err(malformed(format!("an unknown option ({hint})")));
        }
        if seen.contains(&key) {
            return Err(malformed(format!("the option {key:?} twice")));
        }
        seen.push(key);
    }
    Ok(())
}

fn malformed(what: impl Into<String>) -> DsnError {
    DsnError::Malformed(what.into())
}

/// The address alone: what messages, `ping()` and phpinfo show.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp(host, port) => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Never the password, wherever a struct that holds an endpoint is printed.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self}/{})", self.database)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp(host.into(), port)
    }

    #[test]
    fn the_forms_of_the_documentation_are_read() {
        let plain = parse("redis://127.0.0.1").unwrap();
        assert_eq!((plain.address, plain.database), (tcp("127.0.0.1", 6379), 0));
        let full = parse(" valkey://worker:s%40crt@cache.local:7000/3 ").unwrap();
        assert_eq!((full.address.clone(), full.database), (tcp("cache.local", 7000), 3));
        assert_eq!((full.username.as_deref(), full.password.as_deref()), (Some("worker"), Some("s@crt")));
        let v6 = parse("redis://[::1]:7000").unwrap();
        assert_eq!((v6.address.clone(), v6.to_string()), (tcp("::1", 7000), "[::1]:7000".into()));
        let unix = parse("unix:///run/redis.sock?db=2&user=u&pass=p%26+q").unwrap();
        assert_eq!((unix.address, unix.database), (Address::Unix("/run/redis.sock".into()), 2));
        assert_eq!((unix.username.as_deref(), unix.password.as_deref()), (Some("u"), Some("p&+q")));
    }

    #[test]
    fn tls_takes_its_files_from_the_query() {
        let system = parse("rediss://h:1").unwrap();
        assert_eq!((system.address, system.tls), (tcp("h", 1), Some(TlsFiles::default())));
        let own = parse("valkeys://:p@h?ca=/etc/my%20ca.pem&cert=/c&key=/k").unwrap();
        let files = TlsFiles { ca: Some("/etc/my ca.pem".into()), identity: Some(("/c".into(), "/k".into())) };
        assert_eq!((own.tls, own.password.as_deref()), (Some(files), Some("p")));
    }

    #[test]
    fn the_protocol_is_chosen_in_the_query() {
        assert!(!parse("redis://h?protocol=2").unwrap().resp3);
        assert!(parse("rediss://h?ca=/x&protocol=3").unwrap().resp3 && parse("unix:///s?protocol=3").unwrap().resp3);
    }

    #[test]
    fn every_printable_password_survives_percent_encoding() {
        let password: String = (' '..='~').collect();
        let escaped: String = password.bytes().map(|byte| format!("%{byte:02X}")).collect();
        assert_eq!(parse(&format!("redis://:{escaped}@h")).unwrap().password, Some(password.clone()));
        assert_eq!(parse(&format!("unix:///s?pass={escaped}")).unwrap().password, Some(password));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_and_the_password_is_not_repeated() {
        let bad = [
            "",
            "  ",
            "localhost",
            "http://h",
            "redis://",
            "redis://:hunter2@",
            "redis://h:0",
            "redis://h:70000",
            "redis://h:x",
            "redis://h/one",
            "redis://h/-1",
            "redis://h/1/2",
            "redis://h?db=1",
            "redis://:hunter2%@h",
            "redis://:hunter2%zz@h",
            "redis://:hunter2#x@h",
            "redis://:hunter2/x@h",
            "redis://hunter2@h",
            "unix://sock",
            "unix:///",
            "unix:///s?db=x",
            "unix:///s?pass=hunter2&pass=hunter2",
            "unix:///s?password=hunter2",
            "unix:///s?user=hunter2",
            "unix:///s?pass=x&hunter2=1",
            "hunter2:hunter2://x",
            "redis://:%ff@h",
            "redis://a redis://b",
            "rediss://h?cert=c",
            "redis://h?ca=c",
            "redis://0.0.0.0",
            "redis://h,h2",
            "redis://*",
            "redis://h//",
            "redis://höst",
            "unix:///s?db",
            "redis://h/1000000",
            "redis://h\u{7}",
            "redis://h?protocol=1",
            "redis://h?protocol",
            "unix:///s?protocol=",
        ];
        for dsn in bad {
            let error = parse(dsn).expect_err(dsn).to_string();
            assert!(!error.contains("hunter2"), "{dsn}: {error}");
        }
    }
}
