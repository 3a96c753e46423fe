//! The routings: which paths bytes take.

use super::*;

fn routed(spec: &str, routing: &str) -> Topology {
    topology(&format!("{spec},routing={routing}"))
}

/// `shares` as (source, target, share).
#[test]
fn policies_choose_among_shortest_paths() {
    let check = |routing: &str, spec: &str, from: NodeId, to: NodeId, shares: &[(NodeId, NodeId, f64)]| {
        let topology = routed(spec, routing);
        let route = Routes::new(&topology).route(from, to).unwrap();
        let ends = |l: LinkId| (topology.links()[l].source, topology.links()[l].target);
        let found: Vec<_> = route.shares.iter().map(|&(l, s)| (ends(l).0, ends(l).1, s)).collect();
        assert_eq!(found, shares, "{routing} {spec} {from}→{to}");
    };
    check("single-path", "ring:4", 0, 2, &[(0, 1, 1.0), (1, 2, 1.0)]);
    check("single-path", "ring:2", 0, 1, &[(0, 1, 1.0)]);
    check("single-path", "torus:3x3", 0, 4, &[(0, 3, 1.0), (3, 4, 1.0)]);
    check("single-path", "switch:4", 1, 3, &[(1, 4, 1.0), (4, 3, 1.0)]);
    check("single-path", "hosts:2x2", 1, 1, &[]);
    check("dimension-ordered", "torus:3x3", 0, 4, &[(0, 3, 1.0), (3, 4, 1.0)]);
    check("dimension-ordered", "torus:3x3", 4, 0, &[(4, 1, 1.0), (1, 0, 1.0)]);
    let quarters = [(0, 4, 0.5), (0, 12, 0.5), (4, 8, 0.5), (12, 8, 0.5), (8, 9, 1.0)];
    check("dimension-ordered", "torus:4x4", 0, 9, &quarters);
    check("dimension-ordered", "mesh:3x3", 0, 8, &[(0, 3, 1.0), (3, 6, 1.0), (6, 7, 1.0), (7, 8, 1.0)]);
    check("dimension-ordered", "hyperx:4x4", 1, 14, &[(1, 13, 1.0), (13, 14, 1.0)]);
    check("dimension-ordered", "hypercube:3", 0, 7, &[(0, 4, 1.0), (4, 6, 1.0), (6, 7, 1.0)]);
    // By the first column's tree, then by a row's.
    let route = [(0, 20, 1.0), (20, 8, 1.0), (8, 18, 1.0), (18, 11, 1.0)];
    check("dimension-ordered", "hammingmesh:2x2:2x2", 0, 11, &route);
}

#[test]
fn policies_are_kept_and_refused() {
    for family in ["ring:8", "mesh:2x2", "hyperx:3", "hypercube:2", "hammingmesh:2x2:2x2"] {
        for routing in ["dimension-ordered", "single-path"] {
            let spec = format!("{family},routing={routing}");
            let topology = topology(&spec);
            assert_eq!(topology.spec(), spec);
            let json = serde_json::to_string(&topology).unwrap();
            assert_eq!(serde_json::from_str::<Topology>(&json).unwrap().routing().name(), routing);
        }
    }
    assert_eq!(topology("ring:8 , Routing=MINIMAL").spec(), "ring:8");
    for spec in ["switch:4", "hosts:2x2", "fattree:2x2", "twisted-torus:4x2", "twisted-hypercube:3"] {
        let error = topology(spec).with_routing(Routing::DimensionOrdered).unwrap_err().to_string();
        let needs = "dimension-ordered routing needs dimensions with links of their own, which";
        assert_eq!(error, format!("{needs} {spec} does not have; use minimal or single-path"));
    }
}

/// Where paths differ in latency, that of the taken path counts.
#[test]
fn a_single_path_has_its_own_latency() {
    let ring = routed("ring:4", "single-path").map_links(|id, link| link.latency = id as f64).unwrap();
    let route = Routes::new(&ring).route(0, 2).unwrap();
    assert_eq!((route.hops, route.latency), (2, 0.0 + 2.0));
}

proptest! {
    #![proptest_config(seeded())]

    /// All routings take paths of the same length, and none loses a byte.
    #[test]
    fn every_policy_is_minimal(
        family in prop::sample::select(vec![
            "torus:4x3", "torus:2x2x3", "mesh:3x4", "hyperx:3x4", "hypercube:4", "hammingmesh:2x3:2x2", "hammingmesh:4x4:3x1",
        ]),
        pairs in prop::collection::vec((0usize..64, 0usize..64), 1..20),
    ) {
        for routing in ["minimal", "dimension-ordered", "single-path"] {
            let (plain, topology) = (topology(family), routed(family, routing));
            let (mut reference, mut routes) = (Routes::new(&plain), Routes::new(&topology));
            for (from, to) in pairs.iter().map(|(a, b)| (a % plain.ranks(), b % plain.ranks())) {
                let route = routes.route(from, to).unwrap();
                prop_assert_eq!(route.hops, reference.route(from, to).unwrap().hops);
                prop_assert_eq!(&*route, &*Routes::new(&topology).route(from, to).unwrap());
                let mut surplus = vec![0.0; topology.nodes()];
                surplus[from] += 1.0;
                surplus[to] -= 1.0;
                for &(link, share) in &route.shares {
                    surplus[topology.links()[link].source] -= share;
                    surplus[topology.links()[link].target] += share;
                }
                prop_assert!(surplus.iter().all(|s| s.abs() < 1e-12), "{:?}", surplus);
            }
        }
    }
}
