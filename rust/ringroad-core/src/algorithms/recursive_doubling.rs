//! Recursive doubling: partners exchange whole vectors, at twice the distance in every step.
//!
//! Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, IJHPCA 19(1), 2005.
//! Other numbers than powers of two are folded (see `fold`).
//!
//! ```text
//! n = 8   step 0    0-1   2-3   4-5   6-7
//!         step 1    0-2   1-3   4-6   5-7
//!         step 2    0-4   1-5   2-6   3-7
//! ```
//!
//! Cost: log2 n steps, log2 n vectors; folded floor(log2 n) + 2 steps, floor(log2 n) + 1 vectors.

use super::fold::fold;
use super::in_trees::port_towards;
use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Schedule, Send};

/// The allreduce for any number of ranks.
pub(super) fn schedule(name: &str, ranks: usize, _: Collective) -> Schedule {
    fold(name, ranks, |ranks| {
        let mut schedule = Schedule::empty(name, Collective::Allreduce, ranks, 1);
        for bit in 0..ranks.ilog2() {
            let exchange = |source| Send {
                source,
                destination: source ^ 1 << bit,
                chunks: ChunkSet::range(0, 1),
                action: Action::Reduce,
                port: port_towards(ranks, source, source ^ 1 << bit),
            };
            schedule.push((0..ranks).map(exchange).collect());
        }
        schedule
    })
}
