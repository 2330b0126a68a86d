//! When one lease is renewed: a third of its TTL after the sending that was last confirmed, and after a
//! failure again and again until its validity ends. Only arithmetic: no clock is read, nothing is sent.

use crate::{clock::Moment, loss::Loss, validity};
use std::time::Duration;

/// The schedule of one lease.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// The TTL that the handle was made with.
    own_ttl: Duration,
    /// The TTL that the next renewal asks for.
    ttl: Duration,
    valid_until: Moment,
    /// From then on it is not renewed any more.
    hold_until: Moment,
    /// When to try next.
    next: Moment,
    /// How long the pause after the next failure is, at most.
    pause: Duration,
    /// Whether the latest try failed.
    has_failed: bool,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing before this moment.
    Wait(Moment),
    /// Renew.
    Renew,
    /// Nothing any more: the lease is lost.
    Lost(Loss),
}

/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// What of the TTL a pause may take at most, and what of the longest pause the first one takes.
const PAUSE_SHARE: u32 = 10;
const FIRST_SHARE: u32 = 8;

impl Schedule {
    /// The schedule of a lease confirmed by an answer to a command sent at `sent_at` with the TTL `ttl`, on a
    /// handle whose own TTL is `own_ttl`, to be renewed until `hold_until`.
    pub fn new(own_ttl: Duration, sent_at: Moment, ttl: Duration, hold_until: Moment) -> Self {
        let mut schedule = Self {
            own_ttl,
            ttl: own_ttl,
            valid_until: sent_at,
            hold_until,
            next: sent_at,
            pause: Duration::ZERO,
            has_failed: false,
        };
        schedule.asked(sent_at, ttl);
        schedule
    }

    /// The TTL that a renewal asks for: the handle's own, or what its owner last asked for, if that is more.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The end of the validity.
    pub fn valid_until(&self) -> Moment {
        self.valid_until
    }

    /// When the next renewal is due.
    pub fn next(&self) -> Moment {
        self.next
    }

    /// The owner renewed by hand, to `ttl`.
    pub fn asked(&mut self, sent_at: Moment, ttl: Duration) {
        self.ttl = self.own_ttl.max(ttl);
        self.extend(validity::end(sent_at, ttl));
    }

    /// A renewal sent at `sent_at` was confirmed.
    pub fn confirmed(&mut self, sent_at: Moment) {
        self.extend(validity::end(sent_at, self.ttl));
    }

    fn extend(&mut self, valid_until: Moment) {
        self.valid_until = self.valid_until.max(valid_until);
        // A third of the TTL after the sending, if that was of this TTL; a shorter one by hand puts nothing off.
        self.next = self.valid_until - validity::span(self.ttl) + self.ttl / 3;
        self.pause = self.longest_pause() / FIRST_SHARE;
        self.has_failed = false;
    }

    /// A try failed at `now`; `jittered` makes of a pause one that others do not take too.
    pub fn failed(&mut self, now: Moment, jittered: impl FnOnce(Duration) -> Duration) {
        self.has_failed = true;
        self.next = now + jittered(self.pause);
        self.pause = (self.pause * 2).min(self.longest_pause());
    }

    /// What is to be done at `now`.
    pub fn step(&self, now: Moment) -> Step {
        if now >= self.valid_until {
            Step::Lost(self.loss())
        } else if now >= self.hold_until || self.next >= self.hold_until {
            Step::Wait(self.valid_until)
        } else if now >= self.next {
            Step::Renew
        } else {
            Step::Wait(self.next.min(self.valid_until))
        }
    }

    /// When the try that is due should have begun at the latest: after that it presses.
    pub fn pressing(&self) -> Moment {
        self.next + self.ttl / 3
    }

    /// How long one sending may take at `now`: half of what is left, so that another can follow.
    pub fn patience(&self, now: Moment) -> Duration {
        self.valid_until.since(now) / 2
    }

    /// Why it is lost, once its validity is over.
    fn loss(&self) -> Loss {
        if self.has_failed {
            Loss::Unreachable
        } else if self.hold_until <= self.valid_until {
            Loss::MaxHold
        } else {
            Loss::Expired
        }
    }

