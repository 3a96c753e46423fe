use proptest::prelude::*;

use super::*;

mod facts;
mod families;
mod graphs;
mod induced;
mod listed;
mod operators;
mod options;
mod placement;
mod policies;
mod tables;

fn topology(spec: &str) -> Topology {
    Topology::parse(spec).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

#[test]
fn specs_are_read_and_written() {
    let check = |spec: &str, ranks: usize, nodes: usize, dimensions: &[usize], links: usize| {
        let topology = topology(spec);
        assert_eq!(topology.to_string(), spec);
        assert_eq!(
            (topology.ranks(), topology.nodes(), topology.links().len()),
            (ranks, nodes, links),
            "{spec}"
        );
        assert_eq!(topology.dimensions(), dimensions, "{spec}");
        let json = serde_json::to_string(&topology).unwrap();
        assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), topology, "{spec}");
    };
    check("ring:1", 1, 1, &[1], 0);
    check("ring:2", 2, 2, &[2], 4);
    check("ring:8", 8, 8, &[8], 16);
    check("torus:8", 8, 8, &[8], 16);
    check("torus:4x4x2", 32, 32, &[4, 4, 2], 192);
    check("torus:1x3x1", 3, 3, &[1, 3, 1], 6);
    check("switch:1", 1, 2, &[], 2);
    check("switch:16", 16, 17, &[], 32);
    check("hosts:2x4", 8, 11, &[], 20);
    check("hosts:1x3", 3, 5, &[], 8);
    check("hosts:3x1", 3, 7, &[], 12);
    check("hosts:1,2,3", 6, 10, &[], 18);
    check("mesh:3", 3, 3, &[3], 4);
    check("mesh:1x1", 1, 1, &[1, 1], 0);
    check("mesh:4x3x2", 24, 24, &[4, 3, 2], 2 * (3 * 6 + 2 * 8 + 12));
    check("twisted-torus:8x4", 32, 32, &[8, 4], 128);
    check("twisted-torus:2x4", 8, 8, &[2, 4], 32);
    check("hyperx:5", 5, 5, &[5], 20);
    check("hyperx:1x4x2", 8, 8, &[1, 4, 2], 32);
    check("hammingmesh:2x2:3x4", 48, 48 + 6 + 8, &[6, 8], 4 * 48 + 2 * (6 * 4 + 8 * 3));
    check("hammingmesh:3x2:1x2", 12, 12 + 3, &[3, 4], 2 * (4 * 2 + 3 * 2) + 2 * 3 * 4);
    check("hammingmesh:4x2:1x1", 8, 8, &[4, 2], 20);
    check("hammingmesh:1x1:2x2", 4, 8, &[2, 2], 32);
    check("hammingmesh:2x2:32x32", 4096, 4096 + 128, &[64, 64], 4 * 4096 + 2 * 64 * 64);
    check("hypercube:1", 2, 2, &[2], 2);
    check("hypercube:4", 16, 16, &[2, 2, 2, 2], 64);
    check("twisted-hypercube:3", 8, 8, &[2, 2, 2], 24);
    check("fattree:5", 5, 6, &[], 10);
    check("fattree:4x8", 32, 32 + 4 + 1, &[], 2 * 36);
    check("fattree:2x4x8:2", 64, 64 + 8 + 2 + 1, &[], 2 * 74);
    check("fattree:2x4x8:1x2.5", 64, 64 + 8 + 2 + 1, &[], 2 * 74);
    check("torus:1024x1024", 1 << 20, 1 << 20, &[1024, 1024], 4 << 20);
    assert_eq!(" Ring:8 ".parse::<Topology>().unwrap(), topology("ring:8"));
    assert_eq!(topology("fattree:2x4x8:1x1").spec(), "fattree:2x4x8");
    assert_eq!(topology("fattree:2x4x8:2.0x2").spec(), "fattree:2x4x8:2");
    assert_ne!(topology("torus:8"), topology("ring:8"));
}

#[test]
fn examples_are_specs() {
    let examples = families().map(|f| f.example).chain(operators().map(|o| o.example)).chain(named_graphs());
    for example in examples {
        assert_eq!(topology(example).spec(), example);
    }
    for family in families() {
        assert_eq!(family.example.split(':').next(), Some(family.name));
        assert!(!family.summary.is_empty() && !family.source.is_empty(), "{family:?}");
    }
}

