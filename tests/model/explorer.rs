//! Explores every world that can be reached, nearest first, so that a trace is one of the shortest.

use super::{
    bounds::Bounds,
    property::Violation,
    step::{self, Move},
    world::World,
};
use std::{
    collections::HashSet,
    fmt,
    hash::{BuildHasherDefault, Hasher},
};

/// What an exploration found.
#[derive(Debug)]
pub struct Explored {
    /// Worlds that differ in more than the nodes' names.
    pub worlds: usize,
    /// Steps taken, also to worlds that were known.
    pub steps: usize,
    /// Steps to the world farthest away.
    pub depth: usize,
    /// The nearest broken promise, and the way to it.
    pub broken: Option<(Violation, Vec<String>)>,
}

/// From which world, and by which of its moves, a world was reached first.
#[derive(Clone, Copy)]
struct Origin {
    world: u32,
    number: u32,
}

/// Explores until a promise is broken or no new world is left.
pub fn explore(bounds: &Bounds) -> Explored {
    let start = World::new(bounds);
    let mut seen = HashSet::<u64, BuildHasherDefault<Mixed>>::default();
    seen.insert(start.digest());
    let mut origins = vec![Origin { world: 0, number: 0 }];
    let mut layer = vec![(start, 0)];
    let mut moves = Vec::new();
    let mut explored = Explored { worlds: 1, steps: 0, depth: 0, broken: None };

    while !layer.is_empty() {
        let mut next = Vec::new();
        for (world, index) in layer {
            step::all(&world, bounds, &mut moves);
            for (number, taken) in moves.iter_mut().enumerate() {
                explored.steps += 1;
                let origin = Origin { world: index, number: number as u32 };
                if let Some(violation) = taken.violation {
                    explored.broken = Some((violation, trace(bounds, &origins, origin)));
                    return explored;
                }
                taken.world.settle(bounds);
                if seen.insert(taken.world.digest()) {
                    next.push((taken.world, origins.len() as u32));
                    origins.push(origin);
                    explored.worlds += 1;
                }
            }
        }
        explored.depth += usize::from(!next.is_empty());
        layer = next;
    }
    explored
}

/// Goes the way again that ends with `last`, and tells it.
fn trace(bounds: &Bounds, origins: &[Origin], last: Origin) -> Vec<String> {
    let mut numbers = vec![last.number];
    let mut index = last.world;
    while index != 0 {
        let origin = origins[index as usize];
        numbers.push(origin.number);
        index = origin.world;
    }
    let (mut world, mut moves) = (World::new(bounds), Vec::new());
    let mut follow = |&number: &u32| {
        step::all(&world, bounds, &mut moves);
        let Move { step, world: reached, .. } = moves[number as usize];
        world = reached;
        world.settle(bounds);
        step.to_string()
    };
    numbers.iter().rev().map(&mut follow).collect()
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} worlds, {} steps, depth {}", self.worlds, self.steps, self.depth)?;
        let Some((violation, trace)) = &self.broken else { return Ok(()) };
        write!(f, ", {violation:?}:")?;
        trace.iter().enumerate().try_for_each(|(number, step)| write!(f, "\n{:4}. {step}", number + 1))
    }
}

/// For numbers that are mixed already.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}
