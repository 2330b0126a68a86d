//! The state of the world: nodes, clients, and what is under way between them.
//!
//! All that concerns one node stands in one column, so worlds that differ in the names of the nodes
//! only become one by sorting the columns.

use super::{bounds::Bounds, mutation::Mutation};

pub const NODES: usize = 3;
/// Of the configured nodes.
pub const MAJORITY: usize = NODES / 2 + 1;
/// At most.
pub const CLIENTS: usize = 3;
/// Tokens of one client, at most.
const TOKENS: u8 = 4;
/// Messages to one node under way, at most.
const ROOM: usize = 14;

/// Names one attempt of one client; 0 is none.
pub type Token = u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct World {
    pub columns: [Column; NODES],
    pub clients: [Client; CLIENTS],
    /// Ticks so far, where clocks go; else always 0.
    pub now: u8,
    pub restarts_left: u8,
    pub repeats_left: u8,
    /// The fence that was reported last, and to whom.
    pub last_fence: u8,
    pub last_token: Token,
}

/// A node, and what is under way between it and the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Column {
    pub node: Node,
    /// Messages to the node. One that is never delivered is lost; one that is delivered after its client
    /// went on is late.
    pub under_way: [Option<Message>; ROOM],
    /// The node's answers to each client's present question. One that is never counted is lost.
    pub answers: [Answer; CLIENTS],
    /// Whether the node has said to each client's present renewal that the lease is gone.
    pub said_gone: [bool; CLIENTS],
    /// The node has just handled a late message, and must handle one more before anything else happens: see
    /// `step`.
    pub is_busy: bool,
    /// For traces only, and last, so that it decides no order of columns that differ.
    pub name: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node {
    pub lock: Token,
    /// Ticks in which the lock surely lives on.
    pub left: u8,
    pub fence: u8,
    /// Ticks until the restart guard ends.
    pub guard: u8,
    /// The tokens that were released for good, a bit each.
    pub dead: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    pub kind: Kind,
    pub token: Token,
    /// A floor, or a fence to write back.
    pub value: u8,
    /// Whether the client still waits for the answer.
    pub is_awaited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Acquire,
    Raise,
    Renew,
    Refill,
    Release,
    ReleaseForGood,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    #[default]
    None,
    Granted(u8),
    Refused,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Client {
    pub phase: Phase,
    /// Attempts begun.
    pub attempts: u8,
    /// Renewals begun.
    pub renewals: u8,
    pub token: Token,
    /// Ticks since the sending that the present question's validity is counted from, up to the validity.
    pub age: u8,
    /// What the clock showed then.
    pub floor: u8,
    /// The fence that is being written back.
    pub target: u8,
    /// The fence that was reported; 0: holds nothing.
    pub fence: u8,
    /// Ticks since the sending that the lease's validity is counted from, up to the validity.
    pub lease_age: u8,
    /// Ticks since the first attempt, where a mutation asks for it.
    pub first_age: u8,
    /// The validity was judged already, and a mutation leaves it at that.
    pub is_judged: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    #[default]
    Idle,
    Acquiring,
    /// Writes back: in an attempt, or in the renewal of a lease that was over.
    Raising,
    Holding,
    Renewing,
}

impl World {
    pub fn new(bounds: &Bounds) -> Self {
        let column = |name| Column {
            node: Node::default(),
            under_way: [None; ROOM],
            answers: [Answer::None; CLIENTS],
            said_gone: [false; CLIENTS],
            is_busy: false,
            name,
        };
        Self {
            columns: [column(1), column(2), column(3)],
            clients: [Client::default(); CLIENTS],
            now: 0,
            restarts_left: bounds.restarts,
            repeats_left: bounds.repeats,
            last_fence: 0,
            last_token: 0,
        }
    }

    /// Sends a message of this client to all nodes.
    pub fn send(&mut self, client: usize, kind: Kind, value: u8, is_awaited: bool) {
        let token = self.clients[client].token;
        for column in &mut self.columns {
            column.send(Message { kind, token, value, is_awaited });
        }
    }

    /// The client goes on: answers to its question come too late from now on.
    pub fn stop_listening(&mut self, client: usize) {
        for column in &mut self.columns {
            column.answers[client] = Answer::None;
            column.said_gone[client] = false;
            for message in column.under_way.iter_mut().flatten() {
                message.is_awaited &= message.client() != client;
            }
            column.under_way.sort_unstable();
        }
    }

    /// The same world for all that differ in the nodes' names only, or in what can change nothing any more.
    pub fn settle(&mut self, bounds: &Bounds) {
        if !bounds.unreduced && !bounds.mutation.is_some_and(Mutation::revives_tokens) {
            let present = self.clients.map(|client| client.token);
            for column in &mut self.columns {
                column.forget_past(present, bounds);
            }
        }
        self.columns.sort_unstable();
    }

    /// A number that tells settled worlds apart, all but surely: it is their content, mixed.
    pub fn digest(&self) -> u64 {
        let mut digest = Digest(0);
        for column in &self.columns {
            let node = &column.node;
            digest.mix([node.lock, node.left, node.fence, node.guard, 0, 0, 0, 0]);
            digest.mix_number(u64::from(node.dead));
            for message in column.under_way.iter().flatten() {
                digest.mix([
                    message.kind as u8 + 1,
                    message.token,
                    message.value,
                    message.is_awaited.into(),
                    0,
                    0,
                    0,
                    1,
                ]);
            }
            let [a, b, c] = column.answers.map(Answer::code);
            let [d, e, f] = column.said_gone.map(u8::from);
            digest.mix([a, b, c, d, e, f, column.is_busy.into(), 2]);
        }
        for client in &self.clients {
            let Client { attempts, renewals, token, age, floor, target, fence, .. } = *client;
            digest.mix([client.phase as u8, attempts, renewals, token, age, floor, target, fence]);
            digest.mix([client.lease_age, client.first_age, client.is_judged.into(), 0, 0, 0, 0, 0]);
        }
        digest.mix([self.now, self.restarts_left, self.repeats_left, self.last_fence, self.last_token, 0, 0, 0]);
        digest.0
    }
}

impl Column {
    pub fn send(&mut self, message: Message) {
        // None sorts first.
        assert!(self.under_way[0].is_none(), "more room for messages is needed");
        self.under_way[0] = Some(message);
        self.under_way.sort_unstable();
    }

    pub fn take(&mut self, place: usize) {
        self.under_way[place] = None;
        self.under_way.sort_unstable();
    }

    /// Removes what is left of tokens that their clients use no more, and that cannot take the lock again.
    fn forget_past(&mut self, present: [Token; CLIENTS], bounds: &Bounds) {
        let raises_last = bounds.mutation.is_some_and(Mutation::raises_for_others);
        let mut kept: u16 = 0;
        for token in present {
            kept |= 1 << token;
        }
        kept |= 1 << self.node.lock;
        for message in self.under_way.iter().flatten() {
            if matches!(message.kind, Kind::Acquire | Kind::Refill) {
                kept |= 1 << message.token;
            }
        }
        for message in &mut self.under_way {
            *message = message
                .filter(|message| kept & (1 << message.token) != 0 || (raises_last && message.kind == Kind::Raise));
        }
        self.under_way.sort_unstable();
        self.node.dead &= kept;
    }

    /// Removes the messages of a token that a lasting mark refuses.
    pub fn forget(&mut self, token: Token) {
        for message in &mut self.under_way {
            *message = message.filter(|message| message.token != token);
        }
        self.under_way.sort_unstable();
    }
}

impl Node {
    pub fn is_dead(&self, token: Token) -> bool {
        self.dead & (1 << token) != 0
    }

    pub fn bury(&mut self, token: Token) {
        self.dead |= 1 << token;
    }
}

impl Message {
    pub fn client(&self) -> usize {
        usize::from((self.token - 1) / TOKENS)
    }
}

impl Answer {
    fn code(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Granted(fence) => fence,
            Self::Refused => u8::MAX,
        }
    }
}

impl Client {
    /// The token of an attempt, counted from 0.
    pub fn token_of(client: usize, attempt: u8) -> Token {
        assert!(attempt < TOKENS, "more tokens are needed");
        client as u8 * TOKENS + attempt + 1
    }

    pub fn is_asking(&self) -> bool {
        matches!(self.phase, Phase::Acquiring | Phase::Raising | Phase::Renewing)
    }
}

struct Digest(u64);

impl Digest {
    fn mix(&mut self, bytes: [u8; 8]) {
        self.mix_number(u64::from_le_bytes(bytes));
    }

    fn mix_number(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.0 = mixed ^ (mixed >> 32);
    }
}
