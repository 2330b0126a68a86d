//! What a client does: the questions of the store, and what it makes of the answers.
//!
//! Between any two steps the client may pause for as long as it likes.

use super::{
    mutation::Mutation,
    property::{self, Violation},
    step::{self, Counted, Moves, Step, Told},
    world::{Answer, Client, Kind, Message, NODES, Phase, Token, World},
};

/// Adds what this client may do now.
pub fn moves(moves: &mut Moves, client: usize) {
    match moves.world.clients[client].phase {
        Phase::Idle => attempt(moves, client),
        Phase::Acquiring => {
            count_grants(moves, client);
            give_up(moves, client);
        }
        Phase::Raising => {
            count_confirmations(moves, client);
            give_up(moves, client);
        }
        Phase::Holding => {
            renew(moves, client);
            release(moves, client);
        }
        Phase::Renewing => {
            count_renewals(moves, client);
            refill_early(moves, client);
            give_up(moves, client);
        }
    }
}

fn attempt(moves: &mut Moves, client: usize) {
    let (world, bounds) = (*moves.world, moves.bounds);
    let before = world.clients[client];
    if before.attempts == bounds.clients[client].attempts || !step::may_begin(&world, bounds, client) {
        return;
    }
    let token = if bounds.has(Mutation::TokenUsedAgain) { 0 } else { before.attempts };
    for floor in bounds.floors_of(client, world.now) {
        let mut world = world;
        let it = &mut world.clients[client];
        it.token = Client::token_of(client, token);
        it.attempts += 1;
        ask(it, Phase::Acquiring, floor);
        world.send(client, Kind::Acquire, floor, true);
        moves.add(Step::Attempt { client, floor }, world);
    }
}

fn renew(moves: &mut Moves, client: usize) {
    let (world, bounds) = (*moves.world, moves.bounds);
    let before = world.clients[client];
    if before.renewals == bounds.clients[client].renewals {
        return;
    }
    let is_valid = before.lease_age < bounds.validity;
    for floor in bounds.floors_of(client, world.now) {
        let mut world = world;
        world.clients[client].renewals += 1;

        let mut renewing = world;
        let it = &mut renewing.clients[client];
        ask(it, Phase::Renewing, floor);
        it.is_judged = bounds.has(Mutation::FenceJudgedAtSending) && is_valid;
        renewing.send(client, Kind::Renew, 0, true);
        moves.add(Step::Renew { client, floor }, renewing);

        if bounds.retakes && is_valid {
            ask(&mut world.clients[client], Phase::Acquiring, floor);
            world.send(client, Kind::Acquire, floor, true);
            moves.add(Step::Retake { client, floor }, world);
        }
    }
}

/// A question is sent: its validity counts from now.
fn ask(client: &mut Client, phase: Phase, floor: u8) {
    client.phase = phase;
    client.floor = floor;
    client.age = 0;
}

fn count_grants(moves: &mut Moves, client: usize) {
    let (world, bounds) = (*moves.world, moves.bounds);
    let it = &world.clients[client];
    let age = match bounds.mutation {
        Some(Mutation::ValidityFromTheFirstAttempt) => it.first_age,
        Some(Mutation::JudgedAtSending) => 0,
        _ => it.age,
    };
    for counted in step::majorities(&world, bounds, client) {
        let fences = fences(&world, client, counted);
        let (highest, all_agree) = agreement(&fences);
        if age >= bounds.validity {
            // A majority that came too late is given up as one that never came.
            if it.age < bounds.validity {
                let nodes = counted.names(&world);
                let step = Step::Count { client, nodes, told: Told::TooLate };
                moves.add_checked(step, abandoned(&world, client), Some(Violation::GrantThrownAway));
            }
        } else if all_agree || bounds.has(Mutation::NoWriteBack) {
            report(moves, client, counted, highest, false);
        } else {
            write_back(moves, client, counted, highest, false);
            if bounds.has(Mutation::LateGrantUnjudged) && is_raised_by_one(&fences) {
                write_back(moves, client, counted, highest, true);
            }
        }
    }
}

/// Whether the others made an agreeing majority, and one grant came on top.
fn is_raised_by_one(fences: &[u8]) -> bool {
    matches!(fences, [one, other, _] if one == other)
}

fn count_confirmations(moves: &mut Moves, client: usize) {
    let (world, bounds) = (*moves.world, moves.bounds);
    let it = &world.clients[client];
    let is_valid = it.age < bounds.validity || it.is_judged || bounds.has(Mutation::JudgedAtSending);
    // Which nodes confirm makes no difference.
    if let Some(counted) = step::majorities(&world, bounds, client).next().filter(|_| is_valid) {
        report(moves, client, counted, it.target, false);
    }
}

