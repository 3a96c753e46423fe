//! Routes as tables: which are taken, which are refused, and which can deadlock.

use std::sync::Arc;

use super::*;

/// The routes of the topology of a spec as a table.
fn table_of(spec: &str) -> RoutingTable {
    RoutingTable::of(&topology(&format!("{spec},routing=single-path"))).unwrap()
}

/// The table with another path for one pair.
fn with_path(table: &RoutingTable, pair: (Rank, Rank), instead: &[u32]) -> RoutingTable {
    let path = |source, target, path: &mut Vec<u32>| -> Result<(), TopologyError> {
        let own = table.path(source, target);
        path.extend(if (source, target) == pair { instead } else { own });
        Ok(())
    };
    RoutingTable::new(table.ranks(), path).unwrap()
}

/// A random graph made of `cycles` random cycles through all ranks, so that each rank has twice as many cables.
fn random(ranks: usize, cycles: usize) -> Topology {
    let mut seed = 7u64;
    let mut links = Vec::new();
    for _ in 0..cycles {
        let mut order: Vec<Rank> = (0..ranks).collect();
        for at in (1..ranks).rev() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(at, (seed >> 33) as usize % (at + 1));
        }
        let ends = |at: usize| (order[at], order[(at + 1) % ranks]);
        links.extend((0..ranks).map(ends).flat_map(|(a, b)| [Link::between(a, b), Link::between(b, a)]));
    }
    Topology::from_links("random", ranks, ranks, links).unwrap()
}

#[test]
fn tables_are_routes() {
    let ring = topology("ring:4");
    let around = ring.port_link(0, 1).unwrap() as u32;
    let path = [around, ring.port_link(3, 1).unwrap() as u32, ring.port_link(2, 1).unwrap() as u32];
    let table = with_path(&table_of("ring:4"), (0, 1), &path);
    let routed = ring.clone().with_routes(table.clone()).unwrap();
    assert_eq!((routed.spec().as_str(), routed.routing()), ("ring:4,routing=table", Routing::Table));
    let mut routes = Routes::new(&routed);
    assert!(!routes.have_formulas());
    let route = routes.route(0, 1).unwrap();
    assert_eq!(route.shares, path.map(|link| (link as LinkId, 1.0)));
    assert_eq!((route.hops, routes.route(2, 2).unwrap().hops), (3, 0));
    assert!(routes.route(0, 4).is_err());
    assert_eq!(table.counts(&ring).iter().sum::<u64>(), 4 * (1 + 2 + 1) + 2);
    assert_eq!(table.load(&ring), 3.0 / DEFAULT_BANDWIDTH);
    assert_eq!(table.csv(&ring, 0).lines().next(), Some(format!("0,1,0,0,3,{around},0").as_str()));
    assert_eq!(table.csv(&ring, 0).lines().count(), 3 + 2 + 1);

    // Routes between ranks and switches are not in the table.
    let switch = topology("switch:4").with_routes(table_of("switch:4")).unwrap();
    assert_eq!(Routes::new(&switch).route(4, 2).unwrap().hops, 1);
    assert_eq!(Routes::new(&switch).route(1, 2).unwrap().hops, 2);
    let single = TopologyError::Route { spec: "ring:4".into(), from: 2, to: 0, fault: RouteFault::Split };
    assert_eq!(RoutingTable::of(&ring), Err(single));
    assert_eq!(RoutingTable::of(&routed), Ok(table));
    assert_eq!(RoutingTable::of(&topology("ring:1")).unwrap().channels(), 1);
}

