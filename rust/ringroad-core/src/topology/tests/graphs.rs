//! Graphs from lists of links.

use super::*;

/// Two ranks at each of two switches, with a cable of ten times the bandwidth between these.
fn dumbbell() -> Topology {
    let cable = |a, b| [Link::between(a, b), Link::between(b, a)];
    let mut links: Vec<Link> =
        [(0, 4), (1, 4), (2, 5), (3, 5)].into_iter().flat_map(|(a, b)| cable(a, b)).collect();
    links.extend(cable(4, 5).map(|link| Link { capacity: 10.0, extra_latency: 2e-6, ..link }));
    Topology::from_links("dumbbell", 4, 6, links).unwrap()
}

#[test]
fn graphs_are_topologies() {
    let graph = dumbbell();
    assert_eq!((graph.ranks(), graph.nodes(), graph.diameter(), graph.max_degree()), (4, 6, 3, 1));
    assert_eq!((graph.spec().as_str(), graph.dimensions()), ("graph:dumbbell", &[][..]));
    let route = Routes::new(&graph).route(0, 3).unwrap();
    assert_eq!(route.hops, 3);
    assert!((route.latency - (3.0 * DEFAULT_LATENCY + 2e-6)).abs() < 1e-15);
    assert!(matches!(Topology::parse(&graph.spec()), Err(TopologyError::NeedsLinks(_))));
    let graph = graph.with_routing(Routing::SinglePath).unwrap().with_links(Some(1e9), None).unwrap();
    let json = serde_json::to_string(&graph).unwrap();
    assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), graph);
    insta::assert_snapshot!(serde_json::to_string(&dumbbell()).unwrap());
}

