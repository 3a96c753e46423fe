//! Graphs that operators make, and networks with failed links.

use super::*;

fn ends(topology: &Topology) -> Vec<(NodeId, NodeId)> {
    topology.links().iter().map(|link| (link.source, link.target)).collect()
}

fn sorted(topology: &Topology) -> Vec<(NodeId, NodeId)> {
    let mut ends = ends(topology);
    ends.sort_unstable();
    ends
}

/// The spec as it is written, the topology's spec, ranks, links, diameter.
#[test]
fn operators_in_specs() {
    let check = |text: &str, spec: &str, ranks: usize, links: usize, diameter: usize| {
        let topology = topology(text);
        assert_eq!(topology.spec(), spec);
        assert_eq!(
            (topology.ranks(), topology.links().len(), topology.diameter()),
            (ranks, links, diameter),
            "{spec}"
        );
        assert_eq!(Topology::parse(spec).unwrap(), topology);
        let routed = Topology::parse(&format!("{text},routing=single-path")).unwrap();
        assert_eq!(routed.spec(), format!("{spec},routing=single-path"));
        for topology in [topology.with_links(Some(1e9), None).unwrap(), routed] {
            let json = serde_json::to_string(&topology).unwrap();
            assert!(json.len() < 200, "{json}");
            assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), topology);
        }
    };
    check("line(complete:3)", "line(complete:3)", 6, 12, 2);
    check(" Line( Line(complete:3) ) ", "line(line(complete:3))", 12, 24, 3);
    check("line(line(line(circulant:16:3,4)))", "line(line(line(circulant:16:3,4)))", 1024, 4096, 6);
    check("line-graph(petersen)", "line-graph(petersen)", 15, 60, 3);
    check("degree(circulant:16:3, 4,2)", "degree(circulant:16:3,4, 2)", 32, 256, 3);
    check("degree(complete:3,2)", "degree(complete:3, 2)", 6, 24, 2);
    check("power(complete:3,2)", "power(complete:3, 2)", 9, 36, 2);
    check("power(ring:4, 1)", "power(ring:4, 1)", 4, 8, 2);
    check(
        "product(circulant:5:1,2,ring:4,petersen)",
        "product(circulant:5:1,2, ring:4, petersen)",
        200,
        1800,
        5,
    );
    check(
        "power(product(uniring:1:4, uniring:1:8), 2)",
        "power(product(uniring:1:4, uniring:1:8), 2)",
        1024,
        4096,
        20,
    );
    check("transpose(kautz:2:2)", "transpose(kautz:2:2)", 12, 24, 3);
    check("transpose(switch:3)", "transpose(switch:3)", 3, 6, 2);
    check("bidirectional(kautz:2:2)", "bidirectional(kautz:2:2)", 12, 48, 3);
    check("without(torus:4x4,0-1,5 > 6)", "without(torus:4x4, 0-1, 5>6)", 16, 61, 4);
    check("without(without(torus:4x4, 0-1), 5>6)", "without(torus:4x4, 0-1, 5>6)", 16, 61, 4);
    check("without(circulant:16:3,4, 0-3,0-4)", "without(circulant:16:3,4, 0-3, 0-4)", 16, 60, 3);
    check("without(cayley:s3:213,132, 0-1)", "without(cayley:s3:213,132, 0-1)", 6, 10, 5);
    check("without(line(without(ring:4, 0>1)), 0>5)", "without(line(without(ring:4, 0>1)), 0>5)", 7, 11, 4);
    check("without(hammingmesh:2x2:2x2, 0-16)", "without(hammingmesh:2x2:2x2, 0-16)", 16, 94, 4);
}

