//! Tests of searches for routes: how evenly they load links, and how many channels they need.

// Only `Random` is used here.
#[allow(dead_code)]
#[path = "../../ringroad-core/tests/common/mod.rs"]
mod common;

use common::Random;
use ringroad_core::topology::{Link, Routing, RoutingTable};
use ringroad_core::units::LinkId;
use ringroad_core::Topology;
use ringroad_lab::routes::{
    balanced_routes, csv, cycle, least_load, path_of, shortest, up_down, with_channels, Channels, Hop,
};

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

/// The routes of the topology of a spec as a table.
fn table_of(spec: &str) -> RoutingTable {
    RoutingTable::from_topology(&topology(&format!("{spec},routing=single-path"))).unwrap()
}

/// The same table with these channels.
fn on_channels(table: &RoutingTable, channel: impl FnMut(usize) -> u8) -> RoutingTable {
    let hops = table.pairs().map(|(source, target)| table.path(source, target).len()).sum();
    table.clone().on_channels((0..hops).map(channel).collect())
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
        let shortest = shortest(&topology).unwrap();
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
    let total = |fast: usize| counts.iter().skip(fast).step_by(2).sum::<u64>();
    assert!(total(1) > 2 * total(0), "{counts:?}");
}

#[test]
fn large_graphs_need_few_channels() {
    for topology in [topology("generalized-kautz:4:500"), random(500, 2)] {
        let (table, ratio) = balanced(&topology);
        assert!(ratio <= 1.01, "{topology}: {ratio}");
        let made = with_channels(&table, &topology, Channels::Turns).unwrap();
        assert!(cycle(&made).is_none() && made.channels() <= 6, "{topology}: {}", made.channels());
        let shortest = shortest(&topology).unwrap();
        assert!(shortest.load(&topology) > 1.2 * table.load(&topology), "{topology}");
    }
}

#[test]
fn the_bound_is_that_of_any_routes() {
    let routed = topology("mesh:3x4");
    let routed = routed.clone().with_routes(shortest(&routed).unwrap()).unwrap();
    let bound = |topology: &Topology| least_load(topology, GAP, &mut |_| true);
    assert_eq!(bound(&routed), bound(&topology("mesh:3x4")));
    // The bound must be valid although bandwidths are rounded to whole units.
    let odd = topology("ring:5").map_links(|id, link| link.bandwidth = 1e9 * (1.0 + id as f64 * 0.123_456_7));
    let odd = odd.unwrap();
    assert!(bound(&odd).unwrap() <= shortest(&odd).unwrap().load(&odd));
    balanced(&odd);
    // A rank's cable to the switch carries the rank's bytes for three others.
    let link = topology("switch:4").links()[0].bytes_per_second();
    assert!((bound(&topology("switch:4")).unwrap() * link / 3.0 - 1.0).abs() < 0.005);
}

/// Networks with more pairs of ranks than a table holds are refused before memory is taken for them.
#[test]
fn too_many_ranks_are_refused() {
    let large = topology("torus:256x256,routing=single-path");
    for table in [shortest(&large), up_down(&large), RoutingTable::from_topology(&large)] {
        let error = table.unwrap_err().to_string();
        assert!(error.starts_with("the routes of 65536 ranks have more than 268435456 hops"), "{error}");
    }
    let error = balanced_routes(&large, GAP, &mut |_| true).unwrap_err().to_string();
    assert!(error.contains("65536 ranks") && error.contains("4096 ranks is the most"), "{error}");
    let error =
        least_load(&topology("without(torus:256x256, 0-1)"), GAP, &mut |_| true).unwrap_err().to_string();
    assert!(error.contains("8192 ranks is the most"), "{error}");
}

#[test]
fn paths_are_said_hop_by_hop() {
    let ring = topology("ring:4");
    let table = table_of("ring:4");
    let down = ring.port_link(0, 1).unwrap();
    let hop = Hop { link: down, source: 0, target: 3, channel: 0 };
    assert_eq!(path_of(&table, &ring, 0, 3), [hop]);
    assert_eq!(csv(&table, &ring, 0).lines().last(), Some(format!("0,3,0,0,3,{down},0").as_str()));
    assert_eq!(csv(&table, &ring, 0).lines().count(), 1 + 2 + 1);
}

/// Whether no dependencies are left after repeatedly removing those on channels that wait for nothing.
fn drains(table: &RoutingTable) -> bool {
    let hops = |(a, b)| table.hops(a, b).collect::<Vec<(LinkId, u8)>>();
    let mut waits: Vec<_> = table
        .pairs()
        .map(hops)
        .flat_map(|hops| hops.windows(2).map(|w| (w[0], w[1])).collect::<Vec<_>>())
        .collect();
    loop {
        let before = waits.len();
        let holders: std::collections::BTreeSet<_> = waits.iter().map(|(from, _)| *from).collect();
        waits.retain(|(_, to)| holders.contains(to));
        if waits.len() == before {
            return waits.is_empty();
        }
    }
}

