//! A bounded set of names in shared memory. A name gets its place for good; who comes when all are taken shares
//! the place behind the last one.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::atomic::{AtomicU8, AtomicU64, Ordering},
};

/// Up to `N` names.
pub struct Names<const N: usize> {
    entries: [Entry; N],
}

/// The hash takes the place, and is the same for all that come with this name. So it does not matter who writes
/// the bytes, nor that a process dies before it has: the next one writes the same ones.
struct Entry {
    /// Zero: free.
    hash: AtomicU64,
    /// Set when the bytes are there.
    length: AtomicU64,
    bytes: [AtomicU8; LONGEST],
}

/// What is kept of a name, in bytes.
pub const LONGEST: usize = 256;

impl<const N: usize> Names<N> {
    /// None yet.
    pub const fn new() -> Self {
        Self { entries: [const { Entry::new() }; N] }
    }

    /// The place of a name, or of those that begin alike for as long as is kept; `N` when there is none left.
    pub fn place(&self, name: &str) -> usize {
        let end = (0..=LONGEST.min(name.len())).rev().find(|end| name.is_char_boundary(*end)).unwrap_or_default();
        let name = name.get(..end).unwrap_or_default().as_bytes();
        let hash = hash(name);
        for (place, entry) in self.entries.iter().enumerate() {
            if entry.take(hash) {
                entry.write(name);
                return place;
            }
        }
        N
    }

    /// The names that have a place.
    pub fn all(&self) -> Vec<(usize, String)> {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(place, entry)| entry.read().map(|name| (place, name))).collect()
    }
}

impl Entry {
    const fn new() -> Self {
        Self { hash: AtomicU64::new(0), length: AtomicU64::new(0), bytes: [const { AtomicU8::new(0) }; LONGEST] }
    }

    /// Whether the place is this name's, from now on or already.
    fn take(&self, hash: u64) -> bool {
        match self.hash.compare_exchange(0, hash, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(owner) => owner == hash,
        }
    }

    fn write(&self, name: &[u8]) {
        if self.length.load(Ordering::Acquire) > 0 {
            return;
        }
        for (byte, cell) in name.iter().zip(&self.bytes) {
            cell.store(*byte, Ordering::Relaxed);
        }
        self.length.store(u64::try_from(name.len().min(LONGEST)).unwrap_or_default(), Ordering::Release);
    }

    fn read(&self) -> Option<String> {
        let length = usize::try_from(self.length.load(Ordering::Acquire)).unwrap_or_default();
        let bytes: Vec<u8> = self.bytes.iter().take(length).map(|byte| byte.load(Ordering::Relaxed)).collect();
        (length > 0).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The same in every process that runs this build.
fn hash(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_place_and_those_without_one_share_the_last() {
        let names = Names::<2>::new();
        assert_eq!([names.place("a"), names.place("b"), names.place("a")], [0, 1, 0]);
        assert_eq!([names.place("c"), names.place("d")], [2, 2]);
        assert_eq!(names.all(), [(0, "a".into()), (1, "b".into())]);
    }

    #[test]
    fn a_place_whose_taker_died_before_it_wrote_the_name_is_finished_by_the_next() {
        let names = Names::<2>::new();
        assert!(names.entries[0].take(hash(b"a")));
        assert_eq!(names.all(), []);
        assert_eq!([names.place("b"), names.place("a")], [1, 0]);
        assert_eq!(names.all(), [(0, "a".into()), (1, "b".into())]);
    }

    #[test]
    fn threads_that_come_with_the_same_names_at_once_agree_on_their_places() {
        static NAMES: Names<8> = Names::new();
        let places = || (0..8).map(|name| NAMES.place(&name.to_string())).collect::<Vec<_>>();
        let threads: Vec<_> = (0..8).map(|_| std::thread::spawn(places)).collect();
        let all: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(all.iter().all(|one| *one == all[0]));
        assert_eq!(NAMES.all().len(), 8);
    }

    #[test]
    fn a_long_name_is_cut_between_characters_and_is_one_with_those_that_begin_alike() {
        let names = Names::<2>::new();
        let long = format!("x{}", "é".repeat(LONGEST));
        assert_eq!([names.place(&long), names.place(&format!("{long}y"))], [0, 0]);
        assert_eq!(names.all(), [(0, format!("x{}", "é".repeat(LONGEST / 2 - 1)))]);
    }
}