#[test]
fn operators_are_the_graphs_that_they_say() {
    // The line graph of a line graph of a complete graph is a Kautz graph.
    assert_eq!(ends(&topology("line(complete:5)")), ends(&topology("kautz:4:1")));
    assert_eq!(ends(&topology("line(kautz:2:1)")), ends(&topology("kautz:2:2")));
    assert_eq!(ends(&topology("line(uniring:1:3)")), [(0, 1), (1, 2), (2, 0)]);
    assert_eq!(ends(&topology("line(uniring:2:2)")), ends(&topology("line(ring:2)")));
    // Products of rings are tori, link by link; of complete graphs, Hamming graphs.
    assert_eq!(ends(&topology("product(ring:3, ring:4, ring:5)")), ends(&topology("torus:3x4x5")));
    assert_eq!(ends(&topology("product(torus:3x4, ring:5)")), ends(&topology("torus:3x4x5")));
    assert_eq!(ends(&topology("power(complete:3, 2)")), ends(&topology("hyperx:3x3")));
    assert_eq!(ends(&topology("product(complete:2, complete:4)")), ends(&topology("hyperx:2x4")));
    // Copies of copies: ports come by port of the original, then by how many copies further they lead.
    assert_eq!(
        ends(&topology("degree(uniring:1:2, 2)")),
        [(0, 2), (0, 3), (1, 3), (1, 2), (2, 0), (2, 1), (3, 1), (3, 0)]
    );
    assert_eq!(ends(&topology("degree(ring:5, 1)")), ends(&topology("ring:5")));
    assert_eq!(sorted(&topology("degree(complete:2, 4)")).len(), 32);
    // Reversed twice, and a ring in both directions.
    assert_eq!(topology("transpose(transpose(de-bruijn:2:3))").links(), topology("de-bruijn:2:3").links());
    assert_eq!(ends(&topology("bidirectional(uniring:1:5)")), ends(&topology("ring:5")));
    let turned = topology("transpose(uniring:1:4)");
    assert_eq!(ends(&turned), [(1, 0), (2, 1), (3, 2), (0, 3)]);
    assert_eq!(
        (turned.port_link(0, 0), turned.port_link(1, 0), turned.port_link(1, 1)),
        (Some(3), Some(0), Some(0))
    );
    assert_eq!(turned.link_ports(), [1, 2, 3, 0].map(|rank| Some((rank, 0))));
    // Line graphs of cables: the cables of a star are all joined, those of a ring form a ring.
    assert_eq!(sorted(&topology("line-graph(complete-bipartite:1x3)")), sorted(&topology("complete:3")));
    assert_eq!(sorted(&topology("line-graph(ring:5)")).len(), 10);
    assert_eq!(sorted(&topology("line-graph(ring:2)")), [(0, 1), (0, 1), (1, 0), (1, 0)]);
    assert_eq!(topology("line-graph(complete:4)").diameter(), 2);
}

/// Links keep their bandwidths, capacities and latencies.
#[test]
fn links_keep_their_properties() {
    let ring = topology("ring:3").map_links(|id, link| {
        link.bandwidth = (id + 1) as f64;
        link.latency = id as f64;
        link.capacity = 2.0 + id as f64;
        link.extra_latency = 0.5 * id as f64;
    });
    let ring = ring.unwrap();
    let properties =
        |link: &Link| (link.bandwidth as usize, link.latency as usize, link.capacity, link.extra_latency);
    let check = |made: Topology, origin: &dyn Fn(LinkId, &Link) -> LinkId| {
        for (id, link) in made.links().iter().enumerate() {
            assert_eq!(properties(link), properties(&ring.links()[origin(id, link)]), "{made} link {id}");
        }
        let json = serde_json::to_string(&made).unwrap();
        assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), made);
    };
    check(ring.line().unwrap(), &|_, link| link.source);
    check(ring.transpose().unwrap(), &|id, _| id);
    check(ring.degree_expansion(2).unwrap(), &|id, _| id / 8 * 2 + id % 4 / 2);
    check(ring.power(2).unwrap(), &|id, link| match id % 4 {
        port @ (0 | 1) => link.source / 3 * 2 + port,
        port => link.source % 3 * 2 + port - 2,
    });
    check(ring.bidirectional().unwrap(), &|id, link| match id % 4 {
        port @ (0 | 1) => link.source * 2 + port,
        port => link.target * 2 + port - 2,
    });
    check(ring.without_directions(&[(0, 1)]).unwrap(), &|id, _| id + 1);
}

/// A network with failed links keeps the grid and the ports of the remaining links, and nothing else of its family.
#[test]
fn what_has_failed_is_gone() {
    for spec in [
        "torus:4x4",
        "torus:2x3",
        "mesh:3x3",
        "twisted-torus:4x2",
        "hyperx:3x3",
        "hammingmesh:2x2:2x2",
        "hypercube:3",
    ] {
        let whole = topology(spec);
        let first = whole.links()[whole.links().len() / 2];
        let Ok(left) = whole.without_links(&[(first.source, first.target)]) else { panic!("{spec}") };
        assert_eq!(left.dimensions(), whole.dimensions());
        assert!(!left.is_torus() && !left.has_cabled_ports() && Routes::new(&left).lattice().is_none());
        let gone = |link: &Link| {
            let ends = (link.source, link.target);
            ends == (first.source, first.target) || ends == (first.target, first.source)
        };
        let port =
            |topology: &Topology, rank, port| topology.port_link(rank, port).map(|id| topology.links()[id]);
        for rank in 0..whole.ranks() {
            for number in 0..2 * whole.dimensions().len() + 2 {
                let expected = port(&whole, rank, number).filter(|link| !gone(link));
                assert_eq!(port(&left, rank, number), expected, "{spec} rank {rank} port {number}");
            }
        }
        assert_eq!(left.links().len(), whole.links().iter().filter(|link| !gone(link)).count());
        let ports = left.link_ports();
        for (id, port) in ports.into_iter().enumerate() {
            assert!(
                port.is_none_or(|(rank, port)| left.port_link(rank, port) == Some(id)),
                "{spec} link {id}"
            );
        }
        assert!(left.clone().with_routing(Routing::DimensionOrdered).is_err());
    }
    let ordered = topology("torus:4x4,routing=dimension-ordered").without_links(&[(0, 1)]).unwrap();
    assert_eq!(ordered.routing(), Routing::Minimal);
    let single = topology("torus:4x4,routing=single-path").without_links(&[(0, 1)]).unwrap();
    assert_eq!(single.spec(), "without(torus:4x4, 0-1),routing=single-path");
    assert_eq!(single.without_links(&[]).unwrap(), single);
    // Two parallel links at once; the others keep their ports.
    assert!(topology("ring:2").without_links(&[(0, 1)]).is_err());
    let one_way = topology("torus:2x2").without_directions(&[(0, 1)]).unwrap();
    assert_eq!([0, 1, 2, 3].map(|port| one_way.port_link(0, port)), [Some(0), Some(1), None, None]);
    assert_eq!(one_way.links().len(), 14);
}

