//! Tori, and rings as tori of one dimension. Every rank has two links, up and down, in each dimension longer than 1.
//!
//! ```text
//! torus:2x3    0 ⇄ 1 ⇄ 2 ⇄ (0)     rank = 3·y + x at (y, x); port 0 and 1: y + 1 and y − 1,
//!              ⇅   ⇅   ⇅                                      port 2 and 3: x + 1 and x − 1
//!              3 ⇄ 4 ⇄ 5 ⇄ (3)
//! ```
//!
//! Links come rank by rank, and port by port within a rank.

use super::family::{check_size, Ends, Family, FamilyLayout, PortRule, SpecForm, Traits};
use super::{grid, text, Topology, TopologyError};
use crate::units::{LinkId, Port, Rank};

/// Of the members of both families.
const fn layout(family: &'static Family) -> FamilyLayout {
    FamilyLayout {
        family,
        ports: PortRule::Formula(port_link),
        ends: Ends::First,
        traits: Traits { is_torus: true, has_cabled_ports: true, is_ordered: true, ..Traits::NONE },
    }
}

pub(super) static RING: Family = Family {
    name: "ring",
    example: "ring:8",
    summary: "a ring",
    source: "Dally, Towles: Principles and practices of interconnection networks, 2004",
    form: SpecForm::Number(Topology::ring),
};

pub(super) static TORUS: Family = Family {
    name: "torus",
    example: "torus:4x4x2",
    summary: "rings in every dimension",
    source: "Dally, Towles: Principles and practices of interconnection networks, 2004",
    form: SpecForm::Sizes(Topology::torus),
};

impl Topology {
    /// A ring of `n` ranks: a torus of one dimension.
    pub fn ring(n: usize) -> Result<Topology, TopologyError> {
        let spec = || RING.spec(n);
        check_size(&[n], 2, spec)?;
        Ok(draw(&RING, spec(), &[n]))
    }

    /// A torus with these sizes, one ring per dimension. A dimension of size 2 has two parallel links each way, one
    /// for each port; a dimension of size 1 has none.
    pub fn torus(sizes: &[usize]) -> Result<Topology, TopologyError> {
        TORUS.check_grid(sizes, 2 * sizes.len())?;
        Ok(draw(&TORUS, TORUS.spec(text::join(sizes)), sizes))
    }
}

fn draw(family: &'static Family, spec: String, sizes: &[usize]) -> Topology {
    let neighbour = |rank, dimension, up| neighbour(sizes, rank, dimension, up);
    Topology::on_grid(layout(family), spec, sizes, grid::links(sizes, neighbour))
}

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
