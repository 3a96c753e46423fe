//! In which order a schedule adds up: whether every element's sum is the same expression, wherever it lies.
//!
//! Floating-point addition is commutative and not associative. Where all chunks of all ranks end as one expression, the
//! result of an element depends on the ranks' values alone: not on the length of the vector, nor on where in it the
//! element lies, nor on how it is cut into messages.

use std::collections::HashMap;

use super::{Action, Schedule};
use crate::units::{ChunkId, Rank, Slot};

/// Places or messages that are looked at, at most: a schedule that has more is not told.
const MOST: usize = 1 << 25;

/// The expressions that schedules of one number of ranks have led to; equal ones have the same number, whichever
/// schedule they come from. `a + b` is `b + a`, and nothing else is equal.
#[derive(Debug)]
pub struct Expressions {
    ranks: usize,
    sums: HashMap<(u32, u32), u32>,
}

/// An expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expression(u32);

impl Expressions {
    /// None yet.
    pub fn new(ranks: usize) -> Expressions {
        Expressions { ranks, sums: HashMap::new() }
    }

    /// The one expression that every result of `schedule` is. `None` where they differ, and where it would take too long
    /// to find out.
    ///
    /// The schedule must be verified.
    pub fn of(&mut self, schedule: &Schedule) -> Option<Expression> {
        let copies = if schedule.symmetry.is_some() { schedule.ranks } else { 1 };
        let messages: usize = schedule.steps.iter().map(|step| step.sends.len() + step.locals.len()).sum();
        let places = schedule.ranks.checked_mul(schedule.slots() * schedule.chunks)?;
        if places.max(messages.checked_mul(copies)?) > MOST || self.ranks != schedule.ranks {
            return None;
        }
        self.replay(&schedule.expand())
    }

    /// `((0 + 1) + 2) + ...`: the ranks' values, added up in their order.
    pub fn in_rank_order(&mut self) -> Expression {
        let all = (0..self.ranks as u32).reduce(|sum, rank| self.sum(sum, rank));
        Expression(all.unwrap_or_default())
    }

    fn sum(&mut self, a: u32, b: u32) -> u32 {
        let next = (self.ranks + self.sums.len()) as u32;
        *self.sums.entry((a.min(b), a.max(b))).or_insert(next)
    }

    fn replay(&mut self, schedule: &Schedule) -> Option<Expression> {
        let (slots, chunks) = (schedule.slots(), schedule.chunks);
        let place = |rank: Rank, slot: Slot, chunk: ChunkId| (rank * slots + slot) * chunks + chunk;
        let mut held: Vec<u32> =
            (0..schedule.ranks * slots * chunks).map(|i| (i / (slots * chunks)) as u32).collect();
        for step in &schedule.steps {
            // All sends read what was there when the step began.
            let mut arriving = Vec::new();
            for send in &step.sends {
                let from = |chunk| held[place(send.source, send.from, chunk)];
                let into = |chunk| place(send.destination, send.into, chunk);
                arriving.extend(send.chunks.iter().map(|chunk| (into(chunk), send.action, from(chunk))));
            }
            for (place, action, value) in arriving {
                self.combine(&mut held[place], action, value);
            }
            for local in &step.locals {
                for chunk in local.chunks.iter() {
                    let value = held[place(local.rank, local.from, chunk)];
                    self.combine(&mut held[place(local.rank, local.into, chunk)], local.action, value);
                }
            }
        }
        let collective = schedule.collective;
        let results = (0..schedule.ranks).flat_map(|rank| (0..chunks).map(move |chunk| (rank, chunk)));
        let mut results = results
            .filter(|(rank, chunk)| collective.output_block(schedule.ranks, chunks, *rank, *chunk).is_some())
            .map(|(rank, chunk)| held[place(rank, 0, chunk)]);
        let first = results.next()?;
        results.all(|other| other == first).then_some(Expression(first))
    }

    fn combine(&mut self, held: &mut u32, action: Action, value: u32) {
        *held = match action {
            Action::Copy => value,
            Action::Reduce => self.sum(*held, value),
        };
    }
}
