//! Automatic renewal: one thread per process, started when it is first needed, renews the leases that it is
//! given until they are taken back or lost. When is decided in `schedule`, what next in `table`.

mod entry;
mod schedule;
mod table;
mod thread;

pub use entry::Lease;

use crate::{
    clock::Moment,
    error::{Error, Result},
    loss::Loss,
    process, store,
    timer::Timer,
};
use schedule::Schedule;
use std::{
    mem, ptr,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicPtr, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};
use table::{Id, Table};

/// Tells the owner's program that a lease is lost. It must do no more than set flags: it is rung on the
/// thread, and never once [`Renewal`] is gone.
pub type Bell = Arc<dyn Fn() + Send + Sync>;

/// What the renewal knows of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct News {
    /// The end of the validity that was last confirmed.
    pub valid_until: Moment,
    /// The latest fence.
    pub fence: u64,
    /// Why it is lost, if it is.
    pub loss: Option<Loss>,
    /// Whether that is counted.
    pub is_counted: bool,
}

/// How a lease was confirmed, and how long it is to be kept.
#[derive(Clone, Copy, Debug)]
pub struct Confirmed {
    /// When the command that was answered had been sent.
    pub sent_at: Moment,
    /// The TTL that it asked for.
    pub ttl: Duration,
    /// The fence of the answer.
    pub fence: u64,
}

/// A lease that is renewed until this is dropped.
pub struct Renewal {
    keeper: &'static Keeper,
    id: Id,
}

/// The renewal of one process.
struct Keeper {
    pid: u32,
    /// std's, not parking_lot's: those share one table per process, which a fork may copy while it is locked.
    work: Mutex<Work>,
    /// A renewal, or the thread, has ended.
    ended: Condvar,
    /// Set to when the thread has something to do, also when it is in the middle of a renewal.
    timer: Timer,
    /// The parent's, which a forked child leaves as it found it: it may be locked, and its thread is not there.
    _inherited: Option<&'static Keeper>,
}

#[derive(Default)]
struct Work {
    table: Table,
    thread: Option<JoinHandle<()>>,
    /// When the thread looks at the table again; None: when it is woken.
    looks_at: Option<Moment>,
    is_running: bool,
    is_stopping: bool,
}

static KEEPER: AtomicPtr<Keeper> = AtomicPtr::new(ptr::null_mut());

/// After how long a bell that came at a bad moment is rung again.
const RING_AGAIN: Duration = Duration::from_millis(1);
/// How long the renewal under way is waited for when its lease is dropped, and when the thread is to end.
const DROP_GRACE: Duration = Duration::from_millis(20);
const STOP_GRACE: Duration = Duration::from_millis(500);

/// Makes sure that the thread runs.
pub fn start() -> Result<()> {
    running().map(|_| ())
}

/// Keeps a lease that Redis has confirmed, until `hold_until` at most, on a handle whose own TTL is `own_ttl`.
pub fn keep(
    lease: Lease,
    confirmed: Confirmed,
    own_ttl: Duration,
    hold_until: Moment,
    bell: Option<Bell>,
) -> Result<Renewal> {
    let schedule = Schedule::new(own_ttl, confirmed.sent_at, confirmed.ttl, hold_until);
    let (keeper, mut work) = running()?;
    if let Some(until) = work.table.make_way(&lease, &schedule) {
        keeper.timer.set(Some(until));
    }
    let id = work.table.add(Arc::new(lease), schedule, confirmed.fence, bell);
    keeper.look_at(&mut work, schedule.next());
    Ok(Renewal { keeper, id })
}

/// The renewal of this process, with its thread running.
fn running() -> Result<(&'static Keeper, MutexGuard<'static, Work>)> {
    let keeper = Keeper::of_this_process()?;
    let mut work = keeper.lock();
    if !work.is_running {
        store::prepare_renewal();
        work.thread = Some(thread::spawn(keeper).map_err(|error| Error::Thread(error.to_string()))?);
        work.is_running = true;
    }
    Ok((keeper, work))
}

/// How many leases are renewed now; None when the thread does not run.
pub fn status() -> Option<usize> {
    let work = Keeper::present()?.lock();
    work.is_running.then(|| work.table.count())
}

/// Ends the thread, at the end of the process or of the module, and waits for that for half a second at most.
pub fn stop() {
    let Some(keeper) = Keeper::present() else { return };
    let mut work = keeper.lock();
    work.is_stopping = true;
    keeper.timer.ring();
    let by = Moment::now() + STOP_GRACE;
    while work.is_running && !by.is_past() {
        work = keeper.wait(work, by);
    }
    if !work.is_running {
        work.is_stopping = false;
        if let Some(thread) = work.thread.take() {
            drop(work);
            // It has nothing left to do.
            let _ = thread.join();
        }
    }
}

