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

use super::family::{check_size, Ends, Family, FamilyLayout, PortRule, SpecForm, Traits};
use super::{Link, Topology, TopologyError, MAX_RANKS};
use crate::units::{LinkId, Port, Rank};

pub(super) static HYPERCUBE: Family = Family {
    name: "hypercube",
    example: "hypercube:4",
    summary: "4 dimensions, 16 ranks",
    source: "Dally, Towles: Principles and practices of interconnection networks, 2004",
    form: SpecForm::Number(Topology::hypercube),
};

const LAYOUT: FamilyLayout = FamilyLayout {
    family: &HYPERCUBE,
    ports: PortRule::Formula(port_link),
    ends: Ends::First,
    traits: Traits { is_ordered: true, ..Traits::NONE },
};

pub(super) static TWISTED_HYPERCUBE: Family = Family {
    name: "twisted-hypercube",
    example: "twisted-hypercube:3",
    summary: "a hypercube with two cables exchanged; the diameter is one less",
    source: "Esfahanian, Ni, Sagan: The twisted n-cube with application to multiprocessing, IEEE Transactions on Computers 40(1), 1991",
    form: SpecForm::Number(Topology::twisted_hypercube),
};

const TWISTED: FamilyLayout = FamilyLayout {
    family: &TWISTED_HYPERCUBE,
    ports: PortRule::Formula(port_link),
    ends: Ends::Some(corners),
    traits: Traits::NONE,
};

impl Topology {
    /// 2^`dimensions` ranks with a link to each one whose number differs in one bit.
    pub fn hypercube(dimensions: usize) -> Result<Topology, TopologyError> {
        cube(LAYOUT, dimensions, false)
    }

    /// A hypercube of 3 or more dimensions, two of whose cables are exchanged so that its diameter is one less.
    pub fn twisted_hypercube(dimensions: usize) -> Result<Topology, TopologyError> {
        cube(TWISTED, dimensions, true)
    }
}

fn cube(layout: FamilyLayout, dimensions: usize, twisted: bool) -> Result<Topology, TopologyError> {
    let family = layout.family;
    let spec = || family.spec(dimensions);
    let (least, what) = match twisted {
        false => (1, "it needs a dimension"),
        true => (3, "it needs 3 dimensions or more"),
    };
    if dimensions < least {
        return Err(family.unfit(spec(), what));
    }
    if dimensions > MAX_RANKS.ilog2() as usize {
        return Err(TopologyError::TooLarge(spec()));
    }
    let sizes = vec![2; dimensions];
    check_size(&sizes, dimensions, spec)?;
    Ok(Topology::on_grid(layout, spec(), &sizes, links(dimensions, twisted)))
}

/// Of a cube that is twisted in two dimensions, all others are alike.
fn corners(cube: &Topology) -> Vec<Rank> {
    let bits = |set: usize| ((1 << set) - 1) << 2;
    let others = 0..=cube.dimensions().len() - 2;
    others.flat_map(|set| (0..4).map(move |twisted| bits(set) | twisted)).collect()
}

fn neighbour(dimensions: usize, twisted: bool, rank: Rank, dimension: usize) -> Rank {
    let bit = 1 << (dimensions - 1 - dimension);
    rank ^ if twisted && bit == 1 && rank < 4 { 3 } else { bit }
}

fn links(dimensions: usize, twisted: bool) -> Vec<Link> {
    let to =
        |rank| (0..dimensions).map(move |d| Link::between(rank, neighbour(dimensions, twisted, rank, d)));
    (0..1 << dimensions).flat_map(to).collect()
}

fn port_link(sizes: &[usize], rank: Rank, port: Port) -> Option<LinkId> {
    (port / 2 < sizes.len()).then_some(rank * sizes.len() + port / 2)
}
