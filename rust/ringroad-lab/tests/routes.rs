//! Tests of searches for routes: how evenly they load links, and how many channels they need.

// Only `Random` is used here.
#[allow(dead_code)]
#[path = "../../ringroad-core/tests/common/mod.rs"]
mod common;

use common::Random;
use ringroad_core::topology::{Channels, Link, RoutingTable};
use ringroad_core::Topology;
use ringroad_lab::routes::{balanced_routes, least_load};

const GAP: f64 = 0.004;

fn topology(spec: &str) -> Topology {
    Topology::parse(spec).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

/// A graph of random cycles through all ranks.
fn random(ranks: usize, cycles: usize) -> Topology {
    let mut dice = Random(ranks as u64);
    let mut links = Vec::new();
    for _ in 0..cycles {
        let mut order: Vec<usize> = (0..ranks).collect();
        (1..ranks).rev().for_each(|at| order.swap(at, dice.below(at + 1)));
        let ends = |at: usize| (order[at], order[(at + 1) % ranks]);
        links.extend((0..ranks).map(ends).flat_map(|(a, b)| [Link::between(a, b), Link::between(b, a)]));
    }
    Topology::from_links("random", ranks, ranks, links).unwrap()
}

fn balanced(topology: &Topology) -> (RoutingTable, f64) {
    let found = balanced_routes(topology, GAP, &mut |_| true).unwrap();
    assert!(topology.clone().with_routes(found.table.clone()).is_ok(), "{topology}");
    let ratio = found.table.load(topology) / found.bound;
    assert!(ratio >= 1.0 - 1e-9, "{topology}: {ratio}");
    (found.table, ratio)
}

#[test]
fn balanced_routes_are_near_the_bound() {
    for (spec, most) in [
        ("petersen", 1.0),
        ("torus:5x5", 1.0),
        ("hypercube:5", 1.0),
        ("without(torus:6x6, 0-1)", 1.04),
        ("generalized-kautz:4:100", 1.03),
        ("mesh:5x5", 1.04),
        ("complete:5", 1.0),
        ("ring:1", 1.0),
    ] {
        let topology = topology(spec);
        let found = balanced_routes(&topology, GAP, &mut |_| true).unwrap();
        let load = found.table.load(&topology);
        assert!(load <= most * found.bound * (1.0 + 1e-9), "{spec}: {load} for {}", found.bound);
        let shortest = RoutingTable::shortest(&topology).unwrap();
        assert!(load <= shortest.load(&topology) * (1.0 + 1e-9), "{spec}");
    }
}

/// Parallel links share the load of their arc in proportion to their bandwidths.
#[test]
fn parallel_links_are_loaded_alike() {
    for spec in ["biring:4:6", "torus:2x2x3", "uniring:3:5"] {
        let (table, ratio) = balanced(&topology(spec));
        assert!(ratio <= 1.35, "{spec}: {ratio}");
        let counts = table.counts(&topology(spec));
        assert!(counts.iter().all(|count| *count > 0), "{spec}: {counts:?}");
    }
    let unequal = topology("biring:4:6").map_links(|id, link| link.capacity = [1.0, 3.5][id % 2]).unwrap();
    balanced(&unequal);
    let counts = balanced(&unequal).0.counts(&unequal);
    let of = |fast: usize| counts.iter().skip(fast).step_by(2).sum::<u64>();
    assert!(of(1) > 2 * of(0), "{counts:?}");
}

#[test]
fn large_graphs_need_few_channels() {
    for topology in [topology("generalized-kautz:4:500"), random(500, 2)] {
        let (table, ratio) = balanced(&topology);
        assert!(ratio <= 1.01, "{topology}: {ratio}");
        let made = table.with_channels(&topology, Channels::Turns).unwrap();
        assert!(made.is_deadlock_free() && made.channels() <= 6, "{topology}: {}", made.channels());
        let shortest = RoutingTable::shortest(&topology).unwrap();
        assert!(shortest.load(&topology) > 1.2 * table.load(&topology), "{topology}");
    }
}

#[test]
fn the_bound_is_that_of_any_routes() {
    let routed = topology("mesh:3x4");
    let routed = routed.clone().with_routes(RoutingTable::shortest(&routed).unwrap()).unwrap();
    let bound = |topology: &Topology| least_load(topology, GAP, &mut |_| true);
    assert_eq!(bound(&routed), bound(&topology("mesh:3x4")));
    // The bound must be valid although bandwidths are rounded to whole units.
    let odd = topology("ring:5").map_links(|id, link| link.bandwidth = 1e9 * (1.0 + id as f64 * 0.123_456_7));
    let odd = odd.unwrap();
    assert!(bound(&odd).unwrap() <= RoutingTable::shortest(&odd).unwrap().load(&odd));
    balanced(&odd);
    // A rank's cable to the switch carries the rank's bytes for three others.
    let link = topology("switch:4").links()[0].bytes_per_second();
    assert!((bound(&topology("switch:4")).unwrap() * link / 3.0 - 1.0).abs() < 0.005);
}

/// Networks with more pairs of ranks than a table holds are refused before memory is taken for them.
#[test]
fn too_many_ranks_are_refused() {
    let large = topology("torus:256x256,routing=single-path");
    for table in [RoutingTable::shortest(&large), RoutingTable::up_down(&large), RoutingTable::of(&large)] {
        let error = table.unwrap_err().to_string();
        assert!(error.starts_with("the routes of 65536 ranks have more than 268435456 hops"), "{error}");
    }
    let error = balanced_routes(&large, GAP, &mut |_| true).unwrap_err().to_string();
    assert!(error.contains("65536 ranks") && error.contains("4096 ranks is the most"), "{error}");
    let error =
        least_load(&topology("without(torus:256x256, 0-1)"), GAP, &mut |_| true).unwrap_err().to_string();
    assert!(error.contains("8192 ranks is the most"), "{error}");
}