    fn longest_pause(&self) -> Duration {
        (self.ttl / PAUSE_SHARE).min(LONGEST_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn held(ttl: Duration) -> (Schedule, Moment) {
        let sent_at = Moment::now();
        (Schedule::new(ttl, sent_at, ttl, sent_at + SECOND * 3600), sent_at)
    }

    #[test]
    fn it_renews_a_third_of_the_ttl_after_the_sending() {
        let (mut schedule, sent_at) = held(SECOND * 9);
        assert_eq!(schedule.step(sent_at), Step::Wait(sent_at + SECOND * 3));
        assert_eq!(schedule.step(sent_at + SECOND * 3), Step::Renew);
        schedule.confirmed(sent_at + SECOND * 3);
        assert_eq!(schedule.step(sent_at + SECOND * 3), Step::Wait(sent_at + SECOND * 6));
        assert_eq!(schedule.valid_until(), sent_at + SECOND * 12 - millis(92));
    }

    #[test]
    fn tries_go_on_until_the_validity_ends_and_then_it_is_lost_for_good() {
        let (mut schedule, sent_at) = held(SECOND);
        let (mut now, mut tries) = (sent_at, Vec::new());
        let loss = loop {
            match schedule.step(now) {
                Step::Wait(until) => now = until,
                Step::Renew => {
                    tries.push(now.since(sent_at));
                    schedule.failed(now, |pause| pause);
                }
                Step::Lost(loss) => break loss,
            }
        };
        assert_eq!(loss, Loss::Unreachable);
        assert_eq!(now, sent_at + millis(988));
        let pauses: Vec<_> = tries.windows(2).map(|pair| (pair[1] - pair[0]).as_micros()).collect();
        assert_eq!(pauses[..4], [12_500, 25_000, 50_000, 100_000], "they grow");
        assert!(pauses[4..].iter().all(|pause| *pause == 100_000), "and stop growing: {pauses:?}");
        assert!(tries.last().unwrap() > &millis(880));
    }

    #[test]
    fn a_failure_that_passes_is_forgotten() {
        let (mut schedule, sent_at) = held(SECOND);
        schedule.failed(sent_at + millis(333), |pause| pause);
        schedule.failed(sent_at + millis(400), |pause| pause);
        schedule.confirmed(sent_at + millis(500));
        assert_eq!(schedule.step(sent_at + millis(800)), Step::Wait(sent_at + millis(500) + SECOND / 3));
        assert_eq!(schedule.step(sent_at + millis(1488)), Step::Lost(Loss::Expired), "nobody tried: the process slept");
    }

    #[test]
    fn a_renewal_by_hand_counts_and_a_shorter_one_puts_nothing_off() {
        let (mut schedule, sent_at) = held(SECOND * 9);
        schedule.asked(sent_at + SECOND, SECOND * 60);
        assert_eq!((schedule.ttl(), schedule.step(sent_at)), (SECOND * 60, Step::Wait(sent_at + SECOND * 21)));
        let valid_until = schedule.valid_until();
        schedule.asked(sent_at + SECOND * 2, SECOND);
        assert_eq!((schedule.ttl(), schedule.valid_until()), (SECOND * 9, valid_until));
        assert_eq!(schedule.step(sent_at), Step::Wait(valid_until - validity::span(SECOND * 9) + SECOND * 3));

        let (mut schedule, sent_at) = held(SECOND * 9);
        for second in 0..3 {
            schedule.asked(sent_at + SECOND * second, millis(500));
            assert_eq!(
                schedule.step(sent_at),
                Step::Wait(sent_at + SECOND * 3),
                "whatever is asked for, and how often"
            );
        }
    }

    #[test]
    fn when_it_was_held_long_enough_it_is_not_renewed_and_ends_by_its_ttl() {
        let sent_at = Moment::now();
        let mut schedule = Schedule::new(SECOND, sent_at, SECOND, sent_at + millis(900));
        for sent in [SECOND / 3, SECOND * 2 / 3] {
            assert_eq!(schedule.step(sent_at + sent), Step::Renew);
            schedule.confirmed(sent_at + sent);
        }
        let valid_until = schedule.valid_until();
        assert_eq!(schedule.step(sent_at + SECOND), Step::Wait(valid_until));
        assert_eq!(schedule.step(valid_until), Step::Lost(Loss::MaxHold));
        schedule.asked(sent_at + SECOND, SECOND * 2);
        assert_eq!(schedule.step(valid_until), Step::Wait(schedule.valid_until()), "by hand it goes on");
        assert_eq!(schedule.step(schedule.valid_until()), Step::Lost(Loss::MaxHold), "and does not begin again");
    }

    #[test]
    fn a_short_hold_allows_no_renewal_and_a_slept_through_one_is_not_blamed() {
        let sent_at = Moment::now();
        let short = Schedule::new(SECOND * 9, sent_at, SECOND * 9, sent_at + SECOND);
        assert_eq!(short.step(sent_at + SECOND * 5), Step::Wait(short.valid_until()));
        assert_eq!(short.step(short.valid_until()), Step::Lost(Loss::MaxHold));
        let slept = Schedule::new(SECOND, sent_at, SECOND, sent_at + SECOND * 5);
        assert_eq!(slept.step(sent_at + SECOND * 60), Step::Lost(Loss::Expired));
    }
}
