//! `redis_lease`: a lease on a named resource, kept in Redis, for PHP workers.
//!
//! Data goes one way: `php` checks arguments and translates, `lease` decides, `store` speaks the
//! protocol to one node or many, `net` moves bytes by a deadline.

pub mod clock;
pub mod error;
pub mod host;
pub mod lease;
pub mod net;
mod process;
mod signals;
pub mod store;

#[cfg(feature = "php")]
mod php;
