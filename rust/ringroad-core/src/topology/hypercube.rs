//! Hypercubes, in which ranks are linked where their numbers differ in one bit, and hypercubes with one twist.
//!
//! ```text
//! hypercube:3     0 ── 1     4 ── 5      and 0 ── 4, 1 ── 5, 2 ── 6, 3 ── 7; a line is a link each way
//!                 │    │     │    │
//!                 2 ── 3     6 ── 7
//!
//! twisted-hypercube:3     0    1     4 ── 5      two opposite sides of the square 0 1 3 2 have become its diagonals:
//!                         │ ╲╱ │     │    │      0 ── 3 and 1 ── 2 instead of 0 ── 1 and 2 ── 3
//!                         │ ╱╲ │     │    │
//!                         2    3     6 ── 7
//! ```
//!
//! The grid is 2x2x..., and dimension 0 is the highest bit. Links come rank by rank, dimension by dimension. A rank's
//! one link along a dimension serves both ports of the dimension. With three or more dimensions the twist of one square
//! reduces the diameter by one (Esfahanian, Ni and Sagan, "The twisted n-cube with application to multiprocessing",
//! IEEE Transactions on Computers 40(1), 1991).

use super::Link;
use crate::units::{LinkId, Port, Rank};

fn neighbour(dimensions: usize, twisted: bool, rank: Rank, dimension: usize) -> Rank {
    let bit = 1 << (dimensions - 1 - dimension);
    rank ^ if twisted && bit == 1 && rank < 4 { 3 } else { bit }
}

pub(super) fn links(dimensions: usize, twisted: bool) -> Vec<Link> {
    let to =
        |rank| (0..dimensions).map(move |d| Link::between(rank, neighbour(dimensions, twisted, rank, d)));
    (0..1 << dimensions).flat_map(to).collect()
}

pub(super) fn port_link(dimensions: usize, rank: Rank, port: Port) -> Option<LinkId> {
    (port / 2 < dimensions).then_some(rank * dimensions + port / 2)
}
