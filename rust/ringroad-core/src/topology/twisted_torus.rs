//! Rectangular twisted tori of 2a x a ranks. A path around the short dimension ends half the long dimension further,
//! which makes all directions alike and the diameter a instead of a + a/2 (Cámara et al., "Twisted torus topologies for
//! enhanced interconnection networks", TPDS 21(12), 2010, section 3).
//!
//! ```text
//! twisted-torus:2x4    0 ⇄ 1 ⇄ 2 ⇄ 3 ⇄ (0)     rank = 4·y + x at (y, x); ports as on a torus
//!                      ⇅   ⇅   ⇅   ⇅
//!                      4 ⇄ 5 ⇄ 6 ⇄ 7 ⇄ (4)
//!                      ⇅   ⇅   ⇅   ⇅
//!                     (2) (3) (0) (1)
//! ```
//!
//! Either dimension may be the long one. Links come rank by rank, and port by port within a rank.

use super::grid;
use crate::units::Rank;

/// The number of the long dimension; `None` where the sizes are not those of a rectangular twisted torus.
pub(super) fn long(sizes: &[usize]) -> Option<usize> {
    match *sizes {
        [long, short] if short > 1 && short.checked_mul(2) == Some(long) => Some(0),
        [short, long] if short > 1 && short.checked_mul(2) == Some(long) => Some(1),
        _ => None,
    }
}

pub(super) fn neighbour(sizes: &[usize], long: usize, rank: Rank, dimension: usize, up: bool) -> Rank {
    let at = grid::coordinate(sizes, rank, dimension);
    let around = if up { at + 1 == sizes[dimension] } else { at == 0 };
    let next = grid::shifted(sizes, rank, dimension, up);
    if dimension == long || !around {
        return next;
    }
    let along = grid::coordinate(sizes, rank, long);
    grid::moved(sizes, next, long, along + sizes[long] / 2)
}