#[test]
fn what_is_wrong_is_said_with_what_is_right() {
    let check = |spec: &str, message: &str| {
        assert_eq!(Topology::parse(spec).unwrap_err().to_string(), message, "{spec}");
    };
    let examples: Vec<&str> = families().map(|family| family.example).collect();
    let unknown = format!(
        "{}, a named graph such as petersen, or an operator such as line(petersen)",
        examples.join(", ")
    );
    assert!(unknown.starts_with("ring:8, torus:4x4x2, mesh:4x4, "), "{unknown}");
    check("rings:8", &format!("unknown topology \"rings:8\"; did you mean ring? Expected {unknown}"));
    check("tours:4x4", &format!("unknown topology \"tours:4x4\"; did you mean torus? Expected {unknown}"));
    check("dragonfly:9", &format!("unknown topology \"dragonfly:9\"; expected {unknown}"));
    check("", &format!("unknown topology \"\"; expected {unknown}"));
    check("ring", "malformed topology \"ring\"; write for example ring:8");
    check("ring:4x4", "malformed topology \"ring:4x4\"; write for example ring:8");
    check("ring:-4", "malformed topology \"ring:-4\"; write for example ring:8");
    check("ring:+4", "malformed topology \"ring:+4\"; write for example ring:8");
    check("torus:4x", "malformed topology \"torus:4x\"; write for example torus:4x4x2");
    check("switch:many", "malformed topology \"switch:many\"; write for example switch:16");
    check("torus:4x0", "topology \"torus:4x0\" has no ranks; write sizes of 1 or more");
    check("hosts:8", "malformed topology \"hosts:8\"; write for example hosts:2x4");
    check("host:2x4", &format!("unknown topology \"host:2x4\"; did you mean hosts? Expected {unknown}"));
    for spec in ["hosts:2x3,1", "hosts:", "hosts:2x2x2", "hosts:1:2"] {
        check(spec, &format!("malformed topology {spec:?}; write for example hosts:2x4"));
    }
    check("hosts:1,0", "topology \"hosts:1,0\" has no ranks; write sizes of 1 or more");
    check("hosts:2x0", "topology \"hosts:2x0\" has no ranks; write sizes of 1 or more");
    check("mesh:", "malformed topology \"mesh:\"; write for example mesh:4x4");
    check("twisted-torus:8", "malformed topology \"twisted-torus:8\"; write for example twisted-torus:8x4");
    check("hyperx:4x4:2", "malformed topology \"hyperx:4x4:2\"; write for example hyperx:4x4");
    let boards = "write for example hammingmesh:2x2:4x4";
    for spec in ["hammingmesh:2x2", "hammingmesh:2x2:4", "hammingmesh:2x2x2:4x4", "hammingmesh:2x2:4x4:4x4"] {
        check(spec, &format!("malformed topology \"{spec}\"; {boards}"));
    }
    check("hypermesh:4", &format!("unknown topology \"hypermesh:4\"; expected {unknown}"));
    check(
        "hamming-mesh:2x2:4x4",
        &format!("unknown topology \"hamming-mesh:2x2:4x4\"; did you mean hammingmesh? Expected {unknown}"),
    );
    check(
        "fat-tree:4x8",
        &format!("unknown topology \"fat-tree:4x8\"; did you mean fattree? Expected {unknown}"),
    );
    for ratios in ["", "x", "-2", "two", "1e3", "inf", "."] {
        let spec = format!("fattree:4x8:{ratios}");
        check(&spec, &format!("malformed topology \"{spec}\"; write for example fattree:4x8"));
    }
    let cannot = "cannot be built:";
    for spec in ["twisted-torus:4x4", "twisted-torus:2x1", "twisted-torus:3x9"] {
        let what = "one dimension must be twice as long as the other one, and that 2 or more";
        let example = "write for example twisted-torus:8x4";
        check(spec, &format!("topology \"{spec}\" {cannot} {what}; {example}"));
    }
    let what = "bandwidth up is at most that from below, and at least a millionth of it";
    let example = "write for example fattree:4x8";
    for spec in ["fattree:4x8:0.5", "fattree:4x8:0", "fattree:4x8:1000001"] {
        check(spec, &format!("topology \"{spec}\" {cannot} {what}; {example}"));
    }
    let what = "there is one ratio for all levels of switches below the highest, or one for each";
    let spec = "fattree:2x4x8:1x2x3";
    check(spec, &format!("topology \"{spec}\" {cannot} {what}; {example}"));
    check(
        "hypercube:0",
        "topology \"hypercube:0\" cannot be built: it needs a dimension; write for example hypercube:4",
    );
    let what = "it needs 3 dimensions or more; write for example twisted-hypercube:3";
    check("twisted-hypercube:2", &format!("topology \"twisted-hypercube:2\" {cannot} {what}"));
    let many = "has too many links; at most 16777216 can be described, so write smaller sizes";
    for spec in
        ["hyperx:1048576", "hyperx:1024x1024", "hypercube:20", "torus:2x2x2x2x2x2x2x2x2x2x2x2x2x2x2x2x2x2x2"]
    {
        check(spec, &format!("topology \"{spec}\" {many}"));
    }
    check(
        "ring:8,routing=fast",
        "unknown routing \"fast\"; expected one of: minimal, dimension-ordered, single-path",
    );
    check("ring:8,routing=singlepath", "unknown routing \"singlepath\"; did you mean single-path? Expected one of: minimal, dimension-ordered, single-path");
    check(
        "ring:8,single-path",
        "malformed topology \"ring:8,single-path\"; write for example torus:4x4,routing=single-path",
    );
    let files = format!("names a file, which has to be read first; write {unknown} here");
    for file in ["nets/mine", "mine.graphml", "./a.JSON"] {
        check(file, &format!("{file:?} {files}"));
    }
    check("graph:mine", "\"graph:mine\" is only the name of a graph, and the links are missing; give the path of its file, such as net.graphml, or the topology itself");
    let most = "is too large; write sizes whose product is at most 1048576";
    check("ring:1048577", &format!("topology \"ring:1048577\" {most}"));
    check("switch:1048577", &format!("topology \"switch:1048577\" {most}"));
    check("hypercube:21", &format!("topology \"hypercube:21\" {most}"));
    check(
        "hypercube:99999999999999999999999",
        &format!("topology \"hypercube:18446744073709551615\" {most}"),
    );
    check("hammingmesh:1024x1024:2x1", &format!("topology \"hammingmesh:1024x1024:2x1\" {most}"));
    check("fattree:1025x1024", &format!("topology \"fattree:1025x1024\" {most}"));
    check("torus:4294967296x4294967296", &format!("topology \"torus:4294967296x4294967296\" {most}"));
    assert!(matches!(Topology::torus(&[]), Err(TopologyError::Malformed { .. })));
    assert!(matches!(Topology::parse("ring:99999999999999999999999"), Err(TopologyError::TooLarge(_))));
}

