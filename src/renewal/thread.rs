//! The thread: does what the table says, on connections of its own. It calls nothing of PHP, and no signal
//! but those of faults reaches it.

use super::{
    Keeper,
    entry::Task,
    table::{Batch, Next},
};
use crate::{
    clock::Moment,
    error::{Error, Result},
    net::{
        Budget, Timeouts,
        poll::{self, Interest},
    },
    signals,
    store::{self, Renewed},
};
use std::{io, thread, time::Duration};

/// Enough for TLS and for a name to be resolved.
const STACK: usize = 256 << 10;
/// No deadline of its own: the timer ends the sleep.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

/// Starts it; the caller notes that it runs.
pub fn spawn(keeper: &'static Keeper) -> io::Result<thread::JoinHandle<()>> {
    let _signals = signals::Blocked::new();
    thread::Builder::new().name("lease-renewal".into()).stack_size(STACK).spawn(move || {
        let _end = End(keeper);
        run(keeper);
        // Before it is said to have ended, not after.
        store::close_all();
    })
}

/// Says that the thread has ended, however it did.
struct End(&'static Keeper);

impl Drop for End {
    fn drop(&mut self) {
        self.0.lock().is_running = false;
        self.0.ended.notify_all();
    }
}

fn run(keeper: &'static Keeper) {
    let alarm = Interest { fd: keeper.timer.fd(), read: true, write: false };
    loop {
        let mut work = keeper.lock();
        if work.is_stopping {
            return;
        }
        let next = work.table.next(Moment::now());
        work.looks_at = match &next {
            Next::Renew(batch) => Some(batch.until),
            Next::Sleep(until) => *until,
        };
        // Under the lock: who changes something after this sets it again.
        keeper.timer.set(work.looks_at);
        drop(work);
        match next {
            Next::Renew(batch) => {
                let results = poll::cancellable(keeper.timer.fd(), || renew(&batch));
                keeper.lock().table.finished(results, Moment::now());
                keeper.ended.notify_all();
            }
            Next::Sleep(_) => {
                // When it cannot sleep, it looks again all the same.
                let _ = poll::sleep(&[alarm], Moment::now() + FOR_EVER);
            }
        }
    }
}

/// All of them in one round trip to each server, where that is possible.
fn renew(batch: &Batch) -> Vec<Result<Renewed>> {
    let least = |time: fn(&Task) -> Duration| batch.tasks.iter().map(time).min().unwrap_or_default();
    let timeouts = Timeouts {
        connect: least(|task| task.lease.timeouts.connect.min(task.patience)),
        command: least(|task| task.lease.timeouts.command.min(task.patience)),
        spin: Duration::ZERO,
    };
    let Some(first) = batch.tasks.first() else { return Vec::new() };
    match store::open(&first.lease.dsn) {
        Ok(store) => {
            store.renew_all(&batch.tasks.iter().map(renewal).collect::<Vec<_>>(), Budget::until(timeouts, batch.until))
        }
        Err(error) => batch.tasks.iter().map(|_| Err(Error::from(error.clone()))).collect(),
    }
}

fn renewal(task: &Task) -> store::Renewal<'_> {
    let Task { lease, ttl, standing, .. } = task;
    store::Renewal { keys: &lease.keys, token: &lease.token, standing: *standing, ttl: *ttl }
}
