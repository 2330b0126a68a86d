//! What may happen next in a world: time, the network and the nodes here, the clients in `client`.
//!
//! Some orders of steps lead to the same worlds, and only one of them is explored. A late message changes its
//! node, and nothing else notices before that node answers somebody: so it is handled just before a message that
//! is awaited, and only if there is one. A message that changes nothing is as good as one still under way.

use super::{
    bounds::{Bounds, Floors},
    client,
    mutation::Mutation,
    property::{self, Violation},
    world::{Answer, CLIENTS, Column, Kind, MAJORITY, Message, NODES, Node, World},
};
use std::fmt;

/// Something that may happen, and what it leads to.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    pub step: Step,
    pub world: World,
    pub violation: Option<Violation>,
}

#[derive(Clone, Copy, Debug)]
pub enum Step {
    Tick,
    Restart { node: u8 },
    Deliver { node: u8, message: Message, expired: bool, again: bool, answer: Answer },
    Attempt { client: usize, floor: u8 },
    Renew { client: usize, floor: u8 },
    Retake { client: usize, floor: u8 },
    Refill { client: usize, node: u8 },
    Count { client: usize, nodes: [Option<u8>; NODES], told: Told },
    GiveUp { client: usize },
    Release { client: usize },
}

/// What a client makes of the answers.
#[derive(Clone, Copy, Debug)]
pub enum Told {
    Reported(u8),
    WritesBack(u8),
    TooLate,
}

/// All moves out of one world.
pub struct Moves<'a> {
    pub world: &'a World,
    pub bounds: &'a Bounds,
    list: &'a mut Vec<Move>,
}

/// Puts every move out of `world` into `list`, always in the same order.
pub fn all(world: &World, bounds: &Bounds, list: &mut Vec<Move>) {
    list.clear();
    let mut moves = Moves { world, bounds, list };
    if let Some(place) = world.columns.iter().position(|column| column.is_busy) {
        deliveries(&mut moves, place);
        return;
    }
    for client in 0..CLIENTS {
        client::moves(&mut moves, client);
    }
    for place in 0..NODES {
        deliveries(&mut moves, place);
        restart(&mut moves, place);
    }
    tick(&mut moves);
}

impl Moves<'_> {
    pub fn add(&mut self, step: Step, world: World) {
        self.add_checked(step, world, None);
    }

    /// Adds a move in which `violation` was seen.
    pub fn add_checked(&mut self, step: Step, world: World, violation: Option<Violation>) {
        let is_promised = |violation: &Violation| !self.bounds.not_promised.contains(violation);
        let violation = violation.filter(is_promised);
        let violation = violation.or_else(|| property::of_world(&world, self.bounds).filter(is_promised));
        self.list.push(Move { step, world, violation });
    }
}

fn tick(moves: &mut Moves) {
    let (mut world, bounds) = (*moves.world, moves.bounds);
    if let Floors::Going(ticks) = bounds.floors {
        if world.now == ticks {
            return;
        }
        world.now += 1;
    }
    for Column { node: Node { left, guard, .. }, .. } in &mut world.columns {
        *left = left.saturating_sub(1);
        *guard = guard.saturating_sub(1);
    }
    let older = |age: &mut u8| *age = bounds.validity.min(*age + 1);
    for client in &mut world.clients {
        if client.is_asking() {
            older(&mut client.age);
        }
        if client.fence > 0 {
            older(&mut client.lease_age);
        }
        if client.attempts > 0 && bounds.has(Mutation::ValidityFromTheFirstAttempt) {
            older(&mut client.first_age);
        }
    }
    if world != *moves.world {
        moves.add(Step::Tick, world);
    }
}

fn restart(moves: &mut Moves, place: usize) {
    let mut world = *moves.world;
    if world.restarts_left == 0 {
        return;
    }
    world.restarts_left -= 1;
    // What is under way still arrives: a proxy or a kernel may have kept it.
    let column = &mut world.columns[place];
    column.node = Node { guard: moves.bounds.guard, ..Node::default() };
    moves.add(Step::Restart { node: column.name }, world);
}

fn deliveries(moves: &mut Moves, place: usize) {
    let column = &moves.world.columns[place];
    if !moves.bounds.unreduced && !column.under_way.iter().flatten().any(|message| message.is_awaited) {
        return;
    }
    let mut before = None;
    for (number, message) in column.under_way.iter().enumerate() {
        let Some(message) = *message else { continue };
        if before == Some(message) {
            continue;
        }
        before = Some(message);
        deliver(moves, place, number, false);
        if column.node.may_expire() {
            deliver(moves, place, number, true);
        }
    }
}

