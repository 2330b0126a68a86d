//! `redis_lease`: a lease on a named resource, kept in Redis, for PHP workers.
//!
//! Data goes one way: `php` checks arguments and translates, `lease` decides, `renewal` keeps what it is
//! told to keep, `store` speaks the protocol to one node or many, `net` moves bytes by a deadline.

pub mod clock;
pub mod error;
pub mod host;
pub mod lease;
mod loss;
pub mod metrics;
pub mod net;
mod process;
pub mod renewal;
mod signals;
pub mod store;
mod timer;
mod validity;

#[cfg(feature = "php")]
mod php;
