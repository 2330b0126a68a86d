//! How much may happen in one exploration. Nothing is drawn by lot: all that fits is explored.

use super::{mutation::Mutation, property::Violation, world::CLIENTS};

/// Ticks of the clocks are so many fences apart: more than one run can mint without a clock.
pub const FENCES_IN_A_TICK: u8 = 8;

/// The bounds of one exploration, and the mutation of the protocol that it tries.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub clients: [Budget; CLIENTS],
    /// How long a lease may be relied on, in ticks from the sending. A node keeps a key at least so long
    /// from its handling, and then for as long as it likes: its clock is its own.
    pub validity: u8,
    pub floors: Floors,
    /// How often a node starts anew and empty, all nodes together.
    pub restarts: u8,
    /// How long a node that started anew takes part in no new grant, in ticks.
    pub guard: u8,
    /// Whether a client may also acquire again, with its token, instead of a renewal while its lease is valid.
    pub retakes: bool,
    /// How many messages arrive twice.
    pub repeats: u8,
    /// Whether to explore also what is left out because the rest shows the same.
    pub unreduced: bool,
    pub mutation: Option<Mutation>,
    /// Properties that are not promised in this world.
    pub not_promised: &'static [Violation],
}

/// What one client may do in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    pub attempts: u8,
    pub renewals: u8,
    /// How far its clock is ahead of the slowest, in ticks.
    pub ahead: u8,
}

/// The floor of the fence, P in the design: what the client's wall clock shows when it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floors {
    /// Clocks that stand still. Time then goes on for ever: only what is over and what is not counts.
    Still,
    /// Clocks that show anything: every sending takes 0 or this. Time goes on for ever, too.
    Arbitrary(u8),
    /// Clocks that go, for so many ticks, each so far ahead as its client's budget says.
    Going(u8),
}

impl Bounds {
    /// Clients with so many attempts and renewals each, on nodes that lose nothing.
    pub fn of(clients: &[(u8, u8)]) -> Self {
        let mut budgets = [Budget::default(); CLIENTS];
        for (budget, &(attempts, renewals)) in budgets.iter_mut().zip(clients) {
            *budget = Budget { attempts, renewals, ahead: 0 };
        }
        Self {
            clients: budgets,
            validity: 1,
            floors: Floors::Still,
            restarts: 0,
            guard: 0,
            retakes: false,
            repeats: 0,
            unreduced: false,
            mutation: None,
            not_promised: &[],
        }
    }

    pub fn validity(self, validity: u8) -> Self {
        Self { validity, ..self }
    }

    pub fn arbitrary_floors(self, other: u8) -> Self {
        Self { floors: Floors::Arbitrary(other), ..self }
    }

    /// Clocks that go for `ticks`, the clients' so far ahead.
    pub fn clocks(mut self, ticks: u8, ahead: &[u8]) -> Self {
        for (budget, &ahead) in self.clients.iter_mut().zip(ahead) {
            budget.ahead = ahead;
        }
        Self { floors: Floors::Going(ticks), ..self }
    }

    pub fn restarts(self, restarts: u8, guard: u8) -> Self {
        Self { restarts, guard, ..self }
    }

    pub fn retakes(self) -> Self {
        Self { retakes: true, ..self }
    }

    pub fn repeats(self, repeats: u8) -> Self {
        Self { repeats, ..self }
    }

    pub fn unreduced(self) -> Self {
        Self { unreduced: true, ..self }
    }

    pub fn mutated(self, mutation: Mutation) -> Self {
        Self { mutation: Some(mutation), ..self }
    }

    pub fn not_promised(self, not_promised: &'static [Violation]) -> Self {
        Self { not_promised, ..self }
    }

    pub fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// The floors that a sending of this client may take at this tick.
    pub fn floors_of(&self, client: usize, now: u8) -> impl Iterator<Item = u8> {
        let (one, other) = match self.floors {
            Floors::Still => (0, None),
            Floors::Arbitrary(other) => (0, Some(other)),
            Floors::Going(_) => ((now + self.clients[client].ahead) * FENCES_IN_A_TICK, None),
        };
        [Some(one), other].into_iter().flatten()
    }

    /// Whether only the names tell this client from the one before it. Then it need not begin first.
    pub fn is_like_the_one_before(&self, client: usize) -> bool {
        client > 0 && self.clients[client] == self.clients[client - 1]
    }
}
