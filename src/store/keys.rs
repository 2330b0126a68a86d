//! The keys of one lock: the lock itself, and beside it, in the same cluster slot for every byte
//! string, its fence, its wake list and its marks. Their names are such that no other lock has them.

use std::{ops::Range, sync::OnceLock};

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
    mark: Vec<u8>,
    prefix_length: usize,
}

impl Keys {
    /// The keys of the lock on `resource`.
    pub fn new(prefix: &[u8], resource: &[u8]) -> Self {
        let lock = [prefix, resource].concat();
        let stem = stem(prefix, &lock);
        let beside = |what: &[u8]| [&stem, what].concat();
        Self {
            fence: beside(b"fence"),
            wake: beside(b"wake"),
            waiter: beside(b"waiter"),
            mark: beside(b"mark:"),
            lock,
            prefix_length: prefix.len(),
        }
    }

    /// The resource that the lock is on.
    pub fn resource(&self) -> &[u8] {
        self.lock.get(self.prefix_length..).unwrap_or_default()
    }

    /// The mark that `token` leaves when it is released.
    pub fn mark(&self, token: &[u8]) -> Vec<u8> {
        [&self.mark, token].concat()
    }
}

/// What the keys beside `lock` begin with. Redis hashes what stands between the first `{` and the next
/// `}`, or the whole key if that is nothing; the stem has the lock's slot whatever is appended to it.
///
/// It begins with the prefix less its last byte, and a `~`: no resource gives a lock of that name. Its
/// last byte tells the three forms apart, so that no two locks share a key.
fn stem(prefix: &[u8], lock: &[u8]) -> Vec<u8> {
    let is_brace = |byte: &u8| matches!(byte, b'{' | b'}');
    let start = match prefix.split_last() {
        Some((last, start)) if !is_brace(last) => start,
        _ => prefix,
    };
    let start = [start, b"~"].concat();
    if !lock.iter().any(is_brace) {
        return [&start, &b"{"[..], lock, b"}:"].concat();
    }
    // The name has a tag of its own.
    let resource = lock.get(prefix.len()..).unwrap_or_default();
    let stem = [&start, resource, b"/"].concat();
    if tag(lock).is_some() && slot(&stem) == slot(lock) {
        return stem;
    }
    // Its braces make no tag and leave no place for one: a number of the same slot is the tag.
    let open = start.iter().position(|byte| *byte == b'{');
    let after_open = open.and_then(|open| start.get(open + 1..)).unwrap_or_default();
    let (head, in_tag) = match open {
        None => ([&start, &b"{"[..]].concat(), &b""[..]),
        Some(_) if !after_open.contains(&b'}') => (start.clone(), after_open),
        // An empty pair in the prefix: no key that begins with it can have a tag.
        Some(_) => (b"~{".to_vec(), &b""[..]),
    };
    let number = number_for(crc16(0, in_tag), slot(lock));
    [&head, number.as_bytes(), b"}", resource, b"|"].concat()
}

/// The least number that, appended to what `so_far` was computed from, leads to the slot: one in 16,384 does.
fn number_for(so_far: u16, slot: u16) -> Digits {
    // Nearly always the number stands alone in its tag.
    static ALONE: OnceLock<Vec<u32>> = OnceLock::new();
    let search = |from: u32| (from..).find(|number| crc16(so_far, Digits::of(*number).as_bytes()) % SLOTS == slot);
    if so_far != 0 {
        return Digits::of(search(0).unwrap_or_default());
    }
    let table = ALONE.get_or_init(|| {
        let mut table = vec![u32::MAX; usize::from(SLOTS)];
        let mut missing = table.len();
        for number in 0.. {
            let slot = crc16(0, Digits::of(number).as_bytes()) % SLOTS;
            if let Some(entry) = table.get_mut(usize::from(slot)).filter(|entry| **entry == u32::MAX) {
                *entry = number;
                missing -= 1;
            }
            if missing == 0 {
                break;
            }
        }
        table
    });
    Digits::of(table.get(usize::from(slot)).copied().unwrap_or_default())
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
    use std::collections::HashSet;

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
        for prefix in [&b"lock:"[..], b"", b"{", b"}", b"{}", b"{a}:", b"a{b", b"{}b", b"}{b"] {
            let mut seen = HashSet::new();
            for resource in names.iter().filter(|name| !name.is_empty()) {
                let keys = Keys::new(prefix, resource);
                for key in [&keys.fence, &keys.wake, &keys.waiter, &keys.mark(b"}{a}"), &keys.mark(b"0")] {
                    let (shown, of) = (key.escape_ascii(), keys.lock.escape_ascii());
                    assert_eq!(slot(key), slot(&keys.lock), "{shown} of {of}");
                    assert!(seen.insert(key.clone()), "{shown} of {of} is another lock's too");
                    let ends_plain = prefix.last().is_some_and(|last| !b"{}".contains(last));
                    assert!(!(ends_plain && key.starts_with(prefix)), "{shown} is a lock's name");
                }
            }
        }
    }

    #[test]
    fn a_plain_name_gives_keys_a_person_can_read() {
        let keys = Keys::new(b"lock:", b"order:42");
        assert_eq!(keys.lock, b"lock:order:42");
        assert_eq!(keys.fence, b"lock~{lock:order:42}:fence");
        assert_eq!(keys.mark(b"0123"), b"lock~{lock:order:42}:mark:0123");
    }
}
