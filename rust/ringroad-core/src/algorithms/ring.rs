//! Ring: every block travels once around the ring, from neighbour to neighbour.
//!
//! Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 69(2), 2009.
//! The bidirectional ring sends each half of the vector in one direction.
//!
//! The path of block 0 for n = 7; the number in an arrow is the step:
//!
//! ```text
//! reduce-scatter    1 -0-> 2 -1-> 3 -2-> 4 -3-> 5 -4-> 6 -5-> 0
//! allgather         0 -0-> 1 -1-> 2 -2-> 3 -3-> 4 -4-> 5 -5-> 6
//! ```
//!
//! Cost: 2(n-1) steps, 2(n-1)/n of the vector by one port, or half of it by each of two; one phase takes half of both.

use super::in_trees::{perform, Give, InTrees, Table};
use super::{hamiltonian, ScheduleRequest, Shape};
use crate::schedule::{Cycle, Motion, Schedule};

/// The whole of every block goes upwards.
pub(super) fn unidirectional(request: &ScheduleRequest<'_>) -> Schedule {
    perform(request.name, request.collective, single(request.shape).iter().take(1))
}

/// Half of every block goes upwards, half of it downwards.
pub(super) fn bidirectional(request: &ScheduleRequest<'_>) -> Schedule {
    perform(request.name, request.collective, &single(request.shape))
}

/// Along every cycle of the torus, in both directions.
pub(super) fn hamiltonian(request: &ScheduleRequest<'_>) -> Schedule {
    let cycles = hamiltonian::cycles(request.shape).into_iter().map(Some).collect();
    perform(request.name, request.collective, &ways(request.shape, cycles))
}

/// The in-trees along each of these cycles, upwards and downwards.
fn ways(shape: &Shape, cycles: Vec<Option<Cycle>>) -> Vec<(InTrees, InTrees)> {
    let up = upwards(shape.ranks());
    let down = up.mirrored();
    let both = |cycle: Option<Cycle>| {
        let along = |table: &Table| match &cycle {
            None => InTrees::from_table(table.clone()),
            Some(cycle) => InTrees::along(cycle.clone(), table.clone()),
        };
        [(along(&up), along(&down)), (along(&down), along(&up))]
    };
    cycles.into_iter().flat_map(both).collect()
}

/// A ring goes around in the order of its ranks, a torus along one cycle.
fn single(shape: &Shape) -> Vec<(InTrees, InTrees)> {
    let cycle = (shape.sizes().len() > 1).then(|| hamiltonian::one(shape));
    ways(shape, vec![cycle])
}

/// The table by which a reduce-scatter moves blocks upwards. An allgather reverses its table, so it moves blocks
/// upwards along the mirror image of this one.
pub(super) fn upwards(ranks: usize) -> Table {
    Table::symmetric(ranks, Motion::Shift, |block| Give { level: ranks - block - 1, parent: 1, port: 0 })
}
