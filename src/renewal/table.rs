//! The leases that are renewed, and what is to be done for them next. No clock is read here and nothing is
//! sent; the bell of a lost lease is rung.

use super::{
    Bell, News,
    entry::{Entry, Lease, Phase, Task},
    schedule::{Schedule, Step},
};
use crate::{clock::Moment, error::Result, loss::Loss, store::Renewed};
use std::{collections::HashMap, sync::Arc, time::Duration};

/// Which entry of the table.
pub type Id = u64;

/// All leases of the process that are renewed, or were and have not been given up.
#[derive(Default)]
pub struct Table {
    entries: HashMap<Id, Entry>,
    latest: Id,
    attempt: Option<Attempt>,
}

/// The renewals under way.
struct Attempt {
    ids: Vec<Id>,
    lease: Arc<Lease>,
    until: Moment,
}

/// What is to be done next.
pub enum Next {
    /// Renew these, which are kept in one place.
    Renew(Batch),
    /// Nothing before this moment; None: before something changes.
    Sleep(Option<Moment>),
}

/// Renewals that are due at about the same time.
pub struct Batch {
    /// At least one.
    pub tasks: Vec<Task>,
    /// When they must be over: something else is due then.
    pub until: Moment,
}

/// What is due within this part of its TTL is renewed along with what is due now.
const ALONG: u32 = 12;

/// A try that has only just begun is not stopped because something else is due.
const SHORTEST_ATTEMPT: Duration = Duration::from_millis(5);

impl Table {
    /// Adds a lease.
    pub fn add(&mut self, lease: Arc<Lease>, schedule: Schedule, fence: u64, bell: Option<Bell>) -> Id {
        self.latest += 1;
        self.entries.insert(
            self.latest,
            Entry { lease, schedule, fence, phase: Phase::Kept, bell, again: None, is_counted: false },
        );
        self.latest
    }

    /// When the renewal under way must be over now, if that is earlier than before: so that it does not keep
    /// this lease waiting for too long.
    pub fn make_way(&mut self, lease: &Lease, schedule: &Schedule) -> Option<Moment> {
        let is_elsewhere = self.attempt.as_ref()?.lease.dsn != lease.dsn;
        let valid_until = schedule.valid_until();
        self.break_off(if is_elsewhere { valid_until.min(schedule.pressing()) } else { valid_until })
    }

    /// When the renewal under way must be over now, if that is earlier than before: at `limit`.
    pub fn break_off(&mut self, limit: Moment) -> Option<Moment> {
        let attempt = self.attempt.as_mut().filter(|attempt| limit < attempt.until)?;
        attempt.until = limit;
        Some(limit)
    }

    /// Whether a renewal is under way.
    pub fn is_busy(&self) -> bool {
        self.attempt.is_some()
    }