#[test]
fn links_take_sensible_properties_only() {
    let ring = topology("ring:3").with_links(Some(50e9), None).unwrap();
    assert!(ring.links().iter().all(|l| l.bandwidth == 50e9 && l.latency == DEFAULT_LATENCY));
    let ring = ring.with_links(None, Some(0.0)).unwrap();
    assert!(ring.links().iter().all(|l| l.bandwidth == 50e9 && l.latency == 0.0));
    let json = serde_json::to_string(&ring).unwrap();
    assert_eq!(json, r#"{"spec":"ring:3","bandwidth":50000000000.0,"latency":0.0}"#);
    assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), ring);
    let plain: Topology = serde_json::from_str(r#"{"spec":"ring:3"}"#).unwrap();
    assert_eq!(plain, topology("ring:3"));
    assert!(serde_json::from_str::<Topology>(&json.replace("0.0,", "0.0,\"bandwidth\":1,")).is_err());
    assert!(serde_json::from_str::<Topology>(&json.replace("50000000000.0", "-5.0")).is_err());
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(
            matches!(ring.clone().with_links(Some(bad), None), Err(TopologyError::Bandwidth(_))),
            "{bad}"
        );
    }
    assert!(topology("ring:1").with_links(Some(0.0), None).is_err(), "though it has no links");
    for bad in [-1e-9, f64::NAN, f64::INFINITY] {
        assert!(matches!(ring.clone().with_links(None, Some(bad)), Err(TopologyError::Latency(_))), "{bad}");
    }
    // If one link differs, all are listed.
    let ring = ring.map_links(|id, link| link.latency = id as f64).unwrap();
    let json = serde_json::to_string(&ring).unwrap();
    assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), ring);
    for (from, to) in [("\"target\":1", "\"target\":2"), ("50000000000.0", "-5.0"), ("ring:3", "ring:4")] {
        assert!(json.contains(from), "{json}");
        assert!(serde_json::from_str::<Topology>(&json.replacen(from, to, 1)).is_err(), "{from} → {to}");
    }
}

