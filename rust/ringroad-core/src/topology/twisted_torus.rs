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

use super::family::{Ends, Family, FamilyLayout, PortRule, SpecForm, Traits};
use super::{grid, text, Topology, TopologyError};
use crate::units::Rank;

pub(super) static TWISTED_TORUS: Family = Family {
    name: "twisted-torus",
    example: "twisted-torus:8x4",
    summary: "a torus of 2a x a; going around the short dimension shifts by half of the long one",
    source:
        "Camara et al.: Twisted torus topologies for enhanced interconnection networks, TPDS 21(12), 2010",
    form: SpecForm::TwoSizes(Topology::twisted_torus),
};

const LAYOUT: FamilyLayout = FamilyLayout {
    family: &TWISTED_TORUS,
    ports: PortRule::Formula(|_, rank, port| (port < 4).then_some(4 * rank + port)),
    ends: Ends::First,
    traits: Traits { has_cabled_ports: true, ..Traits::NONE },
};

impl Topology {
    /// A torus of which one dimension is twice as long as the other one, around which one comes back half the long one
    /// further.
    pub fn twisted_torus(rows: usize, columns: usize) -> Result<Topology, TopologyError> {
        let sizes = [rows, columns];
        TWISTED_TORUS.check_grid(&sizes, 4)?;
        let spec = TWISTED_TORUS.spec(text::join(&sizes));
        let what = "one dimension must be twice as long as the other one, and that 2 or more";
        let long = long(&sizes).ok_or_else(|| TWISTED_TORUS.unfit(spec.clone(), what))?;
        let neighbour = |rank, dimension, up| Some(neighbour(&sizes, long, rank, dimension, up));
        Ok(Topology::on_grid(LAYOUT, spec, &sizes, grid::links(&sizes, neighbour)))
    }
}

/// Which dimension is the long one, where the sizes are those of a rectangular twisted torus.
fn long(sizes: &[usize]) -> Option<usize> {
    match *sizes {
        [long, short] if short > 1 && short.checked_mul(2) == Some(long) => Some(0),
        [short, long] if short > 1 && short.checked_mul(2) == Some(long) => Some(1),
        _ => None,
    }
}

fn neighbour(sizes: &[usize], long: usize, rank: Rank, dimension: usize, up: bool) -> Rank {
    let at = grid::coordinate(sizes, rank, dimension);
    let around = if up { at + 1 == sizes[dimension] } else { at == 0 };
    let next = grid::shifted(sizes, rank, dimension, up);
    if dimension == long || !around {
        return next;
    }
    let along = grid::coordinate(sizes, rank, long);
    grid::moved(sizes, next, long, along + sizes[long] / 2)
}
