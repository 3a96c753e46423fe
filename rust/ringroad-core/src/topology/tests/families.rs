//! Every family compared with its definition: links out of ranks, links in all, and diameter.

use super::*;
use crate::topology::measure::{breadth_first, Adjacency};

/// A network with the fewest and most links out of a rank, the number of links, and the diameter.
#[derive(Debug, Clone)]
struct Expected {
    topology: Topology,
    degree: (usize, usize),
    links: usize,
    diameter: usize,
}

fn expected(topology: Topology, degree: (usize, usize), links: usize, diameter: usize) -> Expected {
    Expected { topology, degree, links, diameter }
}

fn product(sizes: &[usize]) -> usize {
    sizes.iter().product()
}

fn torus(sizes: &[usize]) -> Expected {
    let degree = 2 * sizes.iter().filter(|n| **n > 1).count();
    let diameter = sizes.iter().map(|n| n / 2).sum();
    expected(Topology::torus(sizes).unwrap(), (degree, degree), degree * product(sizes), diameter)
}

fn mesh(sizes: &[usize]) -> Expected {
    let least = sizes.iter().map(|n| usize::from(*n > 1)).sum();
    let most = sizes.iter().map(|n| (*n).min(3) - 1).sum();
    let links = sizes.iter().map(|n| 2 * (n - 1) * product(sizes) / n).sum();
    expected(Topology::mesh(sizes).unwrap(), (least, most), links, sizes.iter().map(|n| n - 1).sum())
}

fn twisted_torus(a: usize, turned: bool) -> Expected {
    let (rows, columns) = if turned { (2 * a, a) } else { (a, 2 * a) };
    expected(Topology::twisted_torus(rows, columns).unwrap(), (4, 4), 8 * a * a, a)
}

fn hyperx(sizes: &[usize]) -> Expected {
    let degree = sizes.iter().map(|n| n - 1).sum();
    let diameter = sizes.iter().filter(|n| **n > 1).count();
    expected(Topology::hyperx(sizes).unwrap(), (degree, degree), degree * product(sizes), diameter)
}

/// In a row with a tree, the distance of two ranks is that to the nearer ends of their boards plus the two hops of the
/// tree. Ranks of one board may also take the tree.
fn hamming_mesh(board: [usize; 2], count: [usize; 2]) -> Expected {
    let topology = Topology::hamming_mesh(board, count).unwrap();
    let least = |d: usize| if count[d] > 1 { 2 } else { usize::from(board[d] > 1) };
    let most = |d: usize| if count[d] > 1 { 2 } else { board[d].min(3) - 1 };
    let across = |d: usize| product(&topology.dimensions) / topology.dimensions[d];
    let links = |d: usize| {
        let within = 2 * (board[d] - 1) * count[d];
        let trees = if count[d] > 1 { 4 * count[d] } else { 0 };
        across(d) * (within + trees)
    };
    let farthest = |d: usize| if count[d] > 1 { 2 * ((board[d] - 1) / 2) + 2 } else { board[d] - 1 };
    let both = |f: &dyn Fn(usize) -> usize| f(0) + f(1);
    let degree = (both(&least), both(&most));
    let (links, diameter) = (both(&links), both(&farthest));
    expected(topology, degree, links, diameter)
}

fn hypercube(dimensions: usize, twisted: bool) -> Expected {
    let make = if twisted { Topology::twisted_hypercube } else { Topology::hypercube };
    let (links, diameter) = (dimensions << dimensions, dimensions - usize::from(twisted));
    expected(make(dimensions).unwrap(), (dimensions, dimensions), links, diameter)
}

fn fat_tree(sizes: &[usize], ratio: f64) -> Expected {
    let links = (1..=sizes.len()).map(|level| 2 * product(&sizes[..level])).sum();
    // Two ranks meet at the lowest switch above both.
    let height = sizes.iter().position(|n| *n > 1).map_or(0, |top| sizes.len() - top);
    expected(Topology::fat_tree(sizes, &[ratio]).unwrap(), (1, 1), links, 2 * height)
}

