//! Families of in-trees: one table per algorithm that reduce-scatter, allgather and allreduce are read from.
//!
//! The table says for every rank and every block in which step the rank gives its partial result of the block away, and
//! to whom. The block's own rank is the root of the block's tree and keeps it. The table performs a reduce-scatter that
//! counts every contribution exactly once if and only if every other rank has a parent that gives the block away in a
//! later step, or is the root. Allgather is the reverse in time, and allreduce is the one after the other.

use std::collections::HashMap;

use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Schedule, Send, Step};
use crate::units::{ChunkId, Port, Rank};

/// How a rank gives its partial result of a block away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Give {
    /// In which step.
    pub level: usize,
    /// To whom.
    pub parent: Rank,
    /// By which port.
    pub port: Port,
}

/// One in-tree per block, over all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InTrees {
    ranks: usize,
    levels: usize,
    /// Of rank `r` and block `q` at `r * ranks + q`; where they are equal, the level is `levels`.
    gives: Vec<Give>,
}

impl InTrees {
    /// The table that `give(rank, block)` tells; it is not asked for a rank's own block.
    pub fn new(ranks: usize, give: impl Fn(Rank, usize) -> Give) -> InTrees {
        let own = |rank| Give { level: 0, parent: rank, port: 0 };
        let cell = |rank, block| if rank == block { own(rank) } else { give(rank, block) };
        let mut gives: Vec<Give> = (0..ranks)
            .flat_map(|rank| (0..ranks).map(move |block| (rank, block)))
            .map(|(r, q)| cell(r, q))
            .collect();
        let levels = if ranks > 1 { gives.iter().map(|g| g.level + 1).max().unwrap_or(0) } else { 0 };
        gives.iter_mut().step_by(ranks + 1).for_each(|own| own.level = levels);
        InTrees { ranks, levels, gives }
    }

    /// How `rank` gives `block` away; its own block it keeps, at a level past the last.
    pub fn give(&self, rank: Rank, block: usize) -> Give {
        self.gives[rank * self.ranks + block]
    }

    /// How many steps the table describes.
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// The mirror image on a ring: what rank `r` did upwards, rank `-r` does downwards.
    pub fn mirrored(&self) -> InTrees {
        let mirror = |rank: Rank| (self.ranks - rank) % self.ranks;
        InTrees::new(self.ranks, |rank, block| {
            let Give { level, parent, port } = self.give(mirror(rank), mirror(block));
            Give { level, parent: mirror(parent), port: port ^ 1 }
        })
    }

    /// Reduce-scatter in chunks of one block each; every rank sends `ranks - 1` blocks.
    pub fn reduce_scatter(&self, name: &str) -> Schedule {
        let mut steps: Vec<Vec<(Rank, Give, Vec<ChunkId>)>> = vec![Vec::new(); self.levels];
        for rank in 0..self.ranks {
            for block in (0..self.ranks).filter(|block| *block != rank) {
                let give = self.give(rank, block);
                let sends = &mut steps[give.level];
                match sends.iter_mut().rev().take_while(|s| s.0 == rank).find(|s| s.1 == give) {
                    Some(send) => send.2.push(block),
                    None => sends.push((rank, give, vec![block])),
                }
            }
        }
        let mut schedule = Schedule::empty(name, Collective::ReduceScatter, self.ranks, self.ranks);
        for sends in steps {
            let send = |(source, give, blocks): (Rank, Give, Vec<ChunkId>)| Send {
                source,
                destination: give.parent,
                chunks: blocks.into_iter().collect(),
                action: Action::Reduce,
                port: give.port,
            };
            schedule.push(sends.into_iter().map(send).collect());
        }
        schedule
    }

    /// Allgather: the reduce-scatter backwards.
    pub fn allgather(&self, name: &str) -> Schedule {
        self.reduce_scatter(name).reverse().expect("a reduce-scatter can be reversed")
    }

    /// A number for every block such that blocks that travel together have adjacent numbers, provided that any two
    /// sets of blocks that ranks hold before a step are equal or disjoint. They are for powers of two and three.
    fn numbering(&self) -> Vec<ChunkId> {
        // A block's sets, coarse to fine, each named by the lowest rank that holds it.
        let path = |block: &usize| {
            let mut holders = vec![self.ranks; self.levels + 1];
            for rank in (0..self.ranks).rev() {
                holders[self.give(rank, *block).level] = rank;
            }
            for level in (0..self.levels).rev() {
                holders[level] = holders[level].min(holders[level + 1]);
            }
            holders
        };
        let mut blocks: Vec<usize> = (0..self.ranks).collect();
        blocks.sort_by_cached_key(path);
        let mut numbers = vec![0; self.ranks];
        blocks.into_iter().enumerate().for_each(|(number, block)| numbers[block] = number);
        numbers
    }
}

/// The schedule of a reduce-scatter along `scatter`, of an allgather along `gather` backwards, or of both in turn as an
/// allreduce. In an allreduce it does not matter which rank reduces which chunk: they are numbered anew if that leaves
/// fewer runs to send.
pub fn perform(name: &str, collective: Collective, scatter: &InTrees, gather: &InTrees) -> Schedule {
    match collective {
        Collective::ReduceScatter => scatter.reduce_scatter(name),
        Collective::Allgather => gather.allgather(name),
        Collective::Allreduce => {
            let natural = scatter
                .reduce_scatter(name)
                .compose(&gather.allgather(name))
                .expect("reduce-scatter and allgather make an allreduce");
            let renumbered = renumber(&natural, &scatter.numbering());
            if runs(&renumbered) < runs(&natural) {
                renumbered
            } else {
                natural
            }
        }
        other => unreachable!("in-trees perform no {other}"),
    }
}

/// Each half of the vector by one of two mirror images, so that both ports of a ring are busy.
pub fn perform_both_ways(
    name: &str,
    collective: Collective,
    scatter: &InTrees,
    gather: &InTrees,
) -> Schedule {
    let halves = [
        perform(name, collective, scatter, gather),
        perform(name, collective, &scatter.mirrored(), &gather.mirrored()),
    ];
    let mut both = Schedule::split(name, &halves).expect("mirror images have the same shape");
    both.steps.iter_mut().for_each(merge);
    both
}

/// Makes one message of all that a rank sends to another one by the same port for the same purpose.
fn merge(step: &mut Step) {
    let mut merged: Vec<Send> = Vec::with_capacity(step.sends.len());
    let mut places = HashMap::new();
    for send in step.sends.drain(..) {
        let place =
            *places.entry((send.source, send.destination, send.port, send.action)).or_insert(merged.len());
        match merged.get_mut(place) {
            Some(earlier) => earlier.chunks = earlier.chunks.iter().chain(send.chunks.iter()).collect(),
            None => merged.push(send),
        }
    }
    step.sends = merged;
}

fn renumber(schedule: &Schedule, numbers: &[ChunkId]) -> Schedule {
    let mut renumbered = schedule.clone();
    for send in renumbered.steps.iter_mut().flat_map(|step| &mut step.sends) {
        send.chunks = send.chunks.iter().map(|chunk| numbers[chunk]).collect::<ChunkSet>();
    }
    renumbered
}

fn runs(schedule: &Schedule) -> usize {
    schedule.sends().map(|send| send.chunks.runs().len()).sum()
}

/// The port of a ring by which the shorter way from `source` to `destination` begins; port 0 if both are equal.
pub fn port_towards(ranks: usize, source: Rank, destination: Rank) -> Port {
    let up = (destination + ranks - source) % ranks;
    usize::from(2 * up > ranks)
}
