//! Meshes: tori without the cables around, so that ranks at a border have fewer links.
//!
//! ```text
//! mesh:2x3     0 ⇄ 1 ⇄ 2     rank = 3·y + x at (y, x); ports as on a torus, but none across the border
//!              ⇅   ⇅   ⇅
//!              3 ⇄ 4 ⇄ 5
//! ```
//!
//! Links come rank by rank, and port by port within a rank.

use super::family::{Ends, Family, FamilyLayout, PortRule, SpecForm, Traits};
use super::{grid, text, Topology, TopologyError};
use crate::units::Rank;

pub(super) static MESH: Family = Family {
    name: "mesh",
    example: "mesh:4x4",
    summary: "a torus without the wrap-around cables",
    source: "Dally, Towles: Principles and practices of interconnection networks, 2004",
    form: SpecForm::Sizes(Topology::mesh),
};

const LAYOUT: FamilyLayout = FamilyLayout {
    family: &MESH,
    ports: PortRule::Neighbour(|mesh, rank, dimension, up| neighbour(&mesh.dimensions, rank, dimension, up)),
    ends: Ends::First,
    traits: Traits { has_cabled_ports: true, is_irregular: true, is_ordered: true, ..Traits::NONE },
};

impl Topology {
    /// A torus without the cables around its ends.
    pub fn mesh(sizes: &[usize]) -> Result<Topology, TopologyError> {
        MESH.check_grid(sizes, 2 * sizes.len())?;
        let neighbour = |rank, dimension, up| neighbour(sizes, rank, dimension, up);
        Ok(Topology::on_grid(LAYOUT, MESH.spec(text::join(sizes)), sizes, grid::links(sizes, neighbour)))
    }
}

pub(super) fn neighbour(sizes: &[usize], rank: Rank, dimension: usize, up: bool) -> Option<Rank> {
    let at = grid::coordinate(sizes, rank, dimension);
    let border = if up { at + 1 == sizes[dimension] } else { at == 0 };
    (!border).then(|| grid::shifted(sizes, rank, dimension, up))
}