#[test]
fn cycles_are_found() {
    let one_way = topology("uniring:1:5");
    let table = RoutingTable::from_topology(&one_way).unwrap();
    let found = cycle(&table).unwrap();
    assert_eq!(found.len(), 5);
    let ends = |hop: &(LinkId, u8)| (one_way.links()[hop.0].source, one_way.links()[hop.0].target);
    assert!((0..5).all(|at| ends(&found[at]).1 == ends(&found[(at + 1) % 5]).0), "{found:?}");
    let with = |way| with_channels(&table, &one_way, way).unwrap();
    for (way, channels) in [(Channels::Turns, 2), (Channels::Lash, 3)] {
        assert_eq!((with(way).channels(), cycle(&with(way))), (channels, None), "{way:?}");
    }
    // On a ring in one direction paths of two hops need a second channel somewhere.
    assert!(cycle(&on_channels(&table, |_| 3)).is_some());
    for seed in 0..40u64 {
        let graph = random(8, 2);
        let table = shortest(&graph).unwrap();
        let mixed =
            on_channels(&table, |hop| ((hop as u64 * 37 + seed * seed) % (3 + seed) % (2 + seed)) as u8);
        assert_eq!(cycle(&mixed).is_none(), drains(&mixed), "{seed}");
    }
    assert!(cycle(&table_of("mesh:3x3")).is_none() && drains(&table_of("mesh:3x3")));
    assert!(cycle(&table_of("ring:5")).is_some() && !drains(&table_of("ring:5")));
}

#[test]
fn channels_are_few() {
    let check = |topology: &Topology, turns: usize, lash: usize| {
        let table = shortest(topology).unwrap();
        for (way, most) in [(Channels::Turns, turns), (Channels::Lash, lash)] {
            let made = with_channels(&table, topology, way).unwrap();
            assert!(drains(&made) && made.channels() <= most, "{topology} {way:?}: {}", made.channels());
            table.pairs().for_each(|(a, b)| assert_eq!(made.path(a, b), table.path(a, b), "{topology}"));
            let routed = topology.clone().with_routes(made.clone()).unwrap();
            assert_eq!(RoutingTable::from_topology(&routed), Ok(made), "{topology}");
        }
    };
    check(&topology("generalized-kautz:4:100"), 4, 10);
    check(&topology("torus:5x5"), 3, 4);
    check(&topology("switch:9"), 1, 1);
    check(&topology("fattree:3x4"), 1, 1);
    check(&topology("hosts:3x4"), 1, 1);
    check(&random(100, 2), 4, 9);
}

#[test]
fn paths_up_and_down_need_one_channel() {
    for topology in [topology("torus:4x5"), topology("fattree:2x3x4"), topology("petersen"), random(60, 2)] {
        let table = up_down(&topology).unwrap();
        assert!(topology.clone().with_routes(table.clone()).is_ok(), "{topology}");
        assert!(cycle(&table).is_none() && table.channels() == 1, "{topology}");
        let shortest = shortest(&topology).unwrap();
        assert!(shortest.load(&topology) <= table.load(&topology), "{topology}");
    }
    let error = up_down(&topology("uniring:1:4")).unwrap_err().to_string();
    assert!(
        error.contains("no path leads up and then down; up-down routing needs a link back for every link"),
        "{error}"
    );
}

/// The paths of `shortest` have the fewest hops, and their load is at most that of single-path routing.
#[test]
fn shortest_paths_are_spread() {
    for topology in [topology("torus:4x6"), topology("fattree:2x3x2"), topology("biring:4:7"), random(60, 2)]
    {
        let first = topology.clone().with_routing(Routing::SinglePath).unwrap();
        let (first, spread) = (RoutingTable::from_topology(&first).unwrap(), shortest(&topology).unwrap());
        for (source, target) in spread.pairs() {
            assert_eq!(spread.path(source, target).len(), first.path(source, target).len(), "{topology}");
        }
        assert!(topology.clone().with_routes(spread.clone()).is_ok());
        assert!(spread.load(&topology) <= first.load(&topology), "{topology}");
    }
}

/// Tables on the same network have the same digest if they are equal, and are read back as they were written.
#[test]
fn tables_are_told_apart_and_stored() {
    for spec in ["torus:4x4", "mesh:2x3", "fattree:2x4", "hosts:2x2", "generalized-kautz:2:9"] {
        let plain = topology(spec);
        let routed = plain.clone().with_routes(table_of(spec)).unwrap();
        let other = plain.clone().with_routes(shortest(&plain).unwrap()).unwrap();
        assert_ne!(routed.digest(), plain.digest(), "{spec}");
        assert_eq!(routed.digest() == other.digest(), routed == other, "{spec}");
    }
    let graph = random(12, 2);
    let table = with_channels(&shortest(&graph).unwrap(), &graph, Channels::Turns).unwrap();
    let routed = graph.with_routes(table).unwrap();
    let json = serde_json::to_string(&routed).unwrap();
    assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), routed);
    assert_eq!(
        routed.without_links(&[(0, 1)]).map_or(Routing::Minimal, |left| left.routing()),
        Routing::Minimal
    );
}
