//! Ring: every block travels once around, from neighbour to neighbour.
//!
//! Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 69(2), 2009.
//! The bidirectional ring sends each half of the vector in one direction.
//!
//! The way of block 0 for n = 7; the number over an arrow is the step:
//!
//! ```text
//! reduce-scatter    1 -0-> 2 -1-> 3 -2-> 4 -3-> 5 -4-> 6 -5-> 0
//! allgather         0 -0-> 1 -1-> 2 -2-> 3 -3-> 4 -4-> 5 -5-> 6
//! ```
//!
//! Cost: 2(n-1) steps, 2(n-1)/n of the vector by one port, or half of it by each of two; one phase half of both.

use super::hamiltonian::cycles;
use super::in_trees::{perform, Give, InTrees, Table};
use super::{Request, Shape};
use crate::schedule::{Motion, Schedule};

/// All blocks upwards.
pub(super) fn unidirectional(request: &Request<'_>) -> Schedule {
    let ways = ways(request.shape);
    perform(request.name, request.collective, ways.iter().take(1))
}

/// Half of every block upwards and half of it downwards.
pub(super) fn bidirectional(request: &Request<'_>) -> Schedule {
    let ways = ways(request.shape);
    perform(request.name, request.collective, ways.iter().take(2))
}

/// Along every cycle of the torus, both ways.
pub(super) fn hamiltonian(request: &Request<'_>) -> Schedule {
    perform(request.name, request.collective, &ways(request.shape))
}

/// Every cycle of the shape, upwards and downwards.
fn ways(shape: &Shape) -> Vec<(InTrees, InTrees)> {
    let up = upwards(shape.ranks());
    let down = up.mirrored();
    let both = |along: &dyn Fn(&Table) -> InTrees| [(along(&up), along(&down)), (along(&down), along(&up))];
    match shape.sizes() {
        [_] => both(&|table| InTrees::of(table.clone())).to_vec(),
        sizes => {
            let cycles = cycles(sizes).into_iter();
            cycles.flat_map(|cycle| both(&|table| InTrees::along(cycle.clone(), table.clone()))).collect()
        }
    }
}

/// Going backwards in an allgather, blocks travel upwards along the mirror image of this.
pub(super) fn upwards(ranks: usize) -> Table {
    Table::symmetric(ranks, Motion::Shift, |block| Give { level: ranks - block - 1, parent: 1, port: 0 })
}
