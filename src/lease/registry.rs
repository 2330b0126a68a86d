//! The handles of this thread that have taken a lock, or may have, so that the end of a request can give
//! back what they still owe even when no destructor runs.

use super::Lock;
use std::{
    cell::RefCell,
    collections::HashMap,
    rc::{Rc, Weak},
};

thread_local! {
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

/// Ends every lease of this thread: gives it back, or with `release` false leaves it to its TTL.
pub fn release_all(release: bool) {
    let locks: Vec<Rc<Lock>> = USED.with_borrow(|used| used.values().filter_map(Weak::upgrade).collect());
    let Some(by) = locks.iter().map(|lock| lock.release_by()).min() else { return };
    for lock in locks {
        if release {
            lock.abandon(by);
        } else {
            lock.detach();
            remove(&lock);
        }
    }
}
