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
use super::in_trees::{perform, Give, InTrees, Table};
use super::shape::{in_turns, Shape};
use super::Request;
use crate::collective::Collective;
use crate::schedule::{Motion, Schedule};

/// The allreduce on any torus, reduce-scatter and allgather on those whose sizes are powers of two.
pub(super) fn schedule(request: &Request<'_>) -> Schedule {
    let Request { name, shape, collective, .. } = *request;
    let core = |shape: &Shape| {
        let tables: Vec<Table> = shape.sizes().iter().map(|size| table(*size)).collect();
        let levels: Vec<usize> = tables.iter().map(Table::levels).collect();
        let trees = InTrees::product(shape, tables, in_turns(&levels, &shape.order(0)));
        perform(name, collective, &[(trees.clone(), trees)])
    };
    if collective == Collective::Allreduce && !shape.sizes().iter().all(|size| size.is_power_of_two()) {
        fold(name, shape, |ranks| core(&Shape::ring(ranks)))
    } else {
        core(shape)
    }
}

/// Whoever differs in bit k exchanges in step k.
pub(super) fn table(size: usize) -> Table {
    let ring = Shape::ring(size);
    Table::symmetric(size, Motion::Flip, |block| {
        let level = block.trailing_zeros() as usize;
        let parent = 1 << level;
        Give { level, parent, port: ring.port_towards(0, parent) }
    })
}