fn switch(n: usize) -> Expected {
    let diameter = if n > 1 { 2 } else { 0 };
    expected(Topology::switch(n).unwrap(), (1, 1), 2 * n, diameter)
}

fn unequal_hosts(sizes: &[usize]) -> Expected {
    let diameter = match (sizes.len(), sizes[0]) {
        (1, 1) => 0,
        (1, _) => 2,
        _ => 4,
    };
    let links = 2 * sizes.iter().sum::<usize>() + 2 * sizes.len();
    expected(Topology::hosts_with(sizes).unwrap(), (1, 1), links, diameter)
}

fn hosts(hosts: usize, per_host: usize) -> Expected {
    let diameter = match (hosts, per_host) {
        (1, 1) => 0,
        (1, _) => 2,
        _ => 4,
    };
    let links = 2 * hosts * per_host + 2 * hosts;
    expected(Topology::hosts(hosts, per_host).unwrap(), (1, 1), links, diameter)
}

fn any_family() -> impl Strategy<Value = Expected> {
    let sizes = || prop::collection::vec(1usize..6, 1..4);
    let pair = |most: usize| [1..=most, 1..=most];
    prop_oneof![
        sizes().prop_map(|sizes| torus(&sizes)),
        (1usize..40).prop_map(|n| Expected { topology: Topology::ring(n).unwrap(), ..torus(&[n]) }),
        sizes().prop_map(|sizes| mesh(&sizes)),
        (2usize..9, any::<bool>()).prop_map(|(a, turned)| twisted_torus(a, turned)),
        sizes().prop_map(|sizes| hyperx(&sizes)),
        (pair(5), pair(4)).prop_map(|(board, count)| hamming_mesh(board, count)),
        (1usize..8).prop_map(|dimensions| hypercube(dimensions, false)),
        (3usize..9).prop_map(|dimensions| hypercube(dimensions, true)),
        (sizes(), 1.0..4.0).prop_map(|(sizes, ratio)| fat_tree(&sizes, ratio)),
        (1usize..40).prop_map(switch),
        (1usize..8, 1usize..8).prop_map(|(h, per_host)| hosts(h, per_host)),
        prop::collection::vec(1usize..6, 1..6).prop_map(|sizes: Vec<usize>| unequal_hosts(&sizes)),
    ]
}

/// Hops between all pairs of ranks.
pub(super) fn distances(topology: &Topology) -> Vec<Vec<usize>> {
    let outgoing = Adjacency::new(topology.nodes(), topology.links().iter().map(|link| link.source));
    let from = |rank| breadth_first(&outgoing, |id| topology.links()[id].target, rank).0;
    let reached = |hops: Option<usize>| hops.expect("the network is connected");
    (0..topology.ranks())
        .map(|rank| from(rank)[..topology.ranks()].iter().map(|hops| reached(*hops)).collect())
        .collect()
}

