//! The handles of this thread that have taken a lock, or may have, so that the end of a request can give
//! back what they still owe even when no destructor runs.

use super::Lock;
use crate::{clock::Moment, loss::Loss};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::{Rc, Weak},
};

thread_local! {
    /// When the end of the present request must be over, once it has begun.
    static END_BY: Cell<Option<Moment>> = const { Cell::new(None) };
    static USED: RefCell<HashMap<*const Lock, Weak<Lock>>> = RefCell::default();
}

/// Notes a handle from its first lease to its end.
pub fn add(lock: &Rc<Lock>) {
    if !lock.is_registered.replace(true) {
        USED.with_borrow_mut(|used| used.insert(Rc::as_ptr(lock), Rc::downgrade(lock)));
    }
}

/// Forgets a handle.
pub fn remove(lock: &Rc<Lock>) {
    if lock.is_registered.replace(false) {
        // At the end of a thread the registry may be gone before the last handle.
        let _ = USED.try_with(|used| used.borrow_mut().remove(&Rc::as_ptr(lock)));
    }
}

/// The handles of this thread whose program is still to be told that their lease is lost, and why it is. Each is
/// named once.
pub fn aborted() -> Vec<(Rc<Lock>, Loss)> {
    all().into_iter().filter_map(|lock| lock.take_abort().map(|loss| (lock, loss))).collect()
}

/// Has the bells of such handles rung again in a moment: this one does not suit.
pub fn put_off_aborts() {
    all().iter().for_each(|lock| lock.put_off_abort());
}

/// When the end of the request must be over: set by the first handle that it ends.
pub fn end_by(first: Moment) -> Moment {
    let by = END_BY.get().unwrap_or(first);
    END_BY.set(Some(by));
    by
}

/// Ends every lease of this thread: gives it back, or with `release` false leaves it to its TTL.
pub fn end_request(release: bool) {
    for lock in all() {
        lock.end_with_request(release);
    }
    END_BY.set(None);
}

fn all() -> Vec<Rc<Lock>> {
    USED.with_borrow(|used| used.values().filter_map(Weak::upgrade).collect())
}
