//! HyperX with a rank at every switch: each rank has a link to every rank that differs from it in one coordinate (Ahn
//! et al., "HyperX: topology, routing, and packaging of efficient large-scale networks", SC 2009). With equal sizes it
//! is a Hamming graph.
//!
//! ```text
//! hyperx:2x3   0 ⇄ 1 ⇄ 2      and 0 ⇄ 2, 3 ⇄ 5      rank = 3·y + x at (y, x)
//!              ⇅   ⇅   ⇅
//!              3 ⇄ 4 ⇄ 5
//! ```
//!
//! Links come rank by rank, dimension by dimension, and within a dimension in the order of the distance upwards, around
//! its end. So the first link of a dimension is its upper port and the last its lower port. In a dimension of size 2
//! one link is both.

use super::family::{Ends, Family, FamilyLayout, PortRule, SpecForm, Traits};
use super::{grid, text, Link, Topology, TopologyError};
use crate::units::{LinkId, Port, Rank};

pub(super) static HYPERX: Family = Family {
    name: "hyperx",
    example: "hyperx:4x4",
    summary: "a link to every rank that differs in one coordinate",
    source: "Ahn et al.: HyperX: topology, routing, and packaging of efficient large-scale networks, SC 2009",
    form: SpecForm::Sizes(Topology::hyperx),
};

const LAYOUT: FamilyLayout = FamilyLayout {
    family: &HYPERX,
    ports: PortRule::Formula(port_link),
    ends: Ends::First,
    traits: Traits { is_ordered: true, ..Traits::NONE },
};

impl Topology {
    /// Ranks with a link to each one that differs in one coordinate only.
    pub fn hyperx(sizes: &[usize]) -> Result<Topology, TopologyError> {
        HYPERX.check_grid(sizes, 0)?;
        HYPERX.check_grid(sizes, degree(sizes))?;
        Ok(Topology::on_grid(LAYOUT, HYPERX.spec(text::join(sizes)), sizes, links(sizes)))
    }
}

pub(super) fn degree(sizes: &[usize]) -> usize {
    sizes.iter().map(|size| size - 1).sum()
}

pub(super) fn links(sizes: &[usize]) -> Vec<Link> {
    let ranks: usize = sizes.iter().product();
    let mut links = Vec::with_capacity(ranks * degree(sizes));
    for rank in 0..ranks {
        for (dimension, &size) in sizes.iter().enumerate() {
            let at = grid::coordinate(sizes, rank, dimension);
            let others = (1..size).map(|distance| grid::moved(sizes, rank, dimension, at + distance));
            links.extend(others.map(|other| Link::between(rank, other)));
        }
    }
    links
}

fn port_link(sizes: &[usize], rank: Rank, port: Port) -> Option<LinkId> {
    let size = *sizes.get(port / 2)?;
    let within = if port.is_multiple_of(2) { 0 } else { size.checked_sub(2)? };
    let first = rank * degree(sizes) + degree(&sizes[..port / 2]);
    (size > 1).then_some(first + within)
}