impl Renewal {
    /// What is known of the lease now.
    pub fn news(&self) -> Option<News> {
        self.work()?.table.news(self.id, Moment::now())
    }

    /// Its owner had it confirmed. False: it was lost before, and is kept no more.
    pub fn confirmed(&self, confirmed: Confirmed) -> bool {
        let Some(mut work) = self.work() else { return false };
        // Its next renewal is put off by this, never brought forward: the thread need not know.
        work.table.asked(self.id, confirmed.sent_at, confirmed.ttl, confirmed.fence)
    }

    /// Whether its owner's program is still to be told that it is lost.
    pub fn is_abort_due(&self) -> bool {
        self.work().is_some_and(|work| work.table.is_abort_due(self.id))
    }

    /// Rings the bell again in a moment, if its owner's program is still to be told.
    pub fn put_off_abort(&self) {
        let Some(mut work) = self.work() else { return };
        let again = Moment::now() + RING_AGAIN;
        if !work.table.put_off_abort(self.id, again) {
            return;
        }
        match work.table.break_off(again) {
            Some(until) => self.keeper.timer.set(Some(until)),
            None => self.keeper.look_at(&mut work, again),
        }
    }

    /// Why it is lost, if its owner's program is still to be told.
    pub fn take_abort(&self) -> Option<Loss> {
        self.work()?.table.take_abort(self.id)
    }

    /// Ends the renewing before the lease is given back: no renewal is sent from here on. One that is under way
    /// is waited for until half of the time to `by` is over, then it is broken off.
    pub fn suspend(&self, by: Moment) {
        let Some(mut work) = self.work() else { return };
        work.table.suspend(self.id);
        let patience = by.remaining() / 4;
        for turn in 1..=2 {
            let until = Moment::now() + patience;
            while work.table.is_under_way(self.id) && !until.is_past() {
                work = self.keeper.wait(work, until);
            }
            if turn == 1 && work.table.is_under_way(self.id) {
                work.table.break_off(Moment::now());
                self.keeper.timer.ring();
            }
        }
    }

    /// Goes on with a lease that was not given back after all.
    pub fn resume(&self) {
        if let Some(mut work) = self.work() {
            work.table.resume(self.id);
            self.keeper.look_at(&mut work, Moment::now());
        }
    }

    /// Ends it. Whether its loss is counted: from here on nobody else does it.
    pub fn end(self) -> bool {
        let is_counted = self.leave();
        // It holds nothing else.
        mem::forget(self);
        is_counted
    }

    fn leave(&self) -> bool {
        self.suspend(Moment::now() + DROP_GRACE * 2);
        self.work().is_some_and(|mut work| work.table.remove(self.id))
    }

    /// None in a process that only inherited it.
    fn work(&self) -> Option<MutexGuard<'static, Work>> {
        (self.keeper.pid == process::id()).then(|| self.keeper.lock())
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Keeper {
    /// The one of this process, if there is one.
    fn present() -> Option<&'static Self> {
        Self::latest().filter(|keeper| keeper.pid == process::id())
    }

    fn of_this_process() -> Result<&'static Self> {
        loop {
            let latest = Self::latest();
            if let Some(keeper) = latest.filter(|keeper| keeper.pid == process::id()) {
                return Ok(keeper);
            }
            let timer = Timer::new().map_err(|error| Error::Thread(error.to_string()))?;
            let (work, ended) = (Mutex::default(), Condvar::new());
            let fresh = Box::into_raw(Box::new(Self { pid: process::id(), work, ended, timer, _inherited: latest }));
            let before = latest.map_or(ptr::null_mut(), |keeper| ptr::from_ref(keeper).cast_mut());
            if KEEPER.compare_exchange(before, fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // Another thread was faster.
                // SAFETY: made above, and seen by nobody.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
    }

    fn latest() -> Option<&'static Self> {
        // SAFETY: null, or a keeper that is never freed.
        unsafe { KEEPER.load(Ordering::Acquire).as_ref() }
    }

    /// Has the thread look at the table at `moment`. One that is busy looks when it is done.
    fn look_at(&self, work: &mut Work, moment: Moment) {
        if !work.table.is_busy() && work.looks_at.is_none_or(|at| moment < at) {
            work.looks_at = Some(moment);
            self.timer.set(Some(moment));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, work: MutexGuard<'a, Work>, until: Moment) -> MutexGuard<'a, Work> {
        self.ended.wait_timeout(work, until.remaining()).unwrap_or_else(PoisonError::into_inner).0
    }
}
