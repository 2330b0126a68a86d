//! The keys of one lock: the lock itself, and beside it, in the same cluster slot for every byte
//! string, its fence, its wake list and its marks. All begin with the prefix, so that one ACL pattern
//! covers them.

use std::ops::Range;

/// The keys of one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Holds the owner's token; prefix and resource, nothing else, as other clients expect it.
    pub lock: Vec<u8>,
    /// Holds the latest fence, and the token it was minted for.
    pub fence: Vec<u8>,
    /// The list that a release wakes a waiter with.
    pub wake: Vec<u8>,
    /// Exists while somebody waits.
    pub waiter: Vec<u8>,
    prefix: Vec<u8>,
}

impl Keys {
    /// The keys of the lock on `resource`.
    pub fn new(prefix: &[u8], resource: &[u8]) -> Self {
        let lock = [prefix, resource].concat();
        Self {
            fence: beside(prefix, &lock, b":fence"),
            wake: beside(prefix, &lock, b":wake"),
            waiter: beside(prefix, &lock, b":waiter"),
            prefix: prefix.to_vec(),
            lock,
        }
    }

    /// The mark that `token` leaves when it is released.
    pub fn mark(&self, token: &[u8]) -> Vec<u8> {
        beside(&self.prefix, &self.lock, &[b":mark:", token].concat())
    }
}

/// A key beside `lock`, in its slot. Redis hashes what stands between the first `{` and the next `}`,
/// or the whole key if that is nothing.
fn beside(prefix: &[u8], lock: &[u8], suffix: &[u8]) -> Vec<u8> {
    if tag(lock).is_some() {
        return [lock, suffix].concat();
    }
    if !lock.iter().any(|byte| matches!(byte, b'{' | b'}')) {
        return [prefix, b"{", lock, b"}", suffix].concat();
    }
    // The braces in the name make no tag and leave no place for one: look for a number that brings
    // the whole key into the slot. One in 16,384 does.
    let stem = [lock, suffix, b":"].concat();
    let mut key = if tag(&stem).is_some() { [lock, b":", hex(suffix).as_bytes(), b":"].concat() } else { stem };
    let (wanted, so_far) = (slot(lock), crc16(0, &key));
    let digits = (0_u32..).map(Digits::of).find(|digits| crc16(so_far, digits.as_bytes()) % SLOTS == wanted);
    key.extend(digits.iter().flat_map(|digits| digits.as_bytes()));
    key
}

/// A number in decimal, without asking for memory: there are many to try.
struct Digits([u8; 10], usize);

impl Digits {
    fn of(mut number: u32) -> Self {
        let (mut bytes, mut length) = ([b'0'; 10], 0);
        for place in bytes.iter_mut().rev() {
            *place += u8::try_from(number % 10).unwrap_or_default();
            number /= 10;
            length += 1;
            if number == 0 {
                break;
            }
        }
        Self(bytes, length)
    }

    fn as_bytes(&self) -> &[u8] {
        self.0.get(self.0.len() - self.1..).unwrap_or_default()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The slot of `key` in a Redis Cluster.
pub fn slot(key: &[u8]) -> u16 {
    let hashed = tag(key).and_then(|range| key.get(range)).unwrap_or(key);
    crc16(0, hashed) % SLOTS
}

const SLOTS: u16 = 16_384;

fn tag(key: &[u8]) -> Option<Range<usize>> {
    let open = key.iter().position(|byte| *byte == b'{')? + 1;
    let length = key.get(open..)?.iter().position(|byte| *byte == b'}')?;
    (length > 0).then_some(open..open + length)
}

/// CRC-16/XMODEM, the one of the Cluster specification, going on from `crc`.
fn crc16(crc: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(crc, |crc, byte| {
        let index = usize::from((crc >> 8) ^ u16::from(*byte));
        (crc << 8) ^ CRC_OF_BYTE.get(index).copied().unwrap_or_default()
    })
}

#[allow(clippy::indexing_slicing, reason = "in a constant: checked by the compiler")]
const CRC_OF_BYTE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        assert_eq!(crc16(0, b"123456789"), 0x31c3);
        assert_eq!(slot(b"foo"), 12_182);
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(slot(b"foo{}{bar}"), crc16(0, b"foo{}{bar}") % SLOTS);
        assert_eq!(slot(b"foo{{bar}}zap"), crc16(0, b"{bar") % SLOTS);
    }

    /// Every string of up to four of the bytes that matter, as resource and as prefix.
    #[test]
    fn all_keys_of_a_lock_share_its_slot_whatever_the_braces() {
        let bytes = b"{}a";
        let mut names: Vec<Vec<u8>> = vec![vec![]];
        for length in 0..4 {
            let longer = names.iter().filter(|name| name.len() == length).cloned().collect::<Vec<_>>();
            names.extend(longer.iter().flat_map(|name| bytes.iter().map(|byte| [&name[..], &[*byte]].concat())));
        }
        for name in &names {
            for (prefix, resource) in [(&b"lock:"[..], &name[..]), (&name[..], b"x"), (b"", &name[..])] {
                if resource.is_empty() {
                    continue;
                }
                let keys = Keys::new(prefix, resource);
                for token in [&b"0123"[..], b"{", b"}", b"{}", b"{a}"] {
                    for key in [&keys.fence, &keys.wake, &keys.waiter, &keys.mark(token)] {
                        assert_eq!(slot(key), slot(&keys.lock), "{}", key.escape_ascii());
                        assert!(key.starts_with(prefix));
                        assert_ne!(key, &keys.lock);
                    }
                }
            }
        }
    }

    #[test]
    fn a_plain_name_gives_keys_a_person_can_read() {
        let keys = Keys::new(b"lock:", b"order:42");
        assert_eq!(keys.lock, b"lock:order:42");
        assert_eq!(keys.fence, b"lock:{lock:order:42}:fence");
        assert_eq!(keys.mark(b"0123"), b"lock:{lock:order:42}:mark:0123");
    }
}