fn count_renewals(moves: &mut Moves, client: usize) {
    let (world, bounds) = (*moves.world, moves.bounds);
    let it = &world.clients[client];
    if it.age >= bounds.validity && !bounds.has(Mutation::JudgedAtSending) {
        return;
    }
    for counted in step::majorities(&world, bounds, client) {
        let is_valid = it.lease_age < bounds.validity || it.is_judged;
        if is_valid || bounds.has(Mutation::FenceKeptAfterTheEnd) {
            report(moves, client, counted, it.fence, true);
            continue;
        }
        // The lease was over, and another may have come between: this is a new grant.
        let floor = if bounds.has(Mutation::NoFloorAtRenewal) { 0 } else { it.floor };
        let fences = fences(&world, client, counted);
        let (highest, all_agree) = agreement(&fences);
        if all_agree && highest >= floor {
            report(moves, client, counted, highest, true);
        } else {
            write_back(moves, client, counted, highest.max(floor), false);
        }
    }
}

/// The counted fences, lowest first.
fn fences(world: &World, client: usize, counted: Counted) -> Vec<u8> {
    let fence = |place: usize| match world.columns[place].answers[client] {
        Answer::Granted(fence) => Some(fence),
        Answer::Refused | Answer::None => None,
    };
    let mut fences: Vec<u8> = counted.places().filter_map(fence).collect();
    fences.sort_unstable();
    fences
}

/// The highest fence, and whether all are as high.
fn agreement(fences: &[u8]) -> (u8, bool) {
    let highest = fences.last().copied().unwrap_or(0);
    (highest, fences.first() == fences.last())
}

/// The caller is told that it holds the lease, with this fence. With `refill`, nodes that lost their copy
/// get one.
fn report(moves: &mut Moves, client: usize, counted: Counted, fence: u8, refill: bool) {
    let mut world = *moves.world;
    let violation = property::of_report(&world, moves.bounds, client, fence);
    let token = world.clients[client].token;
    if refill {
        for column in world.columns.iter_mut().filter(|column| column.answers[client] == Answer::Refused) {
            column.send(refill_of(token, fence, false));
        }
    }
    world.stop_listening(client);
    let it = &mut world.clients[client];
    it.fence = fence;
    it.lease_age = it.age;
    hold(it);
    world.last_fence = fence;
    world.last_token = token;
    let nodes = counted.names(moves.world);
    moves.add_checked(Step::Count { client, nodes, told: Told::Reported(fence) }, world, violation);
}

fn write_back(moves: &mut Moves, client: usize, counted: Counted, fence: u8, is_judged: bool) {
    let mut world = *moves.world;
    world.stop_listening(client);
    let it = &mut world.clients[client];
    it.phase = Phase::Raising;
    it.target = fence;
    it.is_judged = is_judged;
    if moves.bounds.has(Mutation::ValidityFromTheWriteBack) {
        it.age = 0;
    }
    world.send(client, Kind::Raise, fence, true);
    let nodes = counted.names(moves.world);
    moves.add(Step::Count { client, nodes, told: Told::WritesBack(fence) }, world);
}

/// Refilled before a majority confirms, as no right client does: the answer counts as one.
fn refill_early(moves: &mut Moves, client: usize) {
    if !moves.bounds.has(Mutation::RefillUnconfirmed) {
        return;
    }
    let it = moves.world.clients[client];
    for place in 0..NODES {
        let mut world = *moves.world;
        let column = &mut world.columns[place];
        if column.answers[client] == Answer::Refused {
            column.answers[client] = Answer::None;
            column.send(refill_of(it.token, it.fence, true));
            moves.add(Step::Refill { client, node: column.name }, world);
        }
    }
}

fn refill_of(token: Token, fence: u8, is_awaited: bool) -> Message {
    Message { kind: Kind::Refill, token, value: fence, is_awaited }
}

/// The answers do not make a majority, or not in time, or the client waits no longer.
fn give_up(moves: &mut Moves, client: usize) {
    let mut world = *moves.world;
    let it = &world.clients[client];
    if it.fence == 0 || it.phase == Phase::Acquiring {
        world = abandoned(&world, client);
    } else {
        // A renewal without an outcome leaves what was confirmed last.
        world.stop_listening(client);
        hold(&mut world.clients[client]);
    }
    moves.add(Step::GiveUp { client }, world);
}

/// A failed attempt: released everywhere, for good.
fn abandoned(world: &World, client: usize) -> World {
    let mut world = *world;
    world.stop_listening(client);
    world.send(client, Kind::ReleaseForGood, 0, false);
    rest(&mut world.clients[client]);
    world
}

fn release(moves: &mut Moves, client: usize) {
    let mut world = *moves.world;
    world.send(client, Kind::Release, 0, false);
    rest(&mut world.clients[client]);
    moves.add(Step::Release { client }, world);
}

fn hold(client: &mut Client) {
    client.phase = Phase::Holding;
    client.age = 0;
    client.floor = 0;
    client.target = 0;
    client.is_judged = false;
}

/// Nothing is left but what was spent.
fn rest(client: &mut Client) {
    let Client { attempts, renewals, first_age, .. } = *client;
    *client = Client { attempts, renewals, first_age, ..Client::default() };
}