proptest! {
    #![proptest_config(seeded())]

    #[test]
    fn families_are_what_their_definitions_say(family in any_family()) {
        let Expected { topology, degree, links, diameter } = family;
        let degrees = (0..topology.ranks()).map(|rank| topology.degree(rank));
        prop_assert_eq!((degrees.clone().min().unwrap(), degrees.max().unwrap()), degree, "{}", topology);
        prop_assert_eq!(topology.max_degree(), degree.1);
        prop_assert_eq!(topology.links().len(), links, "{}", topology);
        // The library measures the diameter from a few ranks, this test from all.
        let farthest = distances(&topology).into_iter().flatten().max().unwrap();
        prop_assert_eq!((topology.diameter(), farthest), (diameter, diameter), "{}", topology);
        // Between two nodes there are as many links back as there, with the same capacities.
        let mut ends: Vec<_> = topology.links().iter().map(|l| (l.source, l.target, l.capacity.to_bits())).collect();
        let mut back: Vec<_> = ends.iter().map(|(a, b, c)| (*b, *a, *c)).collect();
        ends.sort_unstable();
        back.sort_unstable();
        prop_assert_eq!(ends, back);
    }

    #[test]
    fn specs_and_stored_forms_come_back(family in any_family(), bandwidth in 1e6..1e12f64, extra in 0.0..1e-6f64) {
        let topology = family.topology;
        prop_assert_eq!(&Topology::parse(&topology.spec()).unwrap(), &topology);
        let topology = topology.with_links(Some(bandwidth), Some(extra)).unwrap();
        let json = serde_json::to_string(&topology).unwrap();
        prop_assert!(json.len() < 120, "{}", json);
        prop_assert_eq!(&serde_json::from_str::<Topology>(&json).unwrap(), &topology);
        let topology = topology.with_processing(extra).unwrap().with_routing(Routing::SinglePath).unwrap();
        let json = serde_json::to_string(&topology).unwrap();
        prop_assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), topology);
    }

    /// A port's link leaves its rank. Where ports are cables of a grid, it leads to the neighbour by coordinates.
    #[test]
    fn ports_leave_their_rank(family in any_family()) {
        let topology = family.topology;
        for rank in 0..topology.ranks() {
            for port in 0..2 * topology.dimensions().len() + 2 {
                let Some(link) = topology.port_link(rank, port) else { continue };
                prop_assert_eq!(topology.links()[link].source, rank);
                let target = topology.links()[link].target;
                if !topology.has_cabled_ports() {
                    continue;
                }
                let opposite = topology.port_link(target, port ^ 1).map(|back| topology.links()[back].target);
                prop_assert_eq!(opposite, Some(rank), "{} rank {} port {}", topology, rank, port);
                if topology.is_torus() {
                    let mut at = topology.coordinates(rank);
                    at[port / 2] += if port % 2 == 0 { 1 } else { topology.dimensions()[port / 2] - 1 };
                    prop_assert_eq!(Some(target), topology.rank_at(&at));
                }
            }
        }
    }
}

/// The networks of Swing's evaluation (section 5.4).
#[test]
fn large_networks_of_the_literature() {
    let check = |spec: &str, ranks: usize, degree: usize, diameter: usize| {
        let topology = topology(spec);
        assert_eq!(
            (topology.ranks(), topology.max_degree(), topology.diameter()),
            (ranks, degree, diameter),
            "{spec}"
        );
    };
    check("hammingmesh:2x2:32x32", 4096, 4, 4);
    check("hammingmesh:4x4:16x16", 4096, 4, 8);
    check("hyperx:64x64", 4096, 126, 2);
    check("twisted-hypercube:3", 8, 3, 2);
    check("twisted-torus:24x12", 288, 4, 12);
}

/// A switch's uplink has the bandwidth of all ranks below it, divided by the oversubscription ratios up to its level.
#[test]
fn fat_trees_taper() {
    let check = |spec: &str, capacities: &[(NodeId, f64)]| {
        let topology = topology(spec);
        for &(node, capacity) in capacities {
            let up = topology.links().iter().find(|link| link.source == node && link.target > node).unwrap();
            assert!((up.capacity - capacity).abs() < 1e-12, "{spec} node {node}: {}", up.capacity);
        }
    };
    check("fattree:2x3:1.5", &[(0, 1.0), (5, 1.0), (6, 2.0), (7, 2.0)]);
    check("fattree:2x4x8", &[(63, 1.0), (64, 8.0), (71, 8.0), (72, 32.0)]);
    check("fattree:2x4x8:2", &[(0, 1.0), (64, 4.0), (72, 8.0)]);
    check("fattree:2x4x8:1x2", &[(0, 1.0), (64, 4.0), (73, 16.0)]);
}
