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

use super::in_trees::{perform, perform_both_ways, Give, InTrees};
use crate::collective::Collective;
use crate::schedule::Schedule;

/// All blocks upwards.
pub(super) fn unidirectional(name: &str, ranks: usize, collective: Collective) -> Schedule {
    let up = upwards(ranks);
    perform(name, collective, &up, &up.mirrored())
}

/// Half of every block upwards and half of it downwards.
pub(super) fn bidirectional(name: &str, ranks: usize, collective: Collective) -> Schedule {
    let up = upwards(ranks);
    perform_both_ways(name, collective, &up, &up.mirrored())
}

/// Going backwards in an allgather, blocks travel upwards along the mirror image of this.
fn upwards(ranks: usize) -> InTrees {
    InTrees::new(ranks, |rank, block| Give {
        level: (rank + ranks - block - 1) % ranks,
        parent: (rank + 1) % ranks,
        port: 0,
    })
}