/// The ranks of a host share its memory and its cable. Setting a property of all links keeps the difference between
/// these.
#[test]
fn hosts_have_fast_memory_and_slow_cables() {
    let check = |topology: &Topology, from: Rank, to: Rank, hops: usize, bandwidth: f64, latency: Seconds| {
        let route = Routes::new(topology).route(from, to).unwrap();
        let ways = route.shares.iter().map(|(link, _)| topology.links()[*link].bytes_per_second());
        assert_eq!((route.hops, ways.fold(f64::MAX, f64::min)), (hops, bandwidth), "{topology} {from}→{to}");
        assert!((route.latency - latency).abs() < 1e-15, "{topology} {from}→{to}: {}", route.latency);
    };
    let unequal = topology("hosts:2,1,3");
    assert_eq!((unequal.per_host(), unequal.hosts_of_ranks()), (1, vec![0, 0, 1, 2, 2, 2]));
    check(&unequal, 0, 1, 2, MEMORY_CAPACITY * DEFAULT_BANDWIDTH, 2.0 * MEMORY_LATENCY);
    check(&unequal, 1, 2, 4, DEFAULT_BANDWIDTH, 2.0 * MEMORY_LATENCY + 2.0 * DEFAULT_LATENCY);
    assert_eq!(topology("hosts:3, 3"), topology("hosts:2x3"));
    assert_eq!(topology("switch:2").hosts_of_ranks(), [0, 1]);
    let hosts = topology("hosts:2x3");
    assert_eq!((hosts.per_host(), topology("switch:6").per_host(), topology("ring:6").per_host()), (3, 1, 1));
    check(&hosts, 0, 2, 2, MEMORY_CAPACITY * DEFAULT_BANDWIDTH, 2.0 * MEMORY_LATENCY);
    check(&hosts, 2, 3, 4, DEFAULT_BANDWIDTH, 2.0 * MEMORY_LATENCY + 2.0 * DEFAULT_LATENCY);
    let hosts = hosts.with_links(Some(1e9), Some(0.0)).unwrap().with_hosts(Some(8.0), Some(3e-6)).unwrap();
    check(&hosts, 3, 4, 2, 8e9, 0.0);
    check(&hosts, 4, 1, 4, 1e9, 6e-6);
    let json = serde_json::to_string(&hosts).unwrap();
    assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), hosts);
    assert!(serde_json::from_str::<Topology>(&json.replacen("8.0", "0.0", 1)).is_err());
    assert!(matches!(hosts.clone().with_hosts(Some(-1.0), None), Err(TopologyError::Capacity(_))));
    assert!(matches!(hosts.with_hosts(None, Some(-1.0)), Err(TopologyError::Latency(_))));
    // `with_hosts` changes nothing on other families.
    let switch = topology("switch:4");
    assert_eq!(switch.clone().with_hosts(Some(8.0), Some(3e-6)).unwrap(), switch);
}

/// The processing time of nodes is added to the latency of links once, and stays when the latency of all links is set.
#[test]
fn processing_is_part_of_a_hop() {
    let torus =
        topology("torus:4x4").with_links(None, Some(100e-9)).unwrap().with_processing(300e-9).unwrap();
    assert!(torus.links().iter().all(|link| (link.latency, link.extra_latency) == (100e-9, 300e-9)));
    let route = Routes::new(&torus).route(0, 5).unwrap();
    assert!((route.latency - 800e-9).abs() < 1e-18 && (route.extra_latency - 600e-9).abs() < 1e-18);
    let torus = torus.with_links(None, Some(1e-6)).unwrap();
    assert!(torus.links().iter().all(|link| (link.seconds() - 1.3e-6).abs() < 1e-18));
    assert!(matches!(torus.with_processing(f64::NAN), Err(TopologyError::Latency(_))));
}