    /// Renews it no more until [`resume`](Self::resume).
    pub fn suspend(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.phase == Phase::Kept) {
            entry.phase = Phase::Suspended;
        }
    }

    /// Its owner holds it still.
    pub fn resume(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.phase == Phase::Suspended) {
            entry.phase = Phase::Kept;
        }
    }

    /// Forgets it. Its bell is not rung any more. Whether its loss is counted.
    pub fn remove(&mut self, id: Id) -> bool {
        self.entries.remove(&id).is_some_and(|entry| entry.is_counted)
    }

    /// Whether a renewal of it is under way.
    pub fn is_under_way(&self, id: Id) -> bool {
        self.attempt.as_ref().is_some_and(|attempt| attempt.ids.contains(&id))
    }

    /// How many leases are renewed.
    pub fn count(&self) -> usize {
        self.entries.values().filter(|entry| entry.phase == Phase::Kept).count()
    }

    /// What is known of it at `now`.
    pub fn news(&self, id: Id, now: Moment) -> Option<News> {
        let entry = self.entries.get(&id)?;
        let loss = match (entry.phase, entry.schedule.step(now)) {
            (Phase::Over(loss, _), _) => Some(loss),
            (_, Step::Lost(loss)) => Some(if self.is_under_way(id) { loss.unanswered() } else { loss }),
            _ => None,
        };
        let (valid_until, fence) = (entry.schedule.valid_until(), entry.fence);
        Some(News { valid_until, fence, loss, is_counted: entry.is_counted })
    }

    /// Its owner had it confirmed. False: it is over, and begins anew.
    pub fn asked(&mut self, id: Id, sent_at: Moment, ttl: Duration, fence: u64) -> bool {
        match self.entries.get_mut(&id).filter(|entry| entry.phase == Phase::Kept) {
            Some(entry) => {
                entry.schedule.asked(sent_at, ttl);
                entry.fence = fence;
                true
            }
            None => false,
        }
    }

    /// Whether its owner's program is to be told that it is lost.
    pub fn is_abort_due(&self, id: Id) -> bool {
        matches!(self.entries.get(&id), Some(Entry { phase: Phase::Over(_, true), .. }))
    }

    /// Rings the bell at `again`, if its owner's program is still to be told then. False: it has been.
    pub fn put_off_abort(&mut self, id: Id, again: Moment) -> bool {
        let is_due = self.is_abort_due(id);
        if let Some(entry) = self.entries.get_mut(&id).filter(|_| is_due) {
            entry.again = Some(again);
        }
        is_due
    }

    /// Why it is lost, if its owner's program is to be told; the second time it is not.
    pub fn take_abort(&mut self, id: Id) -> Option<Loss> {
        match &mut self.entries.get_mut(&id)?.phase {
            Phase::Over(loss, is_due) if *is_due => {
                *is_due = false;
                Some(*loss)
            }
            _ => None,
        }
    }

    /// What is to be done at `now`. Leases whose validity is over are lost from here on.
    pub fn next(&mut self, now: Moment) -> Next {
        let (mut first, mut wake_by) = (None::<(Id, Moment)>, None::<Moment>);
        for (id, entry) in &mut self.entries {
            let at = match (entry.phase, entry.schedule.step(now)) {
                (Phase::Suspended, _) => continue,
                (Phase::Over(..), _) => match entry.ring_again(now) {
                    Some(again) => again,
                    None => continue,
                },
                (Phase::Kept, Step::Lost(loss)) => {
                    entry.lose(loss);
                    continue;
                }
                (Phase::Kept, Step::Wait(until)) => until,
                (Phase::Kept, Step::Renew) => {
                    let pressing = entry.schedule.pressing();
                    if first.is_none_or(|(_, earliest)| pressing < earliest) {
                        first = Some((*id, pressing));
                    }
                    now
                }
            };
            wake_by = Some(wake_by.map_or(at, |earliest| earliest.min(at)));
        }
        match first.and_then(|(id, _)| self.begin(id, now)) {
            Some(batch) => Next::Renew(batch),
            None => Next::Sleep(wake_by),
        }
    }

    /// A renewal must be over when the validity of any lease ends, and when one on another server presses:
    /// a server that hangs must not cost the leases on others.
    fn begin(&mut self, id: Id, now: Moment) -> Option<Batch> {
        let lease = Arc::clone(&self.entries.get(&id)?.lease);
        let kept = || self.entries.values().filter(|other| other.phase == Phase::Kept);
        let full = now + lease.timeouts.connect + lease.timeouts.command;
        let until = kept()
            .filter(|other| other.lease.dsn != lease.dsn)
            .map(|other| other.schedule.pressing().max(now + SHORTEST_ATTEMPT))
            .chain(kept().map(|other| other.schedule.valid_until()))
            .chain(self.entries.values().filter_map(|other| other.again))
            .fold(full, Moment::min);
        let is_along = |entry: &Entry| {
            let soon = now + entry.schedule.ttl() / ALONG;
            entry.phase == Phase::Kept && entry.lease.dsn == lease.dsn && entry.schedule.step(soon) == Step::Renew
        };
        let along = self.entries.iter().filter(|(other, entry)| **other == id || is_along(entry));
        let (ids, tasks) = along.map(|(id, entry)| (*id, entry.task(now))).unzip();
        self.attempt = Some(Attempt { ids, lease, until });
        Some(Batch { tasks, until })
    }

    /// The renewals under way have ended, at `now`, each with its result.
    pub fn finished(&mut self, results: Vec<Result<Renewed>>, now: Moment) {
        let ids = self.attempt.take().map(|attempt| attempt.ids).unwrap_or_default();
        for (id, result) in ids.into_iter().zip(results) {
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.finished(result, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        error::{Error, Operation},
        net::{Reason, Timeouts},
        store::{self, Grant, Keys},
        validity,
    };
    use std::sync::atomic::{AtomicUsize, Ordering};

    const SECOND: Duration = Duration::from_secs(1);

    struct Desk {
        table: Table,
        start: Moment,
        rung: Arc<AtomicUsize>,
    }

    impl Desk {
        fn new() -> Self {
            Self { table: Table::default(), start: Moment::now(), rung: Arc::default() }
        }

        fn add(&mut self, dsn: &str, ttl: Duration) -> Id {
            let timeouts = Timeouts { connect: SECOND * 5, command: SECOND * 5, spin: Duration::ZERO };
            let (keys, token) = (Keys::new(b"lock:", b"a"), b"token".to_vec());
            let lease = Lease { dsn: dsn.into(), keys, token, timeouts };
            let schedule = Schedule::new(ttl, self.start, ttl, self.start + SECOND * 3600);
            let rung = Arc::clone(&self.rung);
            let bell: Bell = Arc::new(move || {
                rung.fetch_add(1, Ordering::Relaxed);
            });
            self.table.add(Arc::new(lease), schedule, 1, Some(bell))
        }

        fn task(&mut self, at: Duration) -> Option<Batch> {
            match self.table.next(self.start + at) {
                Next::Renew(batch) => Some(batch),
                Next::Sleep(_) => None,
            }
        }

        /// Whose renewal is begun.
        fn turn(&mut self, at: Duration) -> Id {
            self.task(at).unwrap();
            self.latest()
        }

        fn latest(&self) -> Id {
            self.table.attempt.as_ref().unwrap().ids[0]
        }

        fn finish(&mut self, result: Result<Renewed>, at: Duration) {
            self.table.finished(vec![result], self.start + at);
        }

        fn held(&self, sent: Duration) -> Result<Renewed> {
            Ok(Renewed::Held(Grant { fence: 1, sent_at: self.start + sent }))
        }

        fn loss(&self, id: Id, at: Duration) -> Option<Loss> {
            self.table.news(id, self.start + at).unwrap().loss
        }

        fn rung(&self) -> usize {
            self.rung.load(Ordering::Relaxed)
        }
    }

    fn failure() -> Result<Renewed> {
        Err(Error::Unknown { operation: Operation::Renew, node: "a".into(), reason: Reason::TimedOut })
    }

    #[test]
    fn what_redis_says_is_lost_is_lost_for_good_and_told_once() {
        for (found, loss) in [(store::Loss::Gone, Loss::Deleted), (store::Loss::Taken, Loss::Taken)] {
            let mut desk = Desk::new();
            let id = desk.add("a", SECOND * 3);
            assert!(desk.task(SECOND / 2).is_none());
            assert_eq!(desk.turn(SECOND), id);
            desk.finish(Ok(Renewed::Lost(found)), SECOND);
            assert_eq!((desk.loss(id, SECOND), desk.rung()), (Some(loss), 1));
            assert!(desk.table.put_off_abort(id, desk.start + SECOND * 2));
            assert!(desk.task(SECOND).is_none() && desk.rung() == 1);
            assert!(desk.task(SECOND * 2).is_none() && desk.task(SECOND * 9).is_none());
            assert_eq!(desk.rung(), 2, "it came at a bad moment");
            assert_eq!((desk.table.take_abort(id), desk.table.take_abort(id)), (Some(loss), None));
            assert!(!desk.table.put_off_abort(id, desk.start + SECOND * 9));
            assert_eq!((desk.rung(), desk.table.count()), (2, 0));
        }
    }

    #[test]
    fn an_answer_after_the_end_of_the_validity_revives_nothing() {
        let mut desk = Desk::new();
        let id = desk.add("a", SECOND * 3);
        desk.task(SECOND).unwrap();
        desk.finish(desk.held(SECOND), SECOND * 4);
        assert_eq!((desk.loss(id, SECOND), desk.rung()), (Some(Loss::Expired), 1));
    }

    #[test]
    fn a_renewal_is_over_when_any_lease_ends_or_one_on_another_server_presses() {
        let mut desk = Desk::new();
        desk.add("hangs", SECOND * 30);
        let until = desk.task(SECOND * 10).unwrap().until;
        assert_eq!(until, desk.start + SECOND * 20, "both time-outs");

        let mut desk = Desk::new();
        desk.add("hangs", SECOND * 6);
        desk.add("other", SECOND * 9);
        assert_eq!(desk.task(SECOND * 2).unwrap().until, desk.start + validity::span(SECOND * 6));

        let mut desk = Desk::new();
        let hangs = desk.add("hangs", SECOND * 12);
        let other = desk.add("other", SECOND * 15);
        let task = desk.task(SECOND * 4).unwrap();
        assert_eq!((desk.latest(), task.until), (hangs, desk.start + SECOND * 10), "the other one presses");
        desk.finish(failure(), SECOND * 10);
        let task = desk.task(SECOND * 10).unwrap();
        assert_eq!(desk.latest(), other, "whose turn it is while the one that failed pauses");
        desk.finish(desk.held(SECOND * 10), SECOND * 10);
        let lease = Arc::clone(&task.tasks[0].lease);
        assert_eq!(desk.turn(SECOND * 11), hangs);
        let short = Schedule::new(SECOND, desk.start + SECOND * 11, SECOND, desk.start + SECOND * 99);
        assert_eq!(desk.table.make_way(&lease, &short), Some(short.pressing()), "a new lease that cannot wait");
        assert_eq!(desk.table.make_way(&lease, &short), None);
    }

    #[test]
    fn what_is_due_at_about_the_same_time_in_one_place_is_renewed_together() {
        let mut desk = Desk::new();
        for dsn in ["a", "a", "b"] {
            desk.add(dsn, SECOND * 12);
        }
        desk.add("a", SECOND * 30);
        let batch = desk.task(SECOND * 4).unwrap();
        let dsn = batch.tasks[0].lease.dsn.clone();
        assert_eq!(batch.tasks.len(), if dsn == "a" { 2 } else { 1 });
        let results = batch.tasks.iter().map(|_| desk.held(SECOND * 4)).collect();
        desk.table.finished(results, desk.start + SECOND * 4);
        let other = desk.task(SECOND * 4).unwrap();
        assert!(other.tasks[0].lease.dsn != dsn && other.tasks.len() + batch.tasks.len() == 3);
    }

    #[test]
    fn what_is_suspended_is_neither_renewed_nor_told_of_until_it_is_resumed() {
        let mut desk = Desk::new();
        let id = desk.add("a", SECOND * 3);
        desk.task(SECOND).unwrap();
        desk.table.suspend(id);
        assert!(desk.table.is_under_way(id));
        desk.finish(failure(), SECOND);
        assert!(!desk.table.is_under_way(id) && desk.task(SECOND * 2).is_none());
        desk.table.resume(id);
        assert_eq!(desk.turn(SECOND * 2), id);
        desk.table.suspend(id);
        desk.finish(Ok(Renewed::Lost(store::Loss::Gone)), SECOND * 2);
        assert_eq!((desk.rung(), desk.table.is_abort_due(id)), (0, false));
        desk.table.remove(id);
        assert!(desk.table.news(id, desk.start).is_none());
        desk.finish(desk.held(SECOND), SECOND);
    }
}
