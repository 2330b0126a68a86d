//! The model of a quorum: see `quorum_model.rs` for what it shows and within which bounds.

pub mod bounds;
mod client;
pub mod explorer;
pub mod mutation;
mod node;
pub mod property;
mod step;
mod world;
