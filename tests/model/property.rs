//! What is promised, and how a promise is seen to be broken.

use super::{
    bounds::Bounds,
    world::{MAJORITY, NODES, Node, Token, World},
};

/// A broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Two clients have a lease that is valid at the same time.
    TwoOwners,
    /// A client is told a fence that is not higher than one that another lease's client was told before.
    FenceNotRising,
    /// A new grant's fence is below what its client's clock showed at the sending.
    FenceBelowFloor,
    /// A majority granted in time, and the attempt was given up all the same.
    GrantThrownAway,
    /// A node that knows a token as released for good holds it again.
    LeftBehind,
    /// A majority answered that the lease was gone, and its renewal was reported as held.
    LostLeaseRevived,
}

/// What is wrong with this world at any time.
pub fn of_world(world: &World, bounds: &Bounds) -> Option<Violation> {
    let owners = world.clients.iter().filter(|client| client.fence > 0 && client.lease_age < bounds.validity);
    (owners.count() > 1).then_some(Violation::TwoOwners)
}

/// What is wrong when a client is told `fence`, just before it is.
pub fn of_report(world: &World, bounds: &Bounds, client: usize, fence: u8) -> Option<Violation> {
    let it = &world.clients[client];
    let is_renewal = it.fence > 0;
    let is_new_grant = !is_renewal || it.lease_age >= bounds.validity;
    let gone = world.columns.iter().filter(|column| column.said_gone[client]).count();
    let is_rising = fence > world.last_fence || (fence == world.last_fence && it.token == world.last_token);

    if !is_rising {
        Some(Violation::FenceNotRising)
    } else if is_new_grant && fence < it.floor {
        Some(Violation::FenceBelowFloor)
    } else if is_renewal && gone > NODES - MAJORITY {
        Some(Violation::LostLeaseRevived)
    } else {
        None
    }
}

/// What is wrong when a node has just handled something from `token`.
pub fn of_node(node: &Node, token: Token) -> Option<Violation> {
    (node.lock == token && node.is_dead(token)).then_some(Violation::LeftBehind)
}
