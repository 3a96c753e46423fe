//! What becomes of a schedule's results where messages have a wire format: whether replicas are bit-identical, and how
//! often values are rounded. See [`crate::wire`] for the rules that this replays.

use std::collections::HashMap;

use super::{Action, Schedule};
use crate::collective::Collective;
use crate::units::{ChunkId, Rank, Slot};

/// The most places (chunks in slots of ranks) of a schedule that is replayed, and the most chunks that all its messages
/// have together.
const MOST_PLACES: usize = 1 << 22;
const MOST_MOVED: usize = 1 << 23;

/// What rounding does to the results of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rounding {
    /// Whether all ranks that end with a chunk end with the same bits of it.
    pub agrees: bool,
    /// The most roundings on the way of a rank's value into a result.
    pub roundings: u32,
}

impl Rounding {
    /// What happens in this schedule, which must be verified; `None` where the answer would take too long.
    pub fn from_schedule(schedule: &Schedule) -> Option<Rounding> {
        let copies = if schedule.symmetry.is_some() { schedule.ranks } else { 1 };
        let moved: usize = schedule.steps.iter().flat_map(|step| &step.sends).map(|s| s.chunks.len()).sum();
        let places = schedule.ranks.checked_mul(schedule.slots() * schedule.chunks)?;
        if places > MOST_PLACES || moved.checked_mul(copies)? > MOST_MOVED {
            return None;
        }
        let mut values = ValueNumbers::default();
        let results = values.replay(&schedule.expand());
        let mut first = vec![None; schedule.chunks];
        let same = |(chunk, value): &(ChunkId, u32)| *first[*chunk].get_or_insert(*value) == *value;
        let agrees = schedule.collective.is_prefix() || results.iter().all(same);
        let roundings = results.iter().map(|(_, value)| values.known[*value as usize].roundings).max();
        Some(Rounding { agrees, roundings: roundings.unwrap_or(0) })
    }

    /// The most roundings in any schedule of so many steps.
    pub fn most(steps: usize) -> u32 {
        u32::try_from(steps + 1).unwrap_or(u32::MAX)
    }
}

/// Equal values have the same number: ranks' own values, sums, in which the order of the two terms does not matter, and
/// rounded values.
#[derive(Default)]
struct ValueNumbers {
    sums: HashMap<(u32, u32), u32>,
    rounded: HashMap<u32, u32>,
    known: Vec<ValueFacts>,
}

#[derive(Clone, Copy)]
struct ValueFacts {
    roundings: u32,
    is_rounded: bool,
}

impl ValueNumbers {
    fn add(&mut self, known: ValueFacts) -> u32 {
        self.known.push(known);
        self.known.len() as u32 - 1
    }

    fn sum(&mut self, a: u32, b: u32) -> u32 {
        let key = (a.min(b), a.max(b));
        if let Some(sum) = self.sums.get(&key) {
            return *sum;
        }
        let roundings = |value: u32| self.known[value as usize].roundings;
        let sum = self.add(ValueFacts { roundings: roundings(a).max(roundings(b)), is_rounded: false });
        self.sums.insert(key, sum);
        sum
    }

    fn round(&mut self, value: u32) -> u32 {
        let ValueFacts { roundings, is_rounded } = self.known[value as usize];
        if is_rounded {
            return value;
        }
        if let Some(rounded) = self.rounded.get(&value) {
            return *rounded;
        }
        let rounded = self.add(ValueFacts { roundings: roundings + 1, is_rounded: true });
        self.rounded.insert(value, rounded);
        rounded
    }

    /// The results of all ranks, as chunks and values.
    fn replay(&mut self, schedule: &Schedule) -> Vec<(ChunkId, u32)> {
        let (slots, chunks, ranks) = (schedule.slots(), schedule.chunks, schedule.ranks);
        let place = |rank: Rank, slot: Slot, chunk: ChunkId| (rank * slots + slot) * chunks + chunk;
        for _ in 0..ranks {
            self.add(ValueFacts { roundings: 0, is_rounded: false });
        }
        let mut held: Vec<u32> = (0..ranks * slots * chunks).map(|i| (i / (slots * chunks)) as u32).collect();
        for step in &schedule.steps {
            for send in &step.sends {
                for at in send.chunks.iter().map(|chunk| place(send.source, send.from, chunk)) {
                    held[at] = self.round(held[at]);
                }
            }
            let mut arriving = Vec::new();
            for send in &step.sends {
                let from = |chunk| held[place(send.source, send.from, chunk)];
                let into = |chunk| place(send.destination, send.into, chunk);
                arriving.extend(send.chunks.iter().map(|chunk| (into(chunk), send.action, from(chunk))));
            }
            for (at, action, value) in arriving {
                held[at] = if action == Action::Copy { value } else { self.sum(held[at], value) };
            }
            for local in &step.locals {
                for chunk in local.chunks.iter() {
                    let value = held[place(local.rank, local.from, chunk)];
                    let at = place(local.rank, local.into, chunk);
                    held[at] = if local.action == Action::Copy { value } else { self.sum(held[at], value) };
                }
            }
        }
        let collective = schedule.collective;
        let rounds = collective.is_replicated() && !schedule.steps.is_empty();
        let of_rank = |rank| (0..chunks).map(move |chunk| (rank, chunk));
        let all = (0..ranks).flat_map(of_rank);
        let is_result =
            |(rank, chunk): &(Rank, ChunkId)| collective.output_block(ranks, chunks, *rank, *chunk).is_some();
        let results: Vec<_> = all.filter(is_result).collect();
        let last = |(rank, chunk): (Rank, ChunkId)| {
            let value = held[place(rank, 0, chunk)];
            (chunk, if rounds { self.round(value) } else { value })
        };
        results.into_iter().map(last).collect()
    }
}

impl Collective {
    /// Whether several ranks end with the same chunks.
    pub(crate) fn is_replicated(self) -> bool {
        matches!(self, Collective::Allreduce | Collective::Allgather | Collective::Broadcast { .. })
    }
}
