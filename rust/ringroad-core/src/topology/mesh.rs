//! Meshes: tori without the cables around, so that ranks at a border have fewer links.
//!
//! ```text
//! mesh:2x3     0 ⇄ 1 ⇄ 2     rank = 3·y + x at (y, x); ports as on a torus, but none across the border
//!              ⇅   ⇅   ⇅
//!              3 ⇄ 4 ⇄ 5
//! ```
//!
//! Links come rank by rank, and port by port within a rank.

use super::grid;
use crate::units::Rank;

pub(super) fn neighbour(sizes: &[usize], rank: Rank, dimension: usize, up: bool) -> Option<Rank> {
    let at = grid::coordinate(sizes, rank, dimension);
    let border = if up { at + 1 == sizes[dimension] } else { at == 0 };
    (!border).then(|| grid::shifted(sizes, rank, dimension, up))
}
