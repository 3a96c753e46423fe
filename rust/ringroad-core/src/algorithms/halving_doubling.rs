//! Halving and doubling: partners exchange half of what they hold, at twice the distance in every step; then backwards.
//!
//! Rabenseifner: Optimization of collective reduction operations, ICCS 2004; Thakur, Rabenseifner, Gropp, IJHPCA 19(1),
//! 2005. Near partners come first, when messages are large. An allreduce folds other numbers than powers of two.
//!
//! ```text
//! n = 8   what rank 0 holds before    step 0    0 1 2 3 4 5 6 7    gives 1 3 5 7 to 1
//!         each step of the            step 1    0   2   4   6      gives 2 6 to 2
//!         reduce-scatter              step 2    0       4          gives 4 to 4
//! ```
//!
//! Cost: 2 log2 n steps, 2(n-1)/n of the vector; folded, with p = 2^floor(log2 n): 2 log2 p + 2 steps, 2(p-1)/p + 1.

use super::fold::fold;
use super::in_trees::{perform, port_towards, Give, InTrees};
use crate::collective::Collective;
use crate::schedule::Schedule;

/// The allreduce for any number of ranks, reduce-scatter and allgather for powers of two.
pub(super) fn schedule(name: &str, ranks: usize, collective: Collective) -> Schedule {
    let core = |ranks| {
        let trees = InTrees::new(ranks, |rank, block| {
            let level = (rank ^ block).trailing_zeros() as usize;
            let parent = rank ^ 1 << level;
            Give { level, parent, port: port_towards(ranks, rank, parent) }
        });
        perform(name, collective, &trees, &trees)
    };
    if collective == Collective::Allreduce {
        fold(name, ranks, core)
    } else {
        core(ranks)
    }
}
