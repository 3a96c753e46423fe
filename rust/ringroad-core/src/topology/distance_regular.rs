//! Distance-regular graphs with a name: how many ranks have given distances from two ranks depends only on the distance
//! of these two. They are most of the examples in Zhao et al., "Efficient direct-connect topologies for collective
//! communications", Table 7. The other examples there are line graphs of these, hamming:2:3 and hamming:4:2.
//!
//! ```text
//! petersen              pairs of five things, joined if they have none in common: odd-graph:3
//! heawood               points and lines of the plane of order 2, as rotations and reflections of a heptagon
//! tutte-8-cage          w2-incidence; tutte-12-cage: points and lines of the hexagon H(2)
//! ```
//!
//! Where the graph is made as a Cayley graph, its ports are those of [`Topology::cayley`]; where it is made as a
//! circulant, those of [`Topology::circulant`]. Elsewhere a rank's ports are in the order of its neighbours' numbers.

use super::family::{Family, SpecForm};
use super::{geometry, CayleyGroup, Topology, TopologyError};
use crate::units::Rank;

pub(super) static ODD_GRAPH: Family = Family {
    name: "odd-graph",
    example: "odd-graph:4",
    summary: "the sets of 3 of 7 things, joined if they are disjoint",
    source:
        "Zhao et al.: Efficient direct-connect topologies for collective communications (arXiv 2202.03356)",
    form: SpecForm::Number(Topology::odd_graph),
};

pub(super) static DOUBLED_ODD_GRAPH: Family = Family {
    name: "doubled-odd-graph",
    example: "doubled-odd-graph:4",
    summary: "the sets of 3 and of 4 of 7 things, joined if one contains the other",
    source:
        "Zhao et al.: Efficient direct-connect topologies for collective communications (arXiv 2202.03356)",
    form: SpecForm::Number(Topology::doubled_odd_graph),
};

type GraphFunction = fn(&str) -> Result<Topology, TopologyError>;

/// The names of the graphs, and the functions that make them.
pub(super) const NAMED: [(&str, GraphFunction); 12] = [
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

/// The incidence graph of a plane given by a difference set: point x is on line y where y − x is in `set`. It is a
/// Cayley graph of the dihedral group; points are the elements r^x and lines the elements r^y s.
fn plane(size: usize, set: &[usize]) -> Result<Topology, TopologyError> {
    let group = CayleyGroup::parse(&format!("d{size}"))?;
    Topology::cayley(&group, &set.iter().map(|difference| 2 * difference + 1).collect::<Vec<usize>>())
}

impl Topology {
    /// The graph of this name, or `None` where there is none.
    pub(super) fn named(name: &str) -> Option<Result<Topology, TopologyError>> {
        let (_, make) = NAMED.iter().find(|graph| graph.0 == name)?;
        Some(make(name).map(|graph| graph.called(name)))
    }

    /// The odd graph O(k): ranks are the sets of `k` − 1 of 2`k` − 1 things in lexicographic order, and two are joined
    /// if they have no thing in common.
    pub fn odd_graph(k: usize) -> Result<Topology, TopologyError> {
        let spec = ODD_GRAPH.spec(k);
        check_things(&ODD_GRAPH, k)?;
        let sets = &subsets(2 * k - 1, k - 1);
        // A set is disjoint from its complement without any one thing.
        let things = 0..2 * k - 1;
        let others =
            |a: Rank| things.clone().map(|thing| 1 << thing).filter(move |thing| sets[a] & thing == 0);
        let all = (1 << things.end) - 1;
        let disjoint = |a: Rank| others(a).map(move |thing| (a, place(sets, all & !sets[a] & !thing)));
        Topology::cabled(&spec, sets.len(), (0..sets.len()).flat_map(disjoint).filter(|(a, b)| a < b))
    }

    /// The doubled odd graph: ranks are the sets of `k` − 1 and of `k` of 2`k` − 1 things, the smaller sets first, and
    /// two are joined if one contains the other.
    pub fn doubled_odd_graph(k: usize) -> Result<Topology, TopologyError> {
        let spec = DOUBLED_ODD_GRAPH.spec(k);
        check_things(&DOUBLED_ODD_GRAPH, k)?;
        let (small, large) = (subsets(2 * k - 1, k - 1), subsets(2 * k - 1, k));
        let (small, large) = (&small, &large);
        let others =
            |a: Rank| (0..2 * k - 1).rev().map(|thing| 1 << thing).filter(move |thing| small[a] & thing == 0);
        let part = |a: Rank| others(a).map(move |thing| (a, small.len() + place(large, small[a] | thing)));
        Topology::cabled(&spec, 2 * small.len(), (0..small.len()).flat_map(part))
    }
}

/// Checks that `k` is 2 to 8, for which there are up to 6435 sets of a size.
fn check_things(family: &Family, k: usize) -> Result<(), TopologyError> {
    match k {
        2..=8 => Ok(()),
        _ => Err(family.unfit(family.spec(k), "its sets have 1 to 7 things, so the number is 2 to 8")),
    }
}

/// The position of a set in the list of all of its size.
fn place(sets: &[u32], set: u32) -> Rank {
    sets.partition_point(|other| *other > set)
}

/// The sets of `size` of the things in lexicographic order, as bits. The first thing is the highest bit, so that the
/// numbers descend.
fn subsets(things: usize, size: usize) -> Vec<u32> {
    (0..1u32 << things).rev().filter(|set| set.count_ones() as usize == size).collect()
}