#[test]
fn ports_lead_to_neighbours() {
    let check = |spec: &str, rank: Rank, neighbours: &[Option<NodeId>]| {
        let topology = topology(spec);
        for (port, &neighbour) in neighbours.iter().enumerate() {
            let link = topology.port_link(rank, port);
            let ends = link.map(|l| (topology.links()[l].source, topology.links()[l].target));
            assert_eq!(ends, neighbour.map(|n| (rank, n)), "{spec} rank {rank} port {port}");
        }
        for other in 0..topology.ranks() {
            let first = neighbours.iter().position(|neighbour| *neighbour == Some(other));
            assert_eq!(topology.port_to(rank, other), first, "{spec} rank {rank} to {other}");
        }
    };
    check("ring:5", 0, &[Some(1), Some(4), None]);
    check("ring:5", 4, &[Some(0), Some(3), None]);
    check("ring:2", 1, &[Some(0), Some(0), None]);
    check("ring:1", 0, &[None, None]);
    check("ring:5", 5, &[None]);
    check("torus:2x3", 4, &[Some(1), Some(1), Some(5), Some(3), None]);
    check("torus:3x1x4", 0, &[Some(4), Some(8), None, None, Some(1), Some(3), None]);
    check("torus:3x4x5", 59, &[Some(19), Some(39), Some(44), Some(54), Some(55), Some(58)]);
    check("switch:4", 2, &[Some(4), Some(4), Some(4)]);
    check("switch:4", 4, &[None]);
    check("hosts:2x3", 4, &[Some(7), Some(7), Some(7)]);
    check("fattree:2x3", 4, &[Some(7), Some(7), Some(7)]);
    check("mesh:2x3", 4, &[None, Some(1), Some(5), Some(3), None]);
    check("mesh:2x3", 0, &[Some(3), None, Some(1), None]);
    check("twisted-torus:2x4", 5, &[Some(3), Some(1), Some(6), Some(4), None]);
    check("twisted-torus:4x2", 0, &[Some(2), Some(6), Some(1), Some(5), None]);
    check("hyperx:2x4", 5, &[Some(1), Some(1), Some(6), Some(4), None]);
    check("hyperx:1x3", 0, &[None, None, Some(1), Some(2), None]);
    check("hypercube:3", 5, &[Some(1), Some(1), Some(7), Some(7), Some(4), Some(4), None]);
    check("twisted-hypercube:3", 2, &[Some(6), Some(6), Some(0), Some(0), Some(1), Some(1), None]);
    check("twisted-hypercube:3", 6, &[Some(2), Some(2), Some(4), Some(4), Some(7), Some(7), None]);
    check("hammingmesh:2x2:1x2", 5, &[None, Some(1), Some(9), Some(4), None]);
    check("hammingmesh:1x2:2x1", 1, &[Some(5), Some(5), None, Some(0), None]);
}

#[test]
fn parallel_links_have_a_port_each() {
    let ring = topology("ring:2");
    assert_eq!(ring.port_link(1, 0), Some(2));
    assert_eq!(ring.port_link(1, 1), Some(3));
    let boards = topology("hammingmesh:1x1:2x2");
    assert_eq!([0, 1, 2, 3].map(|port| boards.port_link(2, port)), [8, 9, 10, 11].map(Some));
    let graph = Topology::from_links("g", 2, 2, topology("ring:2").links).unwrap();
    assert_eq!([0, 1, 2, 3].map(|port| graph.port_link(1, port)), [2, 3, 2, 3].map(Some));
}

#[test]
fn coordinates_count_the_last_dimension_fastest() {
    let torus = topology("torus:3x1x4");
    assert_eq!(torus.coordinates(6), [1, 0, 2]);
    for rank in 0..torus.ranks() {
        assert_eq!(torus.rank_at(&torus.coordinates(rank)), Some(rank));
    }
    assert_eq!(torus.rank_at(&[4, 1, 6]), Some(6));
    assert_eq!(torus.rank_at(&[1]), None);
    assert_eq!(topology("switch:4").rank_at(&[]), None);
    assert!(topology("switch:4").coordinates(1).is_empty());
}

