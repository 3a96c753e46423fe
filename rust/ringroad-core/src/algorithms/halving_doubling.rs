//! Halving and doubling: partners exchange half of what they hold, at twice the distance in every step; then backwards.
//!
//! Rabenseifner: Optimization of collective reduction operations, ICCS 2004; Thakur, Rabenseifner, Gropp, IJHPCA 19(1),
//! 2005. The nearest partners come first, when messages are large. On a torus, dimensions take turns (Sack, Gropp:
//!   Faster topology-aware collective algorithms through non-minimal communication, PPoPP 2012). For other numbers than
//!   powers of two, see `elimination` for the allreduce, and `fold` for reduce-scatter and allgather.
//!
//! ```text
//! n = 8   what rank 0 holds before    step 0    0 1 2 3 4 5 6 7    gives 1 3 5 7 to 1
//!         each step of the            step 1    0   2   4   6      gives 2 6 to 2
//!         reduce-scatter              step 2    0       4          gives 4 to 4
//! ```
//!
//! Cost: 2 log2 n steps, 2(n-1)/n of the vector; one phase takes half of both. On all ports, a slice starts in every
//! dimension, each with a mirror image: the same steps and volume.

use super::elimination;
use super::fold::fold_blocks;
use super::in_trees::{interleaved, perform, Give, InTrees, Table};
use super::shape::{in_turns, Shape};
use super::ScheduleRequest;
use crate::collective::Collective;
use crate::schedule::{Motion, Schedule};

/// Reduce-scatter, allgather and allreduce on any torus.
pub(super) fn schedule(request: &ScheduleRequest<'_>) -> Schedule {
    let ScheduleRequest { name, shape, collective, .. } = *request;
    let core = |shape: &Shape| {
        let tables = tables(shape);
        let levels: Vec<usize> = tables.iter().map(Table::levels).collect();
        let trees = InTrees::product(shape, tables, in_turns(&levels, &shape.order(0)));
        perform(name, collective, &[(trees.clone(), trees)])
    };
    if shape.sizes().iter().all(|size| size.is_power_of_two()) {
        core(shape)
    } else if collective == Collective::Allreduce {
        elimination::allreduce(name, shape)
    } else {
        fold_blocks(shape, &core(&Shape::ring(1 << shape.ranks().ilog2())))
    }
}

/// The same on all ports, for sizes that are powers of two.
pub(super) fn multiport(request: &ScheduleRequest<'_>) -> Schedule {
    let ScheduleRequest { name, shape, collective, .. } = *request;
    perform(name, collective, &interleaved(shape, &tables(shape), true))
}

fn tables(shape: &Shape) -> Vec<Table> {
    shape.sizes().iter().map(|size| table(*size)).collect()
}

/// Ranks that differ in bit k only exchange in step k.
pub(super) fn table(size: usize) -> Table {
    let ring = Shape::ring(size);
    Table::symmetric(size, Motion::Flip, |block| {
        let level = block.trailing_zeros() as usize;
        let parent = 1 << level;
        Give { level, parent, port: ring.port_towards(0, parent) }
    })
}