#[test]
fn tables_are_kept_with_the_wiring_and_left_with_other_links() {
    for spec in ["torus:4x4", "mesh:2x3", "fattree:2x4", "hosts:2x2", "generalized-kautz:2:9"] {
        let plain = topology(spec);
        let routed = plain.clone().with_routes(table_of(spec)).unwrap();
        let faster = routed.clone().with_links(Some(1e9), None).unwrap();
        assert_eq!(faster.routes(), routed.routes(), "{spec}");
        let unequal = faster.clone().map_links(|id, link| link.capacity = 1.0 + (id % 2) as f64).unwrap();
        for topology in [&routed, &faster, &unequal] {
            let json = serde_json::to_string(topology).unwrap();
            assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), *topology, "{spec}");
        }
        assert_eq!(routed.clone().with_routing(Routing::Table).as_ref(), Ok(&routed));
        assert_eq!(routed.clone().with_routing(Routing::Minimal).as_ref(), Ok(&plain));
        assert_eq!(routed.transpose().map(|turned| turned.routing()), Ok(Routing::Minimal));
        let other = plain.clone().with_routes(RoutingTable::shortest(&plain).unwrap()).unwrap();
        assert_ne!(routed.digest(), plain.digest(), "{spec}");
        assert_eq!(routed.digest() == other.digest(), routed == other, "{spec}");
    }
    let graph = random(12, 2);
    let table = RoutingTable::shortest(&graph).unwrap();
    let routed = graph.clone().with_routes(table.with_channels(&graph, Channels::Turns).unwrap()).unwrap();
    let json = serde_json::to_string(&routed).unwrap();
    assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), routed);
    assert_eq!(
        routed.without_links(&[(0, 1)]).map_or(Routing::Minimal, |left| left.routing()),
        Routing::Minimal
    );
}