#[test]
fn operators_on_graphs() {
    let graph = Topology::from_links("mine", 10, 10, topology("petersen").links).unwrap();
    let check = |made: Topology, name: &str| {
        assert_eq!(made.spec(), format!("graph:{name}"));
        let json = serde_json::to_string(&made).unwrap();
        assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), made);
    };
    check(graph.line().unwrap(), "line-mine");
    check(graph.power(2).unwrap().transpose().unwrap(), "transpose-power-mine-2");
    check(
        Topology::product(&[&topology("circulant:5:1,2"), &graph]).unwrap(),
        "product-circulant-5-1-2-mine",
    );
    let failed = graph.without_links(&[(0, 7)]).unwrap().without_directions(&[(1, 5)]);
    check(failed.unwrap(), "without-without-mine-0-7-1-to-5");
    let grid = Topology::from_links("grid", 16, 16, topology("torus:4x4").links).unwrap();
    let grid = grid.with_dimensions(&[4, 4]).unwrap().without_links(&[(0, 1)]).unwrap();
    assert_eq!((grid.dimensions(), grid.port_link(0, 2), grid.port_to(0, 3)), (&[4, 4][..], None, Some(3)));
    check(grid, "without-grid-0-1");
}

#[test]
fn operators_say_what_is_wrong() {
    let check = |spec: &str, message: &str| {
        assert_eq!(Topology::parse(spec).unwrap_err().to_string(), message, "{spec}");
    };
    let cannot = |spec: &str, what: &str| format!("topology \"{spec}\" cannot be used: {what}");
    let example =
        |spec: &str, example: &str| format!("malformed topology {spec:?}; write for example {example}");
    for spec in ["line", "line()", "line:4", "line(", "line(ring:4", "line(ring:4)x", "line(ring:4, ring:3)"]
    {
        assert!(Topology::parse(spec).is_err(), "{spec}");
    }
    check("line(ring:4", &example("line(ring:4", "line(petersen)"));
    check("degree(ring:4)", &example("degree(ring:4)", "degree(ring:5, 2)"));
    check("degree(ring:4, two)", &example("degree(ring:4, two)", "degree(ring:5, 2)"));
    check("product(ring:4)", &example("product(ring:4)", "product(ring:4, complete:3)"));
    check("without(ring:4)", &example("without(ring:4)", "without(torus:4x4, 0-1, 5>6)"));
    check("without(ring:4, 0-1, x)", &example("without(ring:4, 0-1, x)", "without(torus:4x4, 0-1, 5>6)"));
    check("without(0-1)", &example("without(0-1)", "without(torus:4x4, 0-1, 5>6)"));
    check("petersen(ring:4)", &example("petersen(ring:4)", "petersen"));
    check(
        "line(ring:4,routing=single-path)",
        "topology \"ring:4,routing=single-path\" cannot be built: routing and rates are those of the whole; write them at the end; write \
         for example ring:8",
    );
    let unknown = Topology::parse("lines(ring:4)").unwrap_err().to_string();
    assert!(unknown.contains("; did you mean line? "), "{unknown}");
    let unknown = Topology::parse("line(rings:4)").unwrap_err().to_string();
    assert!(
        unknown.starts_with("unknown topology \"rings:4\"") && unknown.contains("; did you mean ring? "),
        "{unknown}"
    );
    let no_link = "no link joins 0 and 5; name two nodes that a cable joins";
    check("without(torus:4x4, 0-5)", &cannot("without(torus:4x4, 0-5)", no_link));
    let no_link = "no link leads from 1 to 0; name a link's source and target";
    check("without(uniring:1:4, 1>0)", &cannot("without(uniring:1:4, 1>0)", no_link));
    let cut = "no path leads from rank 0 to rank 1, and every rank must reach all";
    check("without(ring:4, 0-1, 0-3)", &cannot("without(ring:4, 0-1, 0-3)", cut));
    check(
        "without(ring:4, 0-1, 0-99999999999999999999)",
        &cannot(
            "without(ring:4, 0-1, 0-18446744073709551615)",
            "no link joins 0 and 18446744073709551615; name two nodes that a cable joins",
        ),
    );
    let switches = "switch:4 has switches, which are not ranks; use a graph without switches";
    for (text, spec) in
        [("line(switch:4)", "line(switch:4)"), ("product(ring:2, switch:4)", "product(ring:2, switch:4)")]
    {
        check(text, &cannot(spec, switches));
    }
    check(
        "line-graph(uniring:1:3)",
        &cannot(
            "line-graph(uniring:1:3)",
            "line-graph needs cables, but the link from rank 0 to rank 1 has no link back; use line(...)",
        ),
    );
    assert!(matches!(Topology::parse("line(ring:1)"), Err(TopologyError::Zero(_))));
    assert!(matches!(Topology::parse("degree(ring:4, 0)"), Err(TopologyError::Zero(_))));
    for spec in [
        "degree(ring:4, 9999999999999)",
        "power(ring:2, 21)",
        "power(ring:1, 99999999999999999999)",
        "power(ring:1024, 3)",
    ] {
        assert!(matches!(Topology::parse(spec), Err(TopologyError::TooLarge(_))), "{spec}");
    }
    for spec in ["degree(ring:4, 4000)", "line(complete:1000)", "line-graph(complete:600)"] {
        assert!(matches!(Topology::parse(spec), Err(TopologyError::TooManyLinks(_))), "{spec}");
    }
    let deep = |levels: usize| format!("{}ring:3{}", "transpose(".repeat(levels), ")".repeat(levels));
    assert!(Topology::parse(&deep(32)).is_ok());
    assert!(matches!(Topology::parse(&deep(33)), Err(TopologyError::Sizes { .. })));
    assert!(matches!(Topology::parse(&deep(1_000_000)), Err(TopologyError::Sizes { .. })));
    let wide = format!("product(ring:1{})", ", ring:1".repeat(1000));
    assert!(matches!(Topology::parse(&wide), Err(TopologyError::TooLarge(_))));
}

