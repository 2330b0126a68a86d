//! What comes from outside may be anything: no DSN, name or reply makes the code panic, and what is
//! accepted keeps its promises. A million cases in all; a failing one prints its seed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use redis_lease::{
    lease::Token,
    net::{
        dsn,
        reply::{self, Front},
        topology,
    },
    store::{Keys, slot},
};
use std::{
    panic::{self, AssertUnwindSafe},
    time::{SystemTime, UNIX_EPOCH},
};

/// SplitMix64: small, and the same on every machine.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).unwrap()).unwrap()
    }

    /// Up to `longest` pieces, each out of `pieces` or a random byte.
    fn bytes(&mut self, pieces: &[&[u8]], longest: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..self.below(longest + 1) {
            match self.below(8) {
                0 => bytes.push(u8::try_from(self.below(256)).unwrap()),
                _ => bytes.extend_from_slice(pieces[self.below(pieces.len())]),
            }
        }
        bytes
    }
}

fn cases(name: &str, count: u64, case: impl Fn(&mut Dice)) {
    let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    for seed in (0..count).map(|number| start.wrapping_add(number)) {
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| case(&mut Dice(seed))));
        assert!(outcome.is_ok(), "{name}: seed {seed}");
    }
}

#[test]
fn no_dsn_panics_and_none_shows_its_password() {
    let pieces: [&[u8]; 30] = [
        b"redis://",
        b"rediss://",
        b"unix://",
        b"valkey://",
        b"redis+sentinel://",
        b"/",
        b":",
        b"@",
        b"?",
        b"&",
        b"=",
        b"#",
        b"%",
        b"%2",
        b"%41",
        b"%ff",
        b"[::1]",
        b"h",
        b"localhost",
        b"0",
        b"65535",
        b"65536",
        b"-1",
        b"db",
        b"pass",
        b"user",
        b"ca",
        b" ",
        b"\xc3\xa9",
        b"0.0.0.0",
    ];
    cases("dsn", 300_000, |dice| {
        let bytes = dice.bytes(&pieces, 12);
        let text = String::from_utf8_lossy(&bytes);
        let _ = dsn::parse(&text);
        let _ = topology::parse(&text);
        // A secret in the middle of anything is never repeated.
        let around = String::from_utf8_lossy(&dice.bytes(&pieces, 6)).into_owned();
        let text = format!("redis://:s3cr3t{around}@h/0");
        match dsn::parse(&text) {
            Ok(endpoint) => assert!(!format!("{endpoint} {endpoint:?}").contains("s3cr3t"), "{text}"),
            Err(error) => assert!(!error.to_string().contains("s3cr3t"), "{text}: {error}"),
        }
    });
}

#[test]
fn no_reply_panics_and_a_whole_one_stays_whole_whatever_follows() {
    let pieces: [&[u8]; 31] = [
        b"\r\n",
        b"*",
        b"$",
        b":",
        b"+",
        b"-",
        b"%",
        b"~",
        b">",
        b"|",
        b"!",
        b"=",
        b"_",
        b",",
        b"#",
        b"(",
        b"0",
        b"1",
        b"2",
        b"-1",
        b"4",
        b"99999999999999999999",
        b"held",
        b"txt:",
        b"ERR x",
        b"t",
        b"inf",
        b"\r",
        b"\n",
        b"*2\r\n$4\r\nheld\r\n:7\r\n",
        b"-ERR Error running script (call to f_0): @user_script:1: @user_script: 1: -X",
    ];
    cases("reply", 500_000, |dice| {
        let bytes = dice.bytes(&pieces, 14);
        if let Ok(Front::Whole(length)) = reply::front(&bytes) {
            assert!(length <= bytes.len());
            let _ = reply::parse(&mut redis::Parser::new(), &bytes[..length]);
            let followed = [&bytes[..length], &dice.bytes(&pieces, 4)].concat();
            assert!(matches!(reply::front(&followed), Ok(Front::Whole(again)) if again == length));
        }
    });
}

#[test]
fn no_name_panics_and_the_keys_of_each_share_a_slot() {
    let pieces: [&[u8]; 8] = [b"{", b"}", b"{}", b"{a}", b"lock", b":", b"~", b"\0"];
    cases("name", 200_000, |dice| {
        let (prefix, mut resource) = (dice.bytes(&pieces, 3), dice.bytes(&pieces, 5));
        resource.push(b'x');
        let keys = Keys::new(&prefix, &resource);
        let token = dice.bytes(&pieces, 4);
        assert_eq!(Token::existing(&token).is_ok(), !token.is_empty());
        for key in [&keys.fence, &keys.wake, &keys.waiter, &keys.mark(&token)] {
            assert_eq!(slot(key), slot(&keys.lock), "{}", key.escape_ascii());
        }
    });
}