#[test]
fn what_is_no_table_is_refused() {
    let ring = topology("ring:4");
    let table = table_of("ring:4");
    // Up from 0, 1, ... are links 0, 2, ..., down from them 1, 3, ...
    let check = |pair: (Rank, Rank), path: &[u32], message: &str| {
        let error = ring.clone().with_routes(with_path(&table, pair, path)).unwrap_err().to_string();
        let (from, to) = pair;
        assert_eq!(error, format!("rank {from} has no route to rank {to} on ring:4: {message}"));
    };
    check((0, 1), &[], "it has no path");
    check((2, 3), &[99], "its path takes link 99, and links are numbered below 8");
    check((1, 2), &[0], "its path is at node 1 but takes link 0, which starts at node 0");
    check((0, 2), &[0, 4], "its path is at node 1 but takes link 4, which starts at node 2");
    check((0, 2), &[0], "its path ends at node 1");
    check((0, 2), &[0, 3, 0, 2], "its path comes to node 0 twice");
    check((3, 1), &[6, 0, 2, 4, 6, 0], "its path comes to node 3 twice");
    let spec = "ring:5".to_owned();
    assert_eq!(
        topology("ring:5").with_routes(table.clone()),
        Err(TopologyError::TableSize { spec, ranks: 5, found: 4 })
    );

    let needed = "ring:4 has table routing, but the table of routes is missing; give the topology itself, or the JSON that \
                  contains its routes";
    assert_eq!(Topology::parse("ring:4,routing=table").unwrap_err().to_string(), needed);
    let json = serde_json::to_string(&ring.clone().with_routes(table).unwrap()).unwrap();
    let read = |json: &str| serde_json::from_str::<Topology>(json).map_err(|error| error.to_string());
    assert!(read(&json).is_ok());
    let damaged = |from: &str, to: &str, message: &str| {
        assert!(json.contains(from), "{json}");
        let error = read(&json.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(message), "{error}");
    };
    damaged(",routing=table", "", "ring:4 has minimal routing and a table of routes; write routing=table");
    damaged(r#""ranks":4"#, r#""ranks":5"#, "5 times 5");
    damaged(r#""links":["#, r#""links":[0,"#, "17 links");
    damaged(r#""hops":[0,"#, r#""hops":[1,"#, "the sum 17, 16 links and 0 channels");
    damaged(r#""links":["#, r#""channels":[0],"links":["#, "and 1 channels");
    damaged(r#""hops":[0,1,"#, r#""hops":[1,0,"#, "rank 0 has no route to rank 1 on ring:4: it has no path");
}

/// The same table with these channels.
fn on_channels(table: &RoutingTable, channel: impl FnMut(usize) -> u8) -> RoutingTable {
    let mut value = serde_json::to_value(table).unwrap();
    let hops = value["links"].as_array().unwrap().len();
    value["channels"] = (0..hops).map(channel).collect::<Vec<u8>>().into();
    serde_json::from_value(value).unwrap()
}

/// Whether no dependencies are left after repeatedly removing those on channels that wait for nothing.
fn drains(table: &RoutingTable) -> bool {
    let pairs = (0..table.ranks()).flat_map(|a| (0..table.ranks()).map(move |b| (a, b)));
    let hops = |(a, b)| table.hops(a, b).collect::<Vec<(LinkId, u8)>>();
    let mut waits: Vec<_> =
        pairs.map(hops).flat_map(|hops| hops.windows(2).map(|w| (w[0], w[1])).collect::<Vec<_>>()).collect();
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
    let table = RoutingTable::of(&one_way).unwrap();
    let cycle = table.cycle().unwrap();
    assert_eq!(cycle.len(), 5);
    let ends = |hop: &(LinkId, u8)| (one_way.links()[hop.0].source, one_way.links()[hop.0].target);
    assert!((0..5).all(|at| ends(&cycle[at]).1 == ends(&cycle[(at + 1) % 5]).0), "{cycle:?}");
    let with = |way| table.with_channels(&one_way, way).unwrap();
    for (way, channels) in [(Channels::Turns, 2), (Channels::Lash, 3)] {
        assert_eq!((with(way).channels(), with(way).is_deadlock_free()), (channels, true), "{way:?}");
    }
    // On a ring in one direction paths of two hops need a second channel somewhere.
    assert!(on_channels(&table, |_| 3).cycle().is_some());
    for seed in 0..40u64 {
        let graph = random(8, 2);
        let table = RoutingTable::shortest(&graph).unwrap();
        let mixed =
            on_channels(&table, |hop| ((hop as u64 * 37 + seed * seed) % (3 + seed) % (2 + seed)) as u8);
        assert_eq!(mixed.is_deadlock_free(), drains(&mixed), "{seed}");
    }
    assert!(table_of("mesh:3x3").is_deadlock_free() && drains(&table_of("mesh:3x3")));
    assert!(!table_of("ring:5").is_deadlock_free() && !drains(&table_of("ring:5")));
}

#[test]
fn channels_are_few() {
    let check = |topology: &Topology, turns: usize, lash: usize| {
        let table = RoutingTable::shortest(topology).unwrap();
        for (way, most) in [(Channels::Turns, turns), (Channels::Lash, lash)] {
            let made = table.with_channels(topology, way).unwrap();
            assert!(drains(&made) && made.channels() <= most, "{topology} {way:?}: {}", made.channels());
            let pairs = (0..table.ranks()).flat_map(|a| (0..table.ranks()).map(move |b| (a, b)));
            pairs.for_each(|(a, b)| assert_eq!(made.path(a, b), table.path(a, b), "{topology}"));
            let routed = topology.clone().with_routes(made.clone()).unwrap();
            assert_eq!(RoutingTable::of(&routed), Ok(made), "{topology}");
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
        let table = RoutingTable::up_down(&topology).unwrap();
        assert!(topology.clone().with_routes(table.clone()).is_ok(), "{topology}");
        assert!(table.is_deadlock_free() && table.channels() == 1, "{topology}");
        let shortest = RoutingTable::shortest(&topology).unwrap();
        assert!(shortest.load(&topology) <= table.load(&topology), "{topology}");
    }
    let error = RoutingTable::up_down(&topology("uniring:1:4")).unwrap_err().to_string();
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
        let (first, spread) = (RoutingTable::of(&first).unwrap(), RoutingTable::shortest(&topology).unwrap());
        let pairs = (0..topology.ranks()).flat_map(|a| (0..topology.ranks()).map(move |b| (a, b)));
        for (source, target) in pairs {
            assert_eq!(spread.path(source, target).len(), first.path(source, target).len(), "{topology}");
        }
        assert!(topology.clone().with_routes(Arc::new(spread.clone())).is_ok());
        assert!(spread.load(&topology) <= first.load(&topology), "{topology}");
    }
}
