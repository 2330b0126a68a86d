//! Replies: where the one at the front of a buffer ends, its value, and what a refusal says.
//!
//! The redis crate parses; finding the end first tells a reply that is not all here yet from a
//! broken one, and shows bytes nobody asked for.

use redis::{Parser, Value};
use std::fmt;

/// A parsed reply that is no refusal.
pub type Reply = Value;

/// The longest reply a lease ever needs is far shorter; more than this is not a Redis talking to us.
const LIMIT: usize = 1 << 20;
const MAX_DEPTH: usize = 8;

/// An error reply, judged by its code word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The code word in capitals, `READONLY` or `ERR`.
    pub code: String,
    /// The server's whole sentence, the code word first.
    pub message: String,
}

impl Refusal {
    fn new(error: &redis::ServerError) -> Self {
        let details = error.details().unwrap_or_default();
        if let Some((code, rest)) = wrapped(error.code(), details) {
            return Self { code: code.to_owned(), message: format!("{code} {rest}") };
        }
        Self { code: error.code().to_owned(), message: format!("{} {details}", error.code()).trim_end().to_owned() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)
    }
}

impl std::error::Error for Refusal {}

/// Servers before 7.0 wrap what a command inside a script answered; the inner word counts.
fn wrapped<'a>(code: &str, details: &'a str) -> Option<(&'a str, &'a str)> {
    if code != "ERR" || !details.starts_with("Error running script") {
        return None;
    }
    let (_, inner) = details.rsplit_once("@user_script: ")?;
    let (_, inner) = inner.split_once(": ")?;
    let (word, rest) = inner.trim_start_matches('-').split_once(' ')?;
    let is_code = word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    is_code.then_some((word, rest))
}

/// What stands at the front of a buffer.
#[derive(Debug)]
pub enum Front {
    /// A whole reply of this many bytes.
    Whole(usize),
    /// The beginning of one.
    Partial,
}

/// Finds where the reply at the front of `buffer` ends, in RESP2 or RESP3.
pub fn front(buffer: &[u8]) -> Result<Front, String> {
    let end = Scan { buffer, at: 0 }.value(0);
    match end {
        Ok(Some(length)) => Ok(Front::Whole(length)),
        Ok(None) if buffer.len() > LIMIT => Err("a reply of more than 1 MiB".into()),
        Ok(None) => Ok(Front::Partial),
        Err(what) => Err(what),
    }
}

/// Parses one whole reply, as [`front`] found it.
pub fn parse(parser: &mut Parser, frame: &[u8]) -> Result<Result<Reply, Refusal>, String> {
    // What nearly every command of ours is answered with. The parser clears 8 KiB for each reply.
    if let Some(number) = number(frame) {
        return Ok(Ok(Value::Int(number)));
    }
    match parser.parse_value(frame) {
        Ok(Value::ServerError(error)) => Ok(Err(Refusal::new(&error))),
        Ok(value) => Ok(Ok(value)),
        Err(error) => Err(error.to_string()),
    }
}

fn number(frame: &[u8]) -> Option<i64> {
    let digits = frame.strip_prefix(b":")?.strip_suffix(b"\r\n")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

struct Scan<'a> {
    buffer: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    /// The end of the value that starts here; None when the buffer ends before it does.
    fn value(&mut self, depth: usize) -> Result<Option<usize>, String> {
        if depth > MAX_DEPTH {
            return Err("a reply nested too deep".into());
        }
        let Some(&kind) = self.buffer.get(self.at) else { return Ok(None) };
        let Some(line) = self.line() else { return Ok(None) };
        match kind {
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => Ok(Some(self.at)),
            b'$' | b'!' | b'=' => Ok(self.bulk(length(line)?)),
            b'*' | b'~' | b'>' => self.values(length(line)?, 1, depth),
            b'%' => self.values(length(line)?, 2, depth),
            b'|' => match self.values(length(line)?, 2, depth)? {
                Some(_) => self.value(depth + 1),
                None => Ok(None),
            },
            other => Err(format!("byte 0x{other:02x} where a reply should begin")),
        }
    }

    fn line(&mut self) -> Option<&'a [u8]> {
        let rest = self.buffer.get(self.at + 1..)?;
        let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
        self.at += 1 + end + 2;
        rest.get(..end)
    }

    fn bulk(&mut self, length: Option<usize>) -> Option<usize> {
        if let Some(length) = length {
            self.at += length + 2;
        }
        (self.at <= self.buffer.len()).then_some(self.at)
    }

    fn values(&mut self, count: Option<usize>, each: usize, depth: usize) -> Result<Option<usize>, String> {
        for _ in 0..count.unwrap_or(0) * each {
            if self.value(depth + 1)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(self.at))
    }
}

