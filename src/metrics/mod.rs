//! What happened, counted in memory that all workers share which were forked from one parent: an FPM master, a
//! command that forks. Counting is an addition to one number; there is no lock, and nothing to be left half done
//! by a process that is killed.
//!
//! What is counted is listed in `numbers`, how it is told in `families`, where it is kept in `memory`, the names that
//! appear as labels in `names`.

mod exposition;
mod families;
mod memory;
mod names;
mod numbers;
mod prefixes;
mod reading;

pub use exposition::text;
pub use memory::{is_shared, reset, share};
pub use numbers::{Counter, Histogram, PerPrefix, PerServer};
pub use prefixes::{LONGEST as LONGEST_PREFIX, MOST as MOST_PREFIXES, Prefix, set as set_prefixes};
pub use reading::{Reading, Series, Value, read, total};

use memory::Cell;
use std::{
    cell,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

static IS_ON: AtomicBool = AtomicBool::new(true);

/// Whether to count from here on, in this process.
pub fn turn(on: bool) {
    IS_ON.store(on, Ordering::Relaxed);
}

/// Whether it is counted.
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// One more.
pub fn count(counter: Counter) {
    add(Cell::counter(counter), 1);
}

/// One more span of time.
pub fn observe(histogram: Histogram, span: Duration) {
    note(histogram, nanos(span));
}

/// One more share of a whole, at most all of it.
pub fn observe_share(histogram: Histogram, part: Duration, whole: Duration) {
    let (part, whole) = (part.as_nanos(), whole.as_nanos().max(1));
    // A share of one is kept as a second is.
    note(histogram, u64::try_from(part.min(whole) * u128::from(SECOND) / whole).unwrap_or(SECOND));
}

/// What the nanoseconds of a histogram are divided by for people.
const SECOND: u64 = 1_000_000_000;

fn note(histogram: Histogram, value: u64) {
    add(Cell::bucket(histogram, value), 1);
    add(Cell::sum(histogram), value);
}

fn add(cell: Cell, amount: u64) {
    if is_on() {
        memory::add(cell, amount);
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A server that is counted by its address, looked up when it is first counted for.
#[derive(Default)]
pub struct Server(cell::Cell<Option<usize>>);

impl Server {
    /// One more for the server at the address that `name` tells.
    pub fn count(&self, what: PerServer, name: impl FnOnce() -> String) {
        if is_on() {
            let place = self.0.get().unwrap_or_else(|| memory::servers().place(&name()));
            self.0.set(Some(place));
            memory::add(Cell::server(place, what), 1);
        }
    }

    /// Its address may be another one from here on.
    pub fn forget(&self) {
        self.0.set(None);
    }
}