#[test]
fn digests_tell_networks_apart() {
    let digest = |spec: &str| topology(spec).digest();
    // A digest is the same on every machine and in every version.
    assert_eq!(digest("ring:4"), "a3be653047f2190adc553060fc1873e9");
    assert_eq!(digest("ring:8"), digest("torus:8"));
    assert_eq!(digest("kautz:4:1"), digest("line(complete:5)"));
    let base = topology("circulant:8:1,3");
    let other = [
        topology("circulant:8:3,1"),
        topology("circulant:8:1,3,routing=single-path"),
        base.clone().with_links(Some(1e9), None).unwrap(),
        base.clone().with_links(None, Some(0.0)).unwrap(),
        base.clone().with_processing(1e-9).unwrap(),
        base.clone().map_links(|id, link| link.capacity = if id == 31 { 2.0 } else { 1.0 }).unwrap(),
        Topology::from_links("g", 8, 9, base.links.clone()).unwrap(),
    ];
    let mut digests: Vec<String> = other.iter().chain([&base]).map(Topology::digest).collect();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), other.len() + 1);
    assert_eq!(Topology::from_links("g", 8, 8, base.links.clone()).unwrap().digest(), base.digest());
}

#[test]
fn operands_are_found_in_specs() {
    let check = |spec: &str, operator: &str, operands: &[&str], parameters: &[&str]| {
        assert_eq!(
            super::super::operands(spec),
            Some((operator, operands.to_vec(), parameters.to_vec())),
            "{spec}"
        );
    };
    check(
        "product(circulant:5:1,2, line(ring:4)),routing=single-path",
        "product",
        &["circulant:5:1,2", "line(ring:4)"],
        &[],
    );
    check("degree(circulant:5:1,2, 3)", "degree", &["circulant:5:1,2"], &["3"]);
    check("without(ring:4, 0-1, 2>3)", "without", &["ring:4"], &["0-1", "2>3"]);
    for spec in ["ring:4", "circulant:5:1,2", "petersen", "graph:mine", "lines(ring:4)", "line(ring:4"] {
        assert_eq!(super::super::operands(spec), None, "{spec}");
    }
}
