//! The locks of this thread that owe Redis a release, so that the end of a request can give them back
//! even when no destructor runs.

use super::Lock;
use std::{
    cell::RefCell,
    collections::HashMap,
    rc::{Rc, Weak},
};

thread_local! {
    static OWING: RefCell<HashMap<*const Lock, Weak<Lock>>> = RefCell::default();
}

/// Notes that `lock` owes a release.
pub fn add(lock: &Rc<Lock>) {
    OWING.with_borrow_mut(|owing| owing.insert(Rc::as_ptr(lock), Rc::downgrade(lock)));
}

/// Notes that `lock` owes nothing any more.
pub fn remove(lock: &Rc<Lock>) {
    // At the end of a thread the registry may be gone before the last lock.
    let _ = OWING.try_with(|owing| owing.borrow_mut().remove(&Rc::as_ptr(lock)));
}

/// Ends every lease of this thread: gives it back, or with `release` false leaves it to its TTL.
pub fn release_all(release: bool) {
    let owing = OWING.with_borrow_mut(std::mem::take);
    let locks: Vec<Rc<Lock>> = owing.into_values().filter_map(|lock| lock.upgrade()).collect();
    let Some(by) = locks.iter().map(|lock| lock.release_by()).min() else { return };
    for lock in locks {
        if release {
            lock.abandon(by);
        } else {
            lock.detach();
        }
    }
}
