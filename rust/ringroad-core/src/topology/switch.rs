//! A single switch, which is node `n` of a network of `n` ranks. Rank `r` has the uplink `2r` to the switch and the
//! downlink `2r + 1` from it.
//!
//! ```text
//! switch:3     0   1   2
//!              └─⇅─┼─⇅─┘
//!                  3
//! ```

use super::Link;
use crate::units::{LinkId, Rank};

pub(super) fn links(ranks: usize) -> Vec<Link> {
    (0..ranks).flat_map(|rank| [Link::between(rank, ranks), Link::between(ranks, rank)]).collect()
}

pub(super) fn uplink(rank: Rank) -> LinkId {
    2 * rank
}