fn deliver(moves: &mut Moves, place: usize, number: usize, expired: bool) {
    let (before, bounds) = (moves.world, moves.bounds);
    let Some(message) = before.columns[place].under_way[number] else { return };
    let client = message.client();
    let mut world = *before;
    let column = &mut world.columns[place];
    if expired {
        column.node.expire();
    }
    let unhandled = column.node;
    let answer = column.node.handle(message, bounds);
    let violation = property::of_node(&column.node, message.token);
    let mut heard = world;
    if message.is_awaited {
        hear(&mut heard, bounds, place, message, answer);
    }
    let changes_nothing =
        heard.columns[place].answers == before.columns[place].answers && world.columns[place].node == unhandled;
    if changes_nothing && !bounds.unreduced {
        return;
    }

    // Of two answers to a repeated question, either may be the one that counts.
    let is_known = before.columns[place].answers[client] != Answer::None;
    let unheard = (is_known && heard != world).then_some(world);
    for mut world in [Some(heard), unheard].into_iter().flatten() {
        let column = &mut world.columns[place];
        column.is_busy = !message.is_awaited && !bounds.unreduced;
        let step = |again| Step::Deliver { node: column.name, message, expired, again, answer };
        let (once, twice) = (step(false), step(true));
        if world.repeats_left > 0 {
            moves.add_checked(twice, World { repeats_left: world.repeats_left - 1, ..world }, violation);
        }
        let column = &mut world.columns[place];
        column.take(number);
        if message.kind == Kind::ReleaseForGood && marks_last(bounds) {
            column.forget(message.token);
        }
        moves.add_checked(once, world, violation);
    }
}

/// Whether a token that was released for good can do nothing on that node any more.
fn marks_last(bounds: &Bounds) -> bool {
    !bounds.unreduced
        && bounds.restarts == 0
        && !bounds.mutation.is_some_and(Mutation::revives_tokens)
        && !bounds.mutation.is_some_and(Mutation::raises_for_others)
}

/// The answer is on its way back. What it would not change, the client need not hear.
fn hear(world: &mut World, bounds: &Bounds, place: usize, message: Message, answer: Answer) {
    let client = message.client();
    let column = &mut world.columns[place];
    let is_refusal = answer == Answer::Refused;
    if message.kind == Kind::Renew {
        column.said_gone[client] = is_refusal;
    }
    let counts = !is_refusal || message.kind == Kind::Renew || bounds.has(Mutation::MajorityOfTheAnswering);
    column.answers[client] = if counts { answer } else { Answer::None };
}

/// Nodes whose answers are counted, by their places.
#[derive(Clone, Copy)]
pub struct Counted(usize);

impl Counted {
    pub fn places(self) -> impl Iterator<Item = usize> {
        (0..NODES).filter(move |place| self.0 & (1 << place) != 0)
    }

    pub fn names(self, world: &World) -> [Option<u8>; NODES] {
        let mut names = [None; NODES];
        for place in self.places() {
            names[place] = Some(world.columns[place].name);
        }
        names
    }
}

/// The sets of answers on which this client may decide that it was granted what it asked for.
pub fn majorities(world: &World, bounds: &Bounds, client: usize) -> impl Iterator<Item = Counted> {
    let answers = world.columns.map(|column| column.answers[client]);
    let of_the_answering = bounds.has(Mutation::MajorityOfTheAnswering);
    (1..1 << NODES).map(Counted).filter(move |counted| {
        let (mut granted, mut refused, mut silent) = (0, 0, 0);
        for place in counted.places() {
            match answers[place] {
                Answer::Granted(_) => granted += 1,
                Answer::Refused => refused += 1,
                Answer::None => silent += 1,
            }
        }
        match of_the_answering {
            false => granted >= MAJORITY && refused + silent == 0,
            true => granted > refused && silent == 0,
        }
    })
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |client: usize| char::from(b'A' + client as u8);
        match *self {
            Self::Tick => write!(f, "a tick"),
            Self::Restart { node } => write!(f, "n{node} starts anew, empty"),
            Self::Deliver { node, message, expired, again, answer } => {
                let Message { kind, token, value, is_awaited } = message;
                let late = if is_awaited { "" } else { " late" };
                let expired = if expired { ", where the lock has expired" } else { "" };
                let again = if again { ", and will come again" } else { "" };
                let client = name(message.client());
                write!(f, "{client}'s {kind:?}({token}, {value}) reaches n{node}{late}{expired}: {answer:?}{again}")
            }
            Self::Attempt { client, floor } => write!(f, "{} sends an attempt, floor {floor}", name(client)),
            Self::Renew { client, floor } => write!(f, "{} sends a renewal, floor {floor}", name(client)),
            Self::Retake { client, floor } => write!(f, "{} acquires again, floor {floor}", name(client)),
            Self::Refill { client, node } => write!(f, "{} refills n{node}", name(client)),
            Self::Count { client, nodes, told } => {
                write!(f, "{} counts the answers of", name(client))?;
                nodes.into_iter().flatten().try_for_each(|node| write!(f, " n{node}"))?;
                match told {
                    Told::Reported(fence) => write!(f, ": holds the lease, fence {fence}"),
                    Told::WritesBack(fence) => write!(f, ": writes fence {fence} back"),
                    Told::TooLate => write!(f, ": too late"),
                }
            }
            Self::GiveUp { client } => write!(f, "{} gives the question up", name(client)),
            Self::Release { client } => write!(f, "{} releases", name(client)),
        }
    }
}

/// Whether the client may begin now: of clients that are alike, in one order only.
pub fn may_begin(world: &World, bounds: &Bounds, client: usize) -> bool {
    let Some(before) = client.checked_sub(1) else { return true };
    !bounds.is_like_the_one_before(client) || world.clients[before].attempts > 0
}
