//! Whether to look for a reply awake for a while before sleeping. A sleep and a wake-up cost about
//! 25 µs each way, more than a near server's answer; but who spins holds a core that the server may
//! need. So both ways are timed on every link, and spinning must win by a margin to go on.

use std::time::Duration;

/// How a reply is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Look, until the limit; then sleep.
    Spin,
    /// Sleep at once.
    Sleep,
}

/// What one link's replies have taught.
#[derive(Debug)]
pub struct Spin {
    spinning: Average,
    sleeping: Average,
    exchanges: u32,
    is_possible: bool,
}

/// One exchange in so many tries the way that is not the better one at present.
const TRY_OTHER: u32 = 64;
/// Spinning must be so much faster than sleeping, in eighths, since it costs the processor's time.
const WORTH: u32 = 7;
/// A server whose answers to a sleeper take longer than so many limits cannot answer within one.
const FAR: u32 = 6;

impl Spin {
    /// Nothing is known yet. With one processor there is nothing to gain.
    pub fn new() -> Self {
        let is_possible = std::thread::available_parallelism().is_ok_and(|count| count.get() > 1);
        Self { spinning: Average::default(), sleeping: Average::default(), exchanges: 0, is_possible }
    }

    /// How to await the next reply.
    pub fn choose(&mut self, limit: Duration) -> Way {
        if limit.is_zero() || !self.is_possible {
            return Way::Sleep;
        }
        self.exchanges = self.exchanges.wrapping_add(1);
        let (Some(spinning), Some(sleeping)) = (self.spinning.get(), self.sleeping.get()) else {
            return if self.sleeping.get().is_none() { Way::Sleep } else { Way::Spin };
        };
        if sleeping > limit * FAR {
            return Way::Sleep;
        }
        let is_other_way_due = self.exchanges.is_multiple_of(TRY_OTHER);
        if (spinning * 8 < sleeping * WORTH) != is_other_way_due { Way::Spin } else { Way::Sleep }
    }

    /// Takes note of how long a reply took.
    pub fn learn(&mut self, way: Way, took: Duration) {
        match way {
            Way::Spin => self.spinning.add(took),
            Way::Sleep => self.sleeping.add(took),
        }
    }
}

/// A running average. It rises over about eight answers, so that one slow one does not count for many,
/// and falls faster, so that few tries show when the other way has become the better one.
#[derive(Debug, Default)]
struct Average(Option<Duration>);

impl Average {
    fn get(&self) -> Option<Duration> {
        self.0
    }

    fn add(&mut self, sample: Duration) {
        self.0 = Some(match self.0 {
            None => sample,
            Some(average) if sample < average => (average + sample) / 2,
            Some(average) => (average * 7 + sample.min(average * 4)) / 8,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(50);

    /// How many of `exchanges` spin, when a reply takes so long to each way.
    fn spins(spin: &mut Spin, exchanges: u32, spinning: u64, sleeping: u64) -> u32 {
        let mut count = 0;
        for _ in 0..exchanges {
            let way = spin.choose(LIMIT);
            count += u32::from(way == Way::Spin);
            let took = if way == Way::Spin { spinning } else { sleeping };
            spin.learn(way, Duration::from_micros(took));
        }
        count
    }

    fn possible() -> Spin {
        Spin { is_possible: true, ..Spin::new() }
    }

    #[test]
    fn it_spins_while_that_is_faster_and_stops_when_it_is_not() {
        let mut spin = possible();
        assert!(spins(&mut spin, 1000, 20, 60) > 900);
        // The machine gets busy: the one who spins keeps the server from running.
        assert!(spins(&mut spin, 1000, 120, 70) < 100);
        assert!(spins(&mut spin, 1000, 20, 60) > 800);
    }

    #[test]
    fn it_does_not_spin_for_a_far_server_nor_where_it_is_switched_off_or_pointless() {
        let mut far = possible();
        assert!(spins(&mut far, 1000, 2000, 2000) <= 1);
        let mut off = possible();
        assert!((0..100).all(|_| off.choose(Duration::ZERO) == Way::Sleep));
        let mut alone = Spin { is_possible: false, ..Spin::new() };
        assert_eq!(spins(&mut alone, 100, 20, 60), 0);
    }
}
