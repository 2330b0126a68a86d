//! What a lease is: its token, its validity, and what each answer of the store means for it.
//! No PHP and no sockets here.

mod acquire;
mod lock;
mod registry;
mod state;
mod token;
mod validity;

pub use lock::{Ending, Lock};
pub use registry::end_request;
pub use token::{LONGEST_TOKEN, Token, TokenError};
pub use validity::{LONGEST_TTL, SHORTEST_TTL};
