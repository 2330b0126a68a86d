//! The stores of this thread, by DSN: the same DSN means the same sockets, for the worker's life.

use super::{Single, Store};
use crate::net::dsn::{self, DsnError};
use std::{cell::RefCell, collections::HashMap, rc::Rc};

thread_local! {
    static STORES: RefCell<HashMap<String, Rc<dyn Store>>> = RefCell::default();
}

/// The store behind `dsn`. Opens no connection: the first question does.
pub fn open(dsn: &str) -> Result<Rc<dyn Store>, DsnError> {
    STORES.with_borrow_mut(|stores| {
        if let Some(store) = stores.get(dsn) {
            return Ok(Rc::clone(store));
        }
        let store: Rc<dyn Store> = Rc::new(Single::new(dsn::parse(dsn)?));
        stores.insert(dsn.to_owned(), Rc::clone(&store));
        Ok(store)
    })
}

/// Closes this thread's connections and forgets them, at the end of the worker.
pub fn close_all() {
    // A thread that ends has dropped its stores, and their sockets, by itself.
    let _ = STORES.try_with(|stores| stores.take());
}
