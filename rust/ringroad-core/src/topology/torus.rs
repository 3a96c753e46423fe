//! Tori, and rings as tori of one dimension. Every rank has two links, up and down, in each dimension longer than 1.
//!
//! ```text
//! torus:2x3    0 ⇄ 1 ⇄ 2 ⇄ (0)     rank = 3·y + x at (y, x); port 0 and 1: y + 1 and y − 1,
//!              ⇅   ⇅   ⇅                                      port 2 and 3: x + 1 and x − 1
//!              3 ⇄ 4 ⇄ 5 ⇄ (3)
//! ```
//!
//! Links come rank by rank, and port by port within a rank.

use super::grid;
use crate::units::{LinkId, Port, Rank};

pub(super) fn neighbour(sizes: &[usize], rank: Rank, dimension: usize, up: bool) -> Option<Rank> {
    (sizes[dimension] > 1).then(|| grid::shifted(sizes, rank, dimension, up))
}

/// How many links leave each rank.
pub(super) fn ports(sizes: &[usize]) -> usize {
    2 * sizes.iter().filter(|size| **size > 1).count()
}

pub(super) fn port_link(sizes: &[usize], rank: Rank, port: Port) -> Option<LinkId> {
    let dimension = port / 2;
    let wired = *sizes.get(dimension)? > 1;
    wired.then(|| rank * ports(sizes) + ports(&sizes[..dimension]) + port % 2)
}