/// `shares` are (source, target, share).
#[test]
fn routes_are_split_over_all_shortest_paths() {
    let check = |spec: &str, from: NodeId, to: NodeId, hops: usize, shares: &[(NodeId, NodeId, f64)]| {
        let topology = topology(spec);
        let route = Routes::new(&topology).route(from, to).unwrap();
        let ends = |l: LinkId| (topology.links()[l].source, topology.links()[l].target);
        let found: Vec<_> = route.shares.iter().map(|&(l, s)| (ends(l).0, ends(l).1, s)).collect();
        assert_eq!(route.hops, hops, "{spec} {from}→{to}");
        assert_eq!(found, shares, "{spec} {from}→{to}");
        assert!((route.latency - hops as f64 * DEFAULT_LATENCY).abs() < 1e-18, "{spec} {from}→{to}");
    };
    check("ring:5", 3, 3, 0, &[]);
    check("ring:5", 0, 1, 1, &[(0, 1, 1.0)]);
    check("ring:5", 0, 3, 2, &[(0, 4, 1.0), (4, 3, 1.0)]);
    check("ring:4", 0, 2, 2, &[(0, 1, 0.5), (0, 3, 0.5), (1, 2, 0.5), (3, 2, 0.5)]);
    check("ring:2", 0, 1, 1, &[(0, 1, 0.5), (0, 1, 0.5)]);
    check("torus:3x3", 0, 4, 2, &[(0, 3, 0.5), (0, 1, 0.5), (3, 4, 0.5), (1, 4, 0.5)]);
    // Two links down times one across, in two orders: all paths weigh the same.
    let quarter = 0.25;
    let diagonal =
        [(0, 3, quarter), (0, 3, quarter), (0, 1, 0.5), (3, 4, 0.5), (1, 4, quarter), (1, 4, quarter)];
    check("torus:2x3", 0, 4, 2, &diagonal);
    check("switch:4", 1, 3, 2, &[(1, 4, 1.0), (4, 3, 1.0)]);
}

#[test]
fn paths_are_weighed_by_number_not_by_branch() {
    // From corner to (1, 2): three shortest paths, two of which start along the longer side.
    let torus = topology("torus:5x5");
    let route = Routes::new(&torus).route(0, 7).unwrap();
    let first: Vec<f64> = route.shares[..2].iter().map(|s| s.1).collect();
    assert!((first[0] - 1.0 / 3.0).abs() < 1e-15 && (first[1] - 2.0 / 3.0).abs() < 1e-15, "{first:?}");
}

#[test]
fn the_slowest_of_the_shortest_paths_sets_the_latency() {
    let mut ring = topology("ring:4");
    ring.links[6].latency = 3e-6; // 3 → 0, on one of the two ways from 2 to 0
    let route = Routes::new(&ring).route(2, 0).unwrap();
    assert_eq!((route.hops, route.latency), (2, DEFAULT_LATENCY + 3e-6));
}

#[test]
fn what_cannot_be_reached_is_named() {
    let ring = topology("ring:4");
    let error = Routes::new(&ring).route(0, 4).unwrap_err();
    assert_eq!(error.to_string(), "node 4 cannot be reached from node 0 on ring:4, which has 4 nodes");
    let mut cut = topology("ring:3");
    cut.links.retain(|l| l.target != 2);
    let mut routes = Routes::new(&cut);
    assert!(routes.route(0, 2).is_err());
    assert_eq!(routes.route(2, 0).unwrap().hops, 1);
}

fn seeded() -> ProptestConfig {
    let rng_seed = proptest::test_runner::RngSeed::Fixed(1);
    ProptestConfig { rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(seeded())]

    /// Whatever routes were requested before, a route is the one that a fresh search finds. Its hops are the torus
    /// distance, and what enters a node leaves it.
    #[test]
    fn routes_conserve_bytes(
        sizes in prop::collection::vec(1usize..6, 1..4),
        pairs in prop::collection::vec((0usize..125, 0usize..125), 1..20),
    ) {
        let torus = Topology::torus(&sizes).unwrap();
        let mut routes = Routes::new(&torus);
        for (from, to) in pairs {
            let (from, to) = (from % torus.ranks(), to % torus.ranks());
            let route = routes.route(from, to).unwrap();
            prop_assert_eq!(&*route, &*Routes::new(&torus).route(from, to).unwrap());
            let (a, b) = (torus.coordinates(from), torus.coordinates(to));
            let distance: usize = sizes.iter().zip(a.iter().zip(&b)).map(|(n, (x, y))| {
                x.abs_diff(*y).min(n - x.abs_diff(*y))
            }).sum();
            prop_assert_eq!(route.hops, distance);
            let mut surplus = vec![0.0; torus.nodes()];
            for &(link, share) in &route.shares {
                surplus[torus.links()[link].source] -= share;
                surplus[torus.links()[link].target] += share;
            }
            if from != to {
                surplus[from] += 1.0;
                surplus[to] -= 1.0;
            }
            prop_assert!(surplus.iter().all(|s| s.abs() < 1e-12), "{:?}", surplus);
        }
    }
}
