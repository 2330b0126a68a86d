//! Moves bytes by a deadline: where a server is (`dsn`, `resolve`), one connection to it (`link`),
//! and what travels on it (`request`, `reply`). It knows Redis's wire, and nothing of leases.

pub mod dsn;
mod fault;
mod link;
pub mod poll;
pub mod reply;
mod resolve;
mod spin;
pub mod timeouts;

pub use fault::{Fault, Reason};
pub use link::Link;
pub use reply::{Refusal, Reply};
pub use timeouts::{Budget, Timeouts};