/// A length from a reply's first line: None for RESP2's null, -1.
fn length(line: &[u8]) -> Result<Option<usize>, String> {
    let number = std::str::from_utf8(line).ok().and_then(|text| text.parse::<i64>().ok());
    match number {
        Some(-1) => Ok(None),
        Some(number) => match usize::try_from(number) {
            Ok(length) if length <= LIMIT => Ok(Some(length)),
            _ => Err("a length out of range".into()),
        },
        None => Err("a length that is no number".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(bytes: &[u8]) -> usize {
        match front(bytes) {
            Ok(Front::Whole(length)) => length,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_prefix_of_a_reply_is_partial_and_what_follows_is_left() {
        let replies: [&[u8]; 9] = [
            b"+OK\r\n",
            b"-ERR no\r\n",
            b":7\r\n",
            b"$5\r\na\r\nbc\r\n",
            b"$-1\r\n",
            b"*-1\r\n",
            b"*2\r\n:1\r\n$2\r\nxy\r\n",
            b"%1\r\n+a\r\n*1\r\n_\r\n",
            b"|1\r\n+k\r\n+v\r\n:1\r\n",
        ];
        for reply in replies {
            for cut in 0..reply.len() {
                assert!(matches!(front(&reply[..cut]), Ok(Front::Partial)), "{reply:?} cut at {cut}");
            }
            let followed = [reply, b":9\r\n"].concat();
            assert_eq!(whole(&followed), reply.len());
        }
    }

    #[test]
    fn lengths_and_kinds_that_no_redis_sends_are_refused() {
        for broken in [&b"$-2\r\n"[..], b"$x\r\n", b"*99999999999\r\n", b"HTTP/1.1 400\r\n", b"\0"] {
            let result = front(&[broken, b"\r\n"].concat());
            assert!(result.is_err(), "{broken:?} gave {result:?}");
        }
        let deep = b"*1\r\n".repeat(MAX_DEPTH + 2);
        assert!(front(&deep).is_err());
    }

    #[test]
    fn a_number_is_what_the_redis_crate_makes_of_it() {
        for frame in
            [&b":0\r\n"[..], b":-7\r\n", b":1795967621837515\r\n", b":+5\r\n", b":x\r\n", b":9223372036854775808\r\n"]
        {
            let ours = parse(&mut Parser::new(), frame).ok();
            let theirs = redis::parse_redis_value(frame).ok().map(Ok);
            assert_eq!(ours, theirs, "{}", frame.escape_ascii());
        }
    }

    fn refusal(reply: &[u8]) -> Refusal {
        parse(&mut Parser::new(), reply).expect("parses").expect_err("is a refusal")
    }

    #[test]
    fn the_inner_word_of_an_error_wrapped_by_an_old_server_counts() {
        let old = refusal(
            b"-ERR Error running script (call to f_0123): @user_script:3: @user_script: 3: -READONLY You can't write against a read only replica.\r\n",
        );
        assert_eq!(old.code, "READONLY");
        let old = refusal(
            b"-ERR Error running script (call to f_0123): @user_script:3: @user_script: 3: WRONGTYPE Operation against a key\r\n",
        );
        assert_eq!(old.code, "WRONGTYPE");
        let new =
            refusal(b"-READONLY You can't write against a read only replica. script: 0123, on @user_script:3.\r\n");
        assert_eq!(new.code, "READONLY");
        assert_eq!(refusal(b"-ERR unknown command\r\n").message, "ERR unknown command");
    }
}
