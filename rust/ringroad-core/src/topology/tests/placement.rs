//! Ranks in other orders.

use super::*;
use crate::topology::placement::inverse;

const SPECS: [&str; 14] = [
    "ring:7",
    "torus:3x4",
    "torus:2x2",
    "mesh:2x3",
    "hypercube:3",
    "hyperx:3x3",
    "hosts:2x3",
    "hosts:1,2,3",
    "switch:5",
    "fattree:2x3",
    "petersen",
    "kautz:2:2",
    "without(torus:3x3, 0-1)",
    "bottleneck(torus:2x3, 2)",
];

fn any_placed() -> impl Strategy<Value = (Topology, Vec<Rank>)> {
    proptest::sample::select(&SPECS[..]).prop_flat_map(|spec| {
        let base = topology(spec);
        let positions: Vec<Rank> = (0..base.ranks()).collect();
        (Just(base), Just(positions).prop_shuffle())
    })
}

/// Links with properties of their own, so that none is taken for another.
fn marked(topology: Topology) -> Topology {
    topology.map_links(|id, link| link.extra_latency = id as f64 * 1e-7).unwrap()
}

/// Whether `placed` is `base` with ranks at these positions, link by link and port by port.
fn check_placed(base: &Topology, placed: &Topology, positions: &[Rank]) {
    let at = |node: NodeId| positions.get(node).copied().unwrap_or(node);
    assert_eq!((placed.base(), placed.ranks(), placed.nodes()), (base, base.ranks(), base.nodes()));
    assert_eq!((placed.dimensions(), placed.routing()), (base.dimensions(), base.routing()));
    assert_eq!((placed.diameter(), placed.max_degree()), (base.diameter(), base.max_degree()));
    let moved = |link: &Link| Link { source: at(link.source), target: at(link.target), ..*link };
    assert_eq!(placed.links().iter().map(moved).collect::<Vec<Link>>(), base.links());
    let (hosts, here) = (base.hosts_of_ranks(), placed.hosts_of_ranks());
    for (a, b) in (0..base.ranks()).flat_map(|a| (0..base.ranks()).map(move |b| (a, b))) {
        assert_eq!(here[a] == here[b], hosts[at(a)] == hosts[at(b)]);
    }
    let (mut routes, mut known) = (Routes::new(placed), Routes::new(base));
    for (rank, position) in positions.iter().enumerate() {
        assert_eq!(placed.coordinates(rank), base.coordinates(*position));
        let rank_there = placed.rank_at(&placed.coordinates(rank));
        assert_eq!(rank_there, (!base.dimensions().is_empty()).then_some(rank));
        assert_eq!(placed.links_out_of(rank), base.links_out_of(*position));
        for port in 0..=placed.max_degree() {
            assert_eq!(placed.port_link(rank, port), base.port_link(*position, port));
        }
        for other in (0..placed.ranks()).filter(|other| *other != rank) {
            assert_eq!(placed.port_to(rank, other), base.port_to(*position, at(other)));
            assert_eq!(placed.port_towards(rank, other), base.port_towards(*position, at(other)));
            let (route, expected) =
                (routes.route(rank, other).unwrap(), known.route(*position, at(other)).unwrap());
            let sorted = |route: &Route| {
                let mut shares = route.shares.clone();
                shares.sort_by_key(|share| share.0);
                shares
            };
            assert_eq!((route.hops, sorted(&route)), (expected.hops, sorted(&expected)));
        }
    }
    for (link, port) in placed.link_ports().into_iter().enumerate() {
        if let Some((rank, port)) = port {
            assert_eq!((placed.port_link(rank, port), placed.links()[link].source), (Some(link), rank));
        }
    }
    let json = serde_json::to_string(placed).unwrap();
    assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), *placed, "{json}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_but_the_numbers_stays((base, positions) in any_placed(), again in any::<u64>()) {
        let placed = base.clone().placed(&positions).unwrap();
        check_placed(&base, &placed, &positions);
        let in_order = positions.is_sorted();
        prop_assert_eq!(placed == base, in_order);
        prop_assert_eq!(placed.positions().is_none(), in_order);
        prop_assert_eq!(placed.digest() == base.digest(), in_order);
        let list = text::list(&positions);
        if !in_order {
            prop_assert_eq!(placed.to_string(), format!("{base}@{list}"));
        }
        prop_assert_eq!(&topology(&placed.to_string()), &placed);
        prop_assert_eq!(&base.clone().induced(&positions).unwrap(), &placed);
        // In another order once more, and back.
        let mut twice: Vec<Rank> = (0..base.ranks()).collect();
        twice.sort_by_key(|rank| (*rank as u64 + 1).wrapping_mul(again | 1) % 1009);
        let both: Vec<Rank> = twice.iter().map(|rank| positions[*rank]).collect();
        let other = placed.clone().placed(&twice).unwrap();
        prop_assert_eq!(&other, &base.clone().placed(&both).unwrap());
        prop_assert_eq!(other.placed(&inverse(&both).unwrap()).unwrap(), base);
    }

    /// What is done to placed ranks could as well be done before they are placed.
    #[test]
    fn changes_go_to_the_positions((base, positions) in any_placed()) {
        let placed = marked(base.clone()).placed(&positions).unwrap();
        let base = marked(base);
        let check = |base: Result<Topology, TopologyError>, placed: Result<Topology, TopologyError>| {
            match (base, placed) {
                (Ok(base), Ok(placed)) => check_placed(&base, &placed, &positions),
                (Err(_), Err(_)) => {}
                (base, placed) => panic!("{base:?} but {placed:?}"),
            }
        };
        let both = |change: &dyn Fn(&Topology) -> Result<Topology, TopologyError>| check(change(&base), change(&placed));
        if !positions.is_sorted() {
            both(&|t| t.clone().with_links(Some(1e9), Some(1e-5)));
            both(&|t| t.clone().with_processing(1e-6));
            both(&|t| t.clone().with_hosts(Some(8.0), None));
            both(&|t| t.behind_nics(1.5));
            both(&Topology::transpose);
            for routing in Routing::ALL {
                both(&|t| t.clone().with_routing(routing));
            }
            let single = |t: &Topology| t.clone().with_routing(Routing::SinglePath).unwrap();
            let table = |t: &Topology| single(t).with_routes(RoutingTable::from_topology(&single(t)).unwrap());
            both(&table);
            let node = |rank: NodeId| placed.links()[rank].source;
            let (a, b) = (node(0), placed.links()[0].target);
            let at = |node: NodeId| positions.get(node).copied().unwrap_or(node);
            check(base.without_links(&[(at(a), at(b))]), placed.without_links(&[(a, b)]));
            check(base.without_directions(&[(at(a), at(b))]), placed.without_directions(&[(a, b)]));
        }
    }
}