/// A bandwidth for all links may be given once, and without `nodes` all nodes are ranks.
#[test]
fn graphs_are_written_by_hand() {
    let check = |json: &str, expected: Result<usize, &str>| {
        let read = serde_json::from_str::<Topology>(json).map_err(|error| error.to_string());
        assert_eq!(read.map(|topology| topology.links().len()), expected.map_err(str::to_owned), "{json}");
    };
    let link =
        |a: usize, b: usize| format!(r#"{{"source":{a},"target":{b},"bandwidth":1e9,"latency":1e-6}}"#);
    let links = [link(0, 1), link(1, 2), link(2, 0)].join(",");
    check(&format!(r#"{{"spec":"graph:one-way","ranks":3,"links":[{links}]}}"#), Ok(3));
    check(
        &format!(
            r#"{{"spec":"graph:one-way,routing=single-path","ranks":3,"latency":2e-6,"links":[{links}]}}"#
        ),
        Ok(3),
    );
    let only = "is only the name of a graph, and the links are missing; give the path of its file, such as net.graphml, \
                or the topology itself";
    check(
        r#"{"spec":"ring:3","ranks":3}"#,
        Err("ranks, nodes and dimensions follow from \"ring:3\"; leave them out, or write graph:name"),
    );
    check(r#"{"spec":"graph:one-way"}"#, Err(&format!("\"graph:one-way\" {only}")));
    let cannot = r#"topology "graph:cut" cannot be used"#;
    check(
        &format!(r#"{{"spec":"graph:cut","ranks":4,"links":[{links}]}}"#),
        Err(&format!("{cannot}: no path leads from rank 0 to rank 3; add links")),
    );
}

#[test]
fn what_is_no_network_is_refused() {
    let check = |ranks: usize, nodes: usize, ends: &[(NodeId, NodeId)], message: &str| {
        let links = ends.iter().map(|(a, b)| Link::between(*a, *b)).collect();
        let error = Topology::from_links("g", ranks, nodes, links).unwrap_err().to_string();
        let start = "topology \"graph:g\" cannot be used: ";
        assert_eq!(error.strip_prefix(start).unwrap_or(&error), message);
    };
    check(0, 1, &[], "topology \"graph:g\" has no ranks; write sizes of 1 or more");
    check(3, 2, &[], "2 nodes cannot hold 3 ranks; count the ranks as nodes, too");
    check(2, 2, &[(0, 2)], "link 0 joins 0 to 2, but nodes are 0 to 1");
    check(2, 2, &[(0, 1), (1, 1)], "link 1 joins node 1 to itself; leave it out");
    check(2, 2, &[(0, 1)], "no path leads from rank 1 to rank 0; add links");
    check(3, 3, &[(0, 1), (1, 0), (2, 0)], "no path leads from rank 0 to rank 2; add links");
    // Switches need not be reachable.
    assert!(Topology::from_links("g", 1, 3, Vec::new()).is_ok());
    for name in ["", "a,b", "my net", "a:b"] {
        let error = Topology::from_links(name, 1, 1, Vec::new()).unwrap_err();
        assert_eq!(error, TopologyError::Name(name.to_owned()));
    }
    let slow = Link { bandwidth: 0.0, ..Link::between(0, 1) };
    let error = Topology::from_links("g", 2, 2, vec![slow]).unwrap_err();
    assert_eq!(error, TopologyError::Bandwidth(0.0));
}

/// A torus without one of its cables keeps its grid, and bytes go around the missing cable.
#[test]
fn graphs_may_have_a_grid() {
    let torus = topology("torus:3x4");
    let ends = |link: &Link| (link.source.min(link.target), link.source.max(link.target));
    let links: Vec<Link> = torus.links().iter().filter(|link| ends(link) != (0, 1)).copied().collect();
    let graph = Topology::from_links("broken", 12, 12, links).unwrap();
    assert!(graph.coordinates(7).is_empty());
    let graph = graph.with_dimensions(&[3, 4]).unwrap();
    assert_eq!((graph.dimensions(), graph.coordinates(7)), (&[3, 4][..], vec![1, 3]));
    let target = |rank, port| graph.port_link(rank, port).map(|link| graph.links()[link].target);
    assert_eq!([0, 1, 2, 3, 4].map(|port| target(0, port)), [Some(4), Some(8), None, Some(3), None]);
    assert_eq!((graph.port_to(0, 3), graph.port_to(0, 1)), (Some(3), None));
    assert_eq!(Routes::new(&graph).route(0, 1).unwrap().hops, 3);
    assert!(!graph.is_torus() && graph.clone().with_routing(Routing::DimensionOrdered).is_err());
    let json = serde_json::to_string(&graph).unwrap();
    assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), graph);
    let refuse = |topology: Topology, message: &str| {
        let error = topology.with_dimensions(&[3, 5]).unwrap_err().to_string();
        assert!(error.ends_with(message), "{error}");
    };
    refuse(graph, "a grid of 3x5 is not one of its 12 ranks");
    refuse(torus, "its grid is given; choose that of a graph");
}

proptest! {
    #![proptest_config(seeded())]

    /// Any list of links either gives every pair a route or is refused.
    #[test]
    fn ranks_of_graphs_reach_each_other(
        nodes in 1usize..12,
        ranks in 1usize..12,
        ends in prop::collection::vec((0usize..12, 0usize..12), 0..40),
    ) {
        let ranks = ranks.min(nodes);
        let ends = ends.into_iter().map(|(a, b)| (a % nodes, b % nodes)).filter(|(a, b)| a != b);
        let links: Vec<Link> = ends.map(|(a, b)| Link::between(a, b)).collect();
        let pairs = || (0..ranks).flat_map(|a| (0..ranks).map(move |b| (a, b)));
        match Topology::from_links("g", ranks, nodes, links.clone()) {
            Ok(graph) => {
                let mut routes = Routes::new(&graph);
                let hops: Vec<usize> = pairs().map(|(a, b)| routes.route(a, b).unwrap().hops).collect();
                prop_assert_eq!(hops.into_iter().max().unwrap(), graph.diameter());
                let json = serde_json::to_string(&graph).unwrap();
                prop_assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), graph);
            }
            Err(TopologyError::Graph { .. }) => {
                let kind = TopologyKind::Graph("g".to_owned());
                let graph = Topology::plain(kind, ranks, nodes, links);
                let mut routes = Routes::new(&graph);
                prop_assert!(pairs().any(|(a, b)| routes.route(a, b).is_err()));
            }
            Err(error) => prop_assert!(false, "{}", error),
        }
    }
}
