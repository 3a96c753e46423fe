//! The order in which a schedule adds up: whether the sums of all elements are the same expression.
//!
//! Floating-point addition is commutative but not associative. Where all chunks of all ranks end as the same
//! expression, the result of an element depends on the ranks' values alone: not on the length of the vector, nor on the
//! position of the element, nor on how the vector is cut into messages.

use std::collections::HashMap;

use super::{Action, Schedule};
use crate::collective::Collective;
use crate::units::{ChunkId, Rank, Slot};

/// The most places (chunks in slots of ranks) of a schedule whose expression is determined, and the most chunks that
/// all its messages have together.
const MOST_PLACES: usize = 1 << 24;
const MOST_MOVED: usize = 1 << 25;

/// The expressions of schedules for one number of ranks. Equal expressions have the same number, whichever schedule
/// they come from. `a + b` equals `b + a`; nothing else is equal.
#[derive(Debug)]
pub struct Expressions {
    ranks: usize,
    sums: HashMap<(u32, u32), u32>,
    /// If `a + b` differs from `b + a`: on which side of what a rank holds a value is added.
    side: Option<Side>,
}

/// On which side of what a rank holds every value that comes is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// On the left: what comes is from ranks before those whose values are held.
    Left,
    /// On the right: what comes is from the next rank.
    Right,
}

/// The number of an expression in its [`Expressions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expression(u32);

/// What a rank ends with.
struct FinalValue {
    rank: u32,
    chunk: u32,
    expression: u32,
}

impl Expressions {
    /// No expressions yet.
    pub fn new(ranks: usize) -> Expressions {
        Expressions { ranks, sums: HashMap::new(), side: None }
    }

    /// The side on which values must be added so that every result is `((0 + 1) + 2) + ...`, with the operands in this
    /// order, even if addition is not commutative. `None` where `schedule` adds up in another order, and where the answer
    /// would take too long.
    ///
    /// The schedule must be verified.
    pub fn side_in_rank_order(schedule: &Schedule) -> Option<Side> {
        [Side::Right, Side::Left].into_iter().find(|side| {
            let mut expressions = Expressions { side: Some(*side), ..Expressions::new(schedule.ranks) };
            let Some(results) = expressions.results(schedule) else { return false };
            // The sums of the values of ranks 0 to r, by r.
            let mut sums = vec![0];
            (1..schedule.ranks as u32)
                .for_each(|rank| sums.push(expressions.pair(sums[sums.len() - 1], rank)));
            results.iter().all(|one| {
                let contributors = match schedule.collective {
                    Collective::Scan => one.rank as usize + 1,
                    Collective::Exscan => one.rank as usize,
                    _ => schedule.ranks,
                };
                one.expression == sums[contributors - 1]
            })
        })
    }

    /// The expression of every result of `schedule`; of a scan, one that stands for those of all ranks. `None` where
    /// the results of elements have different expressions, where `schedule` has another number of ranks, and where the
    /// answer would take too long.
    ///
    /// The schedule must be verified.
    pub fn expression_of(&mut self, schedule: &Schedule) -> Option<Expression> {
        let results = self.results(schedule)?;
        let same = |some: &[FinalValue]| {
            let first = some.first()?.expression;
            some.iter().all(|other| other.expression == first).then_some(first)
        };
        if !schedule.collective.is_prefix() {
            return same(&results).map(Expression);
        }
        // Every rank's expression has other contributors, so that their sum in this order tells all of them.
        let own = results.chunk_by(|a, b| a.rank == b.rank).map(same).collect::<Option<Vec<u32>>>()?;
        own.into_iter().reduce(|all, own| self.sum(all, own)).map(Expression)
    }

    /// The expressions of all results, by rank.
    fn results(&mut self, schedule: &Schedule) -> Option<Vec<FinalValue>> {
        let copies = if schedule.symmetry.is_some() { schedule.ranks } else { 1 };
        let sent = schedule.steps.iter().flat_map(|step| &step.sends).map(|send| send.chunks.len());
        let kept = schedule.steps.iter().flat_map(|step| &step.locals).map(|local| local.chunks.len());
        let moved: usize = sent.chain(kept).sum();
        let places = schedule.ranks.checked_mul(schedule.slots() * schedule.chunks)?;
        if places > MOST_PLACES || moved.checked_mul(copies)? > MOST_MOVED || self.ranks != schedule.ranks {
            return None;
        }
        Some(self.replay(&schedule.expand()))
    }

    /// Whether all ranks that end with a chunk end with the same expression of it, so that they hold the same bits. False
    /// also where the answer would take too long.
    ///
    /// The schedule must be verified.
    pub fn agree(&mut self, schedule: &Schedule) -> bool {
        if schedule.collective.is_prefix() {
            // Every rank has a result of its own.
            return true;
        }
        let Some(results) = self.results(schedule) else { return false };
        let mut first = vec![None; schedule.chunks];
        let mut first_of = |one: &FinalValue| *first[one.chunk as usize].get_or_insert(one.expression);
        results.iter().all(|one| first_of(one) == one.expression)
    }

    /// The expression `((0 + 1) + 2) + ...`: the ranks' values, added up in the order of ranks.
    pub fn in_rank_order(&mut self) -> Expression {
        let all = (0..self.ranks as u32).reduce(|sum, rank| self.sum(sum, rank));
        Expression(all.unwrap_or_default())
    }

    /// The sum of what is held and what comes.
    fn sum(&mut self, held: u32, value: u32) -> u32 {
        match self.side {
            None => self.pair(held.min(value), held.max(value)),
            Some(Side::Right) => self.pair(held, value),
            Some(Side::Left) => self.pair(value, held),
        }
    }

    fn pair(&mut self, left: u32, right: u32) -> u32 {
        let next = (self.ranks + self.sums.len()) as u32;
        *self.sums.entry((left, right)).or_insert(next)
    }

    fn replay(&mut self, schedule: &Schedule) -> Vec<FinalValue> {
        let (slots, chunks) = (schedule.slots(), schedule.chunks);
        let place = |rank: Rank, slot: Slot, chunk: ChunkId| (rank * slots + slot) * chunks + chunk;
        let mut held: Vec<u32> =
            (0..schedule.ranks * slots * chunks).map(|i| (i / (slots * chunks)) as u32).collect();
        for step in &schedule.steps {
            // All sends read the values at the start of the step.
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
        results
            .filter(|(rank, chunk)| collective.output_block(schedule.ranks, chunks, *rank, *chunk).is_some())
            .map(|(rank, chunk)| FinalValue {
                rank: rank as u32,
                chunk: chunk as u32,
                expression: held[place(rank, 0, chunk)],
            })
            .collect()
    }

    fn combine(&mut self, held: &mut u32, action: Action, value: u32) {
        *held = match action {
            Action::Copy => value,
            Action::Reduce => self.sum(*held, value),
        };
    }
}
