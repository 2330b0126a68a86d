//! Resources by the beginning of their name, for those beginnings that the operator has asked for: so that a lock
//! that is too coarse can be found, and no resource's name gets out by itself.

use super::{PerPrefix, add, memory, memory::Cell, nanos};
use std::{
    ptr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicPtr, Ordering},
    },
    time::Duration,
};

/// How many there may be.
pub const MOST: usize = 32;
/// How long one may be, in bytes.
pub const LONGEST: usize = 64;

/// Prefixes and their places, the longest first.
type List = Vec<(String, usize)>;

/// What is asked for.
static ASKED: AtomicPtr<List> = AtomicPtr::new(ptr::null_mut());
/// Every list that was ever asked for. None is freed, since somebody may be reading it; a server that sets one for
/// each request sets the same again and again.
static LISTS: Mutex<Vec<&'static List>> = Mutex::new(Vec::new());

/// Counts by these prefixes from here on, in this process.
pub fn set<'a>(prefixes: impl Iterator<Item = &'a str>) {
    let mut asked: List = prefixes.map(|prefix| (prefix.to_owned(), memory::prefixes().place(prefix))).collect();
    asked.sort_by_key(|(prefix, _)| usize::MAX - prefix.len());
    let mut lists = LISTS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = lists.iter().copied().find(|list| **list == asked);
    let list = known.unwrap_or_else(|| {
        let list: &'static List = Box::leak(Box::new(asked));
        lists.push(list);
        list
    });
    ASKED.store(ptr::from_ref(list).cast_mut(), Ordering::Release);
}

/// The prefix that a resource is counted under, if it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prefix(Option<usize>);

impl Prefix {
    /// That of a resource.
    pub fn of(resource: &[u8]) -> Self {
        // SAFETY: null, or a list that is never freed.
        let asked = unsafe { ASKED.load(Ordering::Acquire).as_ref() };
        Self(asked.and_then(|asked| {
            asked
                .iter()
                .find(|(prefix, place)| *place < MOST && resource.starts_with(prefix.as_bytes()))
                .map(|(_, place)| *place)
        }))
    }

    /// One more.
    pub fn count(self, what: PerPrefix) {
        if let Self(Some(place)) = self {
            add(Cell::prefix(place, what), 1);
        }
    }

    /// So much more time.
    pub fn spend(self, what: PerPrefix, span: Duration) {
        if let Self(Some(place)) = self {
            add(Cell::prefix(place, what), nanos(span));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_counts() {
        set(["order:", "order:eu:"].into_iter());
        let place = |resource: &str| Prefix::of(resource.as_bytes()).0;
        assert_eq!(place("order:1"), place("order:2"));
        assert!(place("order:1").is_some() && place("order:eu:1").is_some());
        assert_ne!(place("order:1"), place("order:eu:1"));
        assert_eq!([place("orde"), place("")], [None, None]);
        for _ in 0..3 {
            set(["order:", "order:eu:"].into_iter());
        }
        assert_eq!(LISTS.lock().unwrap().len(), 1, "the same list is kept once");
    }
}
