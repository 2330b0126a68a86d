//! Where the numbers are: one table of them for each group of processes, so that those that count at the same time
//! seldom meet at the same one. A reader adds the tables up.

use super::{
    names::Names,
    numbers::{COUNTERS, Counter, HISTOGRAMS, Histogram, PER_PREFIX, PER_SERVER, PerPrefix, PerServer},
    prefixes,
};
use crate::{clock, process};
use std::{
    cell, ptr,
    sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering},
};

/// How many servers are told apart; more of them are counted together.
pub const SERVERS: usize = 32;
/// A power of two.
const TABLES: usize = 32;
/// Buckets, and the sum.
const PER_HISTOGRAM: usize = super::numbers::MOST_BOUNDS + 2;

const FIRST_HISTOGRAM: usize = COUNTERS;
const FIRST_SERVER: usize = FIRST_HISTOGRAM + HISTOGRAMS * PER_HISTOGRAM;
const FIRST_PREFIX: usize = FIRST_SERVER + (SERVERS + 1) * PER_SERVER;
const CELLS: usize = FIRST_PREFIX + prefixes::MOST * PER_PREFIX;

/// The place of one number.
#[derive(Clone, Copy)]
pub struct Cell(usize);

impl Cell {
    pub fn counter(counter: Counter) -> Self {
        Self(counter as usize)
    }

    /// That of the bucket in which a value falls.
    pub fn bucket(histogram: Histogram, value: u64) -> Self {
        Self::nth_bucket(histogram, histogram.bounds().partition_point(|(bound, _)| *bound < value))
    }

    pub fn nth_bucket(histogram: Histogram, place: usize) -> Self {
        Self(FIRST_HISTOGRAM + histogram as usize * PER_HISTOGRAM + place)
    }

    pub fn sum(histogram: Histogram) -> Self {
        Self(FIRST_HISTOGRAM + (histogram as usize + 1) * PER_HISTOGRAM - 1)
    }

    pub fn server(place: usize, what: PerServer) -> Self {
        Self(FIRST_SERVER + place.min(SERVERS) * PER_SERVER + what as usize)
    }

    pub fn prefix(place: usize, what: PerPrefix) -> Self {
        Self(FIRST_PREFIX + place.min(prefixes::MOST - 1) * PER_PREFIX + what as usize)
    }
}

struct Memory {
    /// When it was last set to zero, in µs since 1970; zero: never.
    since: AtomicU64,
    servers: Names<SERVERS>,
    prefixes: Names<{ prefixes::MOST }>,
    tables: [Table; TABLES],
}

/// On cache lines of its own.
#[repr(align(128))]
struct Table([AtomicU64; CELLS]);

/// Used where no memory could be shared, and before.
static OWN: Memory = Memory {
    since: AtomicU64::new(0),
    servers: Names::new(),
    prefixes: Names::new(),
    tables: [const { Table([const { AtomicU64::new(0) }; CELLS]) }; TABLES],
};
static SHARED: AtomicPtr<Memory> = AtomicPtr::new(ptr::null_mut());

/// Makes the memory that processes share which are forked from here on. It is kept to their end. Costs nothing
/// until something is counted: pages are taken when they are first written to.
pub fn share() {
    if !is_shared() {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: asks for new pages, which are nobody else's. They are zero, which is what an unused memory is.
        let pages = unsafe { libc::mmap(ptr::null_mut(), size_of::<Memory>(), protection, flags, -1, 0) };
        if pages != libc::MAP_FAILED {
            SHARED.store(pages.cast(), Ordering::Release);
        }
    }
    // Only the first of the processes, and the first time: another one may have counted already.
    let _ = memory().since.compare_exchange(0, clock::wall_micros(), Ordering::Relaxed, Ordering::Relaxed);
}

/// Whether what is counted here and in forked processes is counted together.
pub fn is_shared() -> bool {
    !SHARED.load(Ordering::Acquire).is_null()
}

fn memory() -> &'static Memory {
    // SAFETY: null, or pages of the right size that are never given back, and whose parts are all atomic.
    unsafe { SHARED.load(Ordering::Acquire).as_ref() }.unwrap_or(&OWN)
}

/// The servers that are counted.
pub fn servers() -> &'static Names<SERVERS> {
    &memory().servers
}

/// The prefixes that are counted.
pub fn prefixes() -> &'static Names<{ prefixes::MOST }> {
    &memory().prefixes
}

/// Since when it is counted, in µs since 1970.
pub fn since() -> u64 {
    memory().since.load(Ordering::Relaxed)
}

/// Adds to a number.
pub fn add(cell: Cell, amount: u64) {
    let table = process::id() as usize + thread();
    if let Some(number) = memory().tables.get(table % TABLES).and_then(|table| table.0.get(cell.0)) {
        number.fetch_add(amount, Ordering::Relaxed);
    }
}

/// A number of all processes.
pub fn read(cell: Cell) -> u64 {
    let numbers = memory().tables.iter().filter_map(|table| table.0.get(cell.0));
    numbers.fold(0, |sum, number| sum.wrapping_add(number.load(Ordering::Relaxed)))
}

/// Sets every number to zero, for all processes.
pub fn reset() {
    let memory = memory();
    for number in memory.tables.iter().flat_map(|table| &table.0) {
        // Untouched pages stay so.
        if number.load(Ordering::Relaxed) != 0 {
            number.store(0, Ordering::Relaxed);
        }
    }
    memory.since.store(clock::wall_micros(), Ordering::Relaxed);
}

/// A number for each thread of a process, from zero on.
fn thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: cell::Cell<Option<usize>> = const { cell::Cell::new(None) };
    }
    // At the end of a thread it may be gone; any table will do then.
    MINE.try_with(|mine| {
        mine.get().unwrap_or_else(|| {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            mine.set(Some(number));
            number
        })
    })
    .unwrap_or_default()
}
