//! Tokens: what proves ownership.

use crate::error::{Error, Result};
use rand::{TryRng, rngs::SysRng};
use std::rc::Rc;
use thiserror::Error;

/// The longest token taken from elsewhere, in bytes.
pub const LONGEST_TOKEN: usize = 255;
/// Values that begin so mark a lock kept for a waiter, owned by nobody.
const RESERVED: &[u8] = b"reserved:";

/// The value that a lock's owner stored in it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Rc<[u8]>);

/// Why bytes cannot be a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TokenError {
    /// No bytes.
    #[error("must not be empty")]
    Empty,
    /// More than [`LONGEST_TOKEN`].
    #[error("must be at most 255 bytes")]
    TooLong,
    /// The prefix of a reservation.
    #[error("must not begin with \"reserved:\"")]
    Reserved,
}

impl Token {
    /// A new token: 128 bits from the kernel, in hex. Not from a generator in this process: a forked
    /// child would go on from the same state.
    pub fn random() -> Result<Self> {
        let mut bits = [0_u8; 16];
        SysRng.try_fill_bytes(&mut bits).map_err(|error| Error::Entropy(error.to_string()))?;
        let hex = |half: u8| if half < 10 { b'0' + half } else { b'a' + half - 10 };
        Ok(Self(bits.iter().flat_map(|byte| [hex(byte >> 4), hex(byte & 15)]).collect()))
    }

    /// A token that exists already: another process's, or a framework's owner string.
    pub fn existing(bytes: &[u8]) -> std::result::Result<Self, TokenError> {
        match bytes {
            [] => Err(TokenError::Empty),
            _ if bytes.len() > LONGEST_TOKEN => Err(TokenError::TooLong),
            _ if bytes.starts_with(RESERVED) => Err(TokenError::Reserved),
            _ => Ok(Self(bytes.into())),
        }
    }

    /// The bytes stored in Redis.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_token_is_32_hex_characters_and_never_the_same() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(one.as_bytes().len(), 32);
        assert!(one.as_bytes().iter().all(u8::is_ascii_hexdigit));
        assert!(one != other);
    }

    #[test]
    fn a_reservation_cannot_be_a_token() {
        assert_eq!(Token::existing(b"reserved:0123").err(), Some(TokenError::Reserved));
        assert_eq!(Token::existing(b"").err(), Some(TokenError::Empty));
        assert_eq!(Token::existing(&[b'a'; 256]).err(), Some(TokenError::TooLong));
        assert!(Token::existing(&[0; 255]).is_ok());
    }
}
