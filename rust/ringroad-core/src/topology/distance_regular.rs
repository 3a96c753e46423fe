//! Graphs with a name, in which how many ranks are so far from two others depends on these two's distance alone; most
//! of those that serve as examples in Zhao et al., "Efficient direct-connect topologies for collective communications",
//! Table 7, the others being line graphs of these, hamming:2:3 and hamming:4:2.
//!
//! ```text
//! petersen              pairs of five things; joined if they have none in common: odd-graph:3
//! heawood               points and lines of the plane of order 2, as turns and reflections of a heptagon
//! tutte-8-cage          w2-incidence; tutte-12-cage: points and lines of the hexagon H(2)
//! ```
//!
//! Where the graph is that of a group in an obvious way its ports are those of [`Topology::cayley`]; elsewhere a rank's
//! neighbours ascend.

use super::family::{Family, Form, Layout};
use super::{geometry, Group, Topology, TopologyError};
use crate::units::Rank;

pub(super) static ODD_GRAPH: Family = Family {
    name: "odd-graph",
    example: "odd-graph:4",
    summary: "sets of 3 of 7 things, joined if they have none in common",
    source:
        "Zhao et al.: Efficient direct-connect topologies for collective communications (arXiv 2202.03356)",
    form: Form::Number(Topology::odd_graph),
    layout: Layout::LISTED,
};

pub(super) static DOUBLED_ODD_GRAPH: Family = Family {
    name: "doubled-odd-graph",
    example: "doubled-odd-graph:4",
    summary: "sets of 3 and of 4 of 7 things, joined if one is part of the other",
    source:
        "Zhao et al.: Efficient direct-connect topologies for collective communications (arXiv 2202.03356)",
    form: Form::Number(Topology::doubled_odd_graph),
    layout: Layout::LISTED,
};

type Make = fn(&str) -> Result<Topology, TopologyError>;

/// Every named graph.
pub(super) const NAMED: [(&str, Make); 12] = [
    ("octahedron", |_| Topology::circulant(6, &[1, 2])),
    ("k55-minus-matching", |_| Topology::circulant(10, &[1, 3])),
    ("petersen", |_| Topology::odd_graph(3)),
    ("heawood", |_| plane(7, &[0, 1, 3])),
    ("heawood-distance-3", |_| plane(7, &[2, 4, 5, 6])),
    ("pg23-incidence", |_| plane(13, &[0, 1, 3, 9])),
    ("ag24-incidence", geometry::affine_plane_of_4),
    ("w2-incidence", |name| geometry::quadrangle(name, 2)),
    ("tutte-8-cage", |name| geometry::quadrangle(name, 2)),
    ("gq33-incidence", |name| geometry::quadrangle(name, 3)),
    ("tutte-12-cage", |name| geometry::hexagon(name, 2)),
    ("gh33-incidence", |name| geometry::hexagon(name, 3)),
];

/// Points x are on the lines y with y − x in the set: elements r^x and r^y s of the dihedral group.
fn plane(size: usize, set: &[usize]) -> Result<Topology, TopologyError> {
    let group = Group::parse(&format!("d{size}"))?;
    Topology::cayley(&group, &set.iter().map(|difference| 2 * difference + 1).collect::<Vec<usize>>())
}

impl Topology {
    /// The graph of this name, if there is one.
    pub(super) fn named(name: &str) -> Option<Result<Topology, TopologyError>> {
        let (_, make) = NAMED.iter().find(|graph| graph.0 == name)?;
        Some(make(name).map(|graph| graph.called(name)))
    }

    /// The sets of `k` − 1 of 2`k` − 1 things, in lexicographic order; joined if they have none in common.
    pub fn odd_graph(k: usize) -> Result<Topology, TopologyError> {
        let spec = ODD_GRAPH.spec(k);
        check_things(&ODD_GRAPH, k)?;
        let sets = subsets(2 * k - 1, k - 1);
        let disjoint = pairs(&sets, &sets).filter(|(a, b)| a < b && sets[*a] & sets[*b] == 0);
        Topology::cabled(&spec, sets.len(), disjoint)
    }

    /// The sets of `k` − 1 and of `k` of 2`k` − 1 things, the smaller ones first; joined if one is part of the other.
    pub fn doubled_odd_graph(k: usize) -> Result<Topology, TopologyError> {
        let spec = DOUBLED_ODD_GRAPH.spec(k);
        check_things(&DOUBLED_ODD_GRAPH, k)?;
        let (small, large) = (subsets(2 * k - 1, k - 1), subsets(2 * k - 1, k));
        let part = pairs(&small, &large).filter(|(a, b)| small[*a] & !large[*b] == 0);
        Topology::cabled(&spec, 2 * small.len(), part.map(|(a, b)| (a, small.len() + b)))
    }
}

/// Every pair of sets is looked at: beyond 8 that would take long.
fn check_things(family: &Family, k: usize) -> Result<(), TopologyError> {
    match k {
        2..=8 => Ok(()),
        _ => Err(family.unfit(family.spec(k), "its sets have 1 to 7 things, so the number is 2 to 8")),
    }
}

fn pairs<'a>(a: &'a [u32], b: &'a [u32]) -> impl Iterator<Item = (Rank, Rank)> + 'a {
    (0..a.len()).flat_map(|first| (0..b.len()).map(move |second| (first, second)))
}

/// Sets of so many of the things, as bits: the first thing is the highest bit, so that lexicographic order descends.
fn subsets(things: usize, size: usize) -> Vec<u32> {
    (0..1u32 << things).rev().filter(|set| set.count_ones() as usize == size).collect()
}
