//! What a lease is: its token, its validity, and what each answer of the store means for it.
//! No PHP and no sockets here.

mod acquire;
mod lock;
mod registry;
mod state;
mod token;
mod watch;

pub use crate::{
    loss::Loss,
    validity::{LONGEST_TTL, SHORTEST_TTL},
};
pub use lock::{Auto, Ending, Lock};
pub use registry::{aborted, end_request, put_off_aborts};
pub use token::{LONGEST_TOKEN, Token, TokenError};
