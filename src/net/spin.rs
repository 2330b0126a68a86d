//! Whether to look for a reply awake for a while before sleeping. A sleep and a wake-up cost about
//! 25 µs each way, as much as a near server's answer; but who spins holds a core that the server may
//! need, and keeps the two from settling on one. So both ways are tried in turns on every link, and
//! spinning must win by a margin.

use std::{sync::OnceLock, time::Duration};

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
    way: Way,
    /// Exchanges left before the other way gets a turn, or is judged.
    left: u32,
    is_trial: bool,
    latest: Latest,
    /// How long a reply typically took the way that is not being gone now.
    other: Option<Duration>,
    /// How many of the latest spins ran out, with older ones fading.
    run_out: u32,
    is_possible: bool,
}

/// A turn of the better way, and the trial of the other one that follows it.
const TURN: u32 = 1000;
const TRIAL: u32 = 16;
/// Spinning must be so much faster than sleeping, in eighths, since it costs the processor's time.
const WORTH: u32 = 7;
/// What a sleep and a wake-up add at most: who sleeps longer than the limit and this has a far server.
const WAKE_UP: Duration = Duration::from_micros(100);
/// A spin that runs out counts so much, one that does not takes one back, and at the limit the other way
/// gets its turn at once.
const RUN_OUT: u32 = 4;
const RUN_OUT_LIMIT: u32 = 12;

impl Spin {
    /// Nothing is known yet. With one processor there is nothing to gain.
    pub fn new() -> Self {
        Self {
            way: Way::Sleep,
            left: TRIAL,
            is_trial: true,
            latest: Latest::default(),
            other: None,
            run_out: 0,
            is_possible: has_two_processors(),
        }
    }

    /// How to await the next reply.
    pub fn choose(&self, limit: Duration) -> Way {
        if limit.is_zero() || !self.is_possible { Way::Sleep } else { self.way }
    }

    /// Takes note of how long a reply took the way that was chosen.
    pub fn learn(&mut self, limit: Duration, took: Duration) {
        if limit.is_zero() || !self.is_possible {
            return;
        }
        self.latest.add(took);
        if self.way == Way::Spin {
            self.run_out = if took > limit { self.run_out + RUN_OUT } else { self.run_out.saturating_sub(1) };
        }
        self.left = if self.run_out >= RUN_OUT_LIMIT { 0 } else { self.left.saturating_sub(1) };
        if self.left == 0 {
            self.turn(limit);
        }
    }

    /// The end of a turn or of a trial: what is next.
    fn turn(&mut self, limit: Duration) {
        let (this, other) = (self.latest.typical(), self.other);
        let (spinning, sleeping) = match self.way {
            Way::Spin => (Some(this), other),
            Way::Sleep => (other, Some(this)),
        };
        let is_far = sleeping.is_some_and(|sleeping| sleeping > limit + WAKE_UP);
        let better = match (spinning, sleeping) {
            _ if is_far => Way::Sleep,
            (Some(spinning), Some(sleeping)) if spinning * 8 >= sleeping * WORTH => Way::Sleep,
            (_, None) => Way::Sleep,
            _ => Way::Spin,
        };
        let is_judged = self.is_trial && other.is_some();
        let next = match self.way {
            // A trial is judged, and the first one is followed by one of the other way.
            _ if is_judged => better,
            Way::Sleep if is_far => Way::Sleep,
            Way::Sleep => Way::Spin,
            Way::Spin => Way::Sleep,
        };
        self.is_trial = !is_far && !is_judged;
        self.left = if self.is_trial { TRIAL } else { TURN };
        if next != self.way {
            (self.way, self.other, self.run_out) = (next, Some(this), 0);
            self.latest = Latest::default();
        }
    }
}

/// Asked once: the answer takes reading half a dozen files.
fn has_two_processors() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| std::thread::available_parallelism().is_ok_and(|count| count.get() > 1))
}

/// The latest eight times.
#[derive(Debug, Default)]
struct Latest {
    times: [Duration; 8],
    count: usize,
}

impl Latest {
    fn add(&mut self, time: Duration) {
        let place = self.count % self.times.len();
        if let Some(slot) = self.times.get_mut(place) {
            *slot = time;
        }
        self.count += 1;
    }

    /// Their median: one slow answer does not count.
    fn typical(&self) -> Duration {
        let mut times = self.times;
        let times = times.get_mut(..self.count.min(self.times.len())).unwrap_or_default();
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(50);

    /// How many of `exchanges` spin, when a reply takes so many µs to each way.
    fn spins(spin: &mut Spin, exchanges: u32, spinning: u64, sleeping: u64) -> u32 {
        let mut count = 0;
        for _ in 0..exchanges {
            let way = spin.choose(LIMIT);
            count += u32::from(way == Way::Spin);
            spin.learn(LIMIT, Duration::from_micros(if way == Way::Spin { spinning } else { sleeping }));
        }
        count
    }

    fn possible() -> Spin {
        Spin { is_possible: true, ..Spin::new() }
    }

    #[test]
    fn it_spins_while_that_is_faster() {
        let mut spin = possible();
        assert!(spins(&mut spin, 10_000, 20, 60) > 9_700);
        assert_eq!(spins(&mut possible(), TRIAL, 20, 60), 0, "it begins by sleeping");
    }

    #[test]
    fn it_stops_soon_when_spins_run_out_and_takes_it_up_again() {
        let mut spin = possible();
        spins(&mut spin, 500, 20, 60);
        // The machine gets busy: who spins keeps the server from running.
        assert!(spins(&mut spin, 5_000, 300, 120) < 150);
        assert!(spins(&mut spin, 10_000, 20, 60) > 8_500);
    }

    #[test]
    fn it_sleeps_where_spinning_wins_too_little() {
        assert!(spins(&mut possible(), 10_000, 45, 48) < 300);
    }

    #[test]
    fn it_does_not_spin_for_a_far_server_nor_where_it_is_switched_off_or_pointless() {
        assert_eq!(spins(&mut possible(), 5_000, 2_000, 2_000), 0);
        let mut off = possible();
        assert!((0..100).all(|_| off.choose(Duration::ZERO) == Way::Sleep));
        off.learn(Duration::ZERO, LIMIT);
        let mut alone = Spin { is_possible: false, ..Spin::new() };
        assert_eq!(spins(&mut alone, 1_000, 20, 60), 0);
    }
}
