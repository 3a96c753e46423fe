//! Routes as tables: which are taken, and which are refused.

use super::*;

/// The routes of the topology of a spec as a table.
fn table_of(spec: &str) -> RoutingTable {
    RoutingTable::from_topology(&topology(&format!("{spec},routing=single-path"))).unwrap()
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

    // Routes between ranks and switches are not in the table.
    let switch = topology("switch:4").with_routes(table_of("switch:4")).unwrap();
    assert_eq!(Routes::new(&switch).route(4, 2).unwrap().hops, 1);
    assert_eq!(Routes::new(&switch).route(1, 2).unwrap().hops, 2);
    let single = TopologyError::Route { spec: "ring:4".into(), from: 2, to: 0, fault: RouteFault::Split };
    assert_eq!(RoutingTable::from_topology(&ring), Err(single));
    assert_eq!(RoutingTable::from_topology(&routed), Ok(table));
    assert_eq!(RoutingTable::from_topology(&topology("ring:1")).unwrap().channels(), 1);
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
        let (table, mut hops) = (table_of(spec), 0);
        table.pairs().for_each(|(source, target)| hops += table.path(source, target).len());
        let other = table.on_channels((0..hops).map(|hop| hop as u8 % 3).collect());
        let other = plain.clone().with_routes(other).unwrap();
        let json = serde_json::to_string(&other).unwrap();
        assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), other, "{spec}");
        let digests = [&plain, &routed, &other].map(Topology::digest);
        assert!((0..3).all(|at| digests[at] != digests[(at + 1) % 3]), "{spec}");
    }
    // Another path of the same length makes another table.
    let ring = topology("ring:4");
    let back = [0, 3].map(|node| ring.port_link(node, 1).unwrap() as u32);
    let table = with_path(&table_of("ring:4"), (0, 2), &back);
    assert_ne!(table, table_of("ring:4"));
    let [one, other] =
        [table_of("ring:4"), table].map(|table| ring.clone().with_routes(table).unwrap().digest());
    assert_ne!(one, other);

    let graph = topology("generalized-kautz:2:9");
    let routed = graph.clone().with_routes(table_of("generalized-kautz:2:9")).unwrap();
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
