//! The stores of this thread, by DSN: the same DSN means the same sockets, for the worker's life.

use super::{Cluster, One, Quorum, Single, Store};
use crate::net::{
    dsn::DsnError,
    topology::{self, Topology},
};
use std::{cell::RefCell, rc::Rc};

thread_local! {
    /// The one used last comes last.
    static STORES: RefCell<Vec<(String, Rc<dyn Store>)>> = RefCell::default();
}

/// How many stores that nobody refers to are kept: a worker whose password changes every quarter of an
/// hour must not keep a socket for each.
const MOST_UNUSED: usize = 8;

/// The store behind `dsn`. Opens no connection: the first question does.
pub fn open(dsn: &str) -> Result<Rc<dyn Store>, DsnError> {
    STORES.with_borrow_mut(|stores| {
        if let Some(place) = stores.iter().position(|(name, _)| name == dsn) {
            let found = stores.remove(place);
            let store = Rc::clone(&found.1);
            stores.push(found);
            return Ok(store);
        }
        let store: Rc<dyn Store> = match topology::parse(dsn)? {
            Topology::Single(endpoint, replicas) => Rc::new(Single::new(One::fixed(endpoint), replicas)),
            Topology::Sentinel(watched, replicas) => Rc::new(Single::new(One::watched(watched), replicas)),
            Topology::Cluster(first, others, replicas) => Rc::new(Single::new(Cluster::new(first, &others), replicas)),
            Topology::Quorum(nodes) => Rc::new(Quorum::new(nodes)),
        };
        stores.push((dsn.to_owned(), Rc::clone(&store)));
        let is_unused = |(_, store): &(String, Rc<dyn Store>)| Rc::strong_count(store) == 1;
        if stores.iter().filter(|entry| is_unused(entry)).count() > MOST_UNUSED
            && let Some(oldest) = stores.iter().position(is_unused)
        {
            stores.remove(oldest);
        }
        Ok(store)
    })
}

/// Closes this thread's connections and forgets them, at the end of the worker.
pub fn close_all() {
    // A thread that ends has dropped its stores, and their sockets, by itself.
    let _ = STORES.try_with(|stores| stores.take());
}