#[test]
fn placed_specs() {
    let check = |spec: &str, written: &str, positions: &[Rank]| {
        let placed = topology(spec);
        assert_eq!((placed.to_string().as_str(), placed.positions().unwrap_or(&[])), (written, positions));
    };
    check("torus:2x2@2,0,1,3", "torus:2x2@2,0,1,3", &[2, 0, 1, 3]);
    check(" Torus:2x2 @ 2, 0,1, 3 ", "torus:2x2@2,0,1,3", &[2, 0, 1, 3]);
    check("torus:2x2@0,1,2,3", "torus:2x2", &[]);
    check("ring:3,routing=single-path@2,0,1", "ring:3,routing=single-path@2,0,1", &[2, 0, 1]);
    check("hosts:1,2@2,0,1", "hosts:1,2@2,0,1", &[2, 0, 1]);
    check("circulant:5:1,2@1,0,2,3,4", "circulant:5:1,2@1,0,2,3,4", &[1, 0, 2, 3, 4]);
    check("without(ring:4@1,0,2,3, 0-1)", "without(ring:4, 1-0)@1,0,2,3", &[1, 0, 2, 3]);
    check("bottleneck(ring:3@2,0,1, 1.5)", "bottleneck(ring:3, 1.5)@2,0,1", &[2, 0, 1]);
    check("product(ring:3@2,0,1, ring:2)", "product(ring:3@2,0,1, ring:2)", &[]);
    check("line(ring:3@2,0,1)@1,0,2,3,4,5", "line(ring:3@2,0,1)@1,0,2,3,4,5", &[1, 0, 2, 3, 4, 5]);
    let error = |spec: &str| Topology::parse(spec).unwrap_err().to_string();
    for list in ["0,1,2", "0,1,2,2", "0,1,2,4", "0,1,2,3,4", "99999999999999999999999,1,2,3"] {
        let message = error(&format!("torus:2x2@{list}"));
        assert!(message.starts_with("ranks of torus:2x2 cannot be placed at "), "{message}");
        assert!(message.ends_with("each of the 4 from 0 on once, such as torus:2x2@2,0,1,3"), "{message}");
    }
    for spec in ["ring:3@", "ring:3@a", "ring:3@0,1,", "ring:3@0-2"] {
        let message = error(spec);
        assert_eq!(message, format!("malformed topology {spec:?}; write for example torus:2x2@2,0,1,3"));
    }
}

/// A graph keeps its links, grid and positions when it is stored.
#[test]
fn graphs_are_placed() {
    let graph = Topology::from_links("four", 4, 4, topology("torus:2x2").links().to_vec()).unwrap();
    let grid = graph.with_dimensions(&[2, 2]).unwrap();
    let positions = [2, 0, 1, 3];
    let placed = marked(grid.clone()).placed(&positions).unwrap();
    assert_eq!(placed.to_string(), "graph:four@2,0,1,3");
    check_placed(&marked(grid), &placed, &positions);
    let without = placed.without_links(&[(0, 1)]);
    assert_eq!(without.unwrap().to_string(), "graph:without-four-2-0@2,0,1,3");
    let error = placed.without_links(&[(0, 3), (1, 3)]).unwrap_err().to_string();
    assert!(error.contains("1-3") || error.contains("no link joins"), "{error}");
}
