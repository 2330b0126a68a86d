//! Moves bytes by a deadline: where the servers are (`dsn`, `topology`), getting there (`resolve`, `connecting`, `tls`, `sentinel`),
//! one connection to it (`wire`, `link`) and what comes back on it (`reply`). It knows Redis's wire, and
//! nothing of leases.

mod connecting;
pub mod dsn;
mod fault;
mod link;
pub mod poll;
pub mod reply;
mod resolve;
pub mod sentinel;
mod spin;
pub mod timeouts;
mod tls;
pub mod topology;
mod wire;

pub use fault::{Fault, Reason};
pub use link::Link;
pub use reply::{Refusal, Reply};
pub use timeouts::{Budget, Timeouts};
