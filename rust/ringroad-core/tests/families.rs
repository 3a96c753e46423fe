//! Tests every algorithm on every family of networks. An algorithm for tori treats any grid as a torus, and its
//! messages take the routes of the actual network.

#[path = "common/members.rs"]
mod members;

use members::brief_members;
use ringroad_core::algorithms::{available, catalogue, find, Shape};
use ringroad_core::cost::{CostModel, ScheduleCost};
use ringroad_core::digest::Fnv;
use ringroad_core::topology::{families, Link, Routing};
use ringroad_core::{Collective, Topology};

/// Two or more networks of every family, small enough to test everything.
const SPECS: &[&str] = &[
    "ring:8",
    "torus:4x4",
    "mesh:5",
    "mesh:4x4",
    "mesh:3x2x2",
    "twisted-torus:4x2",
    "twisted-torus:4x8",
    "hyperx:4x4",
    "hyperx:3x2x2",
    "hammingmesh:2x2:2x2",
    "hammingmesh:1x1:4x4",
    "hammingmesh:2x3:2x1",
    "hypercube:1",
    "hypercube:4",
    "twisted-hypercube:3",
    "twisted-hypercube:4",
    "switch:8",
    "fattree:4x4",
    "fattree:4x4:2",
    "fattree:2x2x3:1x2",
    "hosts:2x4",
    "generalized-kautz:2:7",
    "doubled-odd-graph:3",
];

fn topology(spec: &str) -> Topology {
    Topology::parse(spec).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

/// The Petersen graph: three links per rank, and two hops at most.
fn petersen() -> Topology {
    let cables = (0..5).flat_map(|i| [(i, (i + 1) % 5), (i, i + 5), (i + 5, (i + 2) % 5 + 5)]);
    let links = cables.flat_map(|(a, b)| [Link::between(a, b), Link::between(b, a)]).collect();
    Topology::from_links("petersen", 10, 10, links).unwrap()
}

fn networks() -> Vec<Topology> {
    let here = |name: &str| SPECS.iter().any(|spec| spec.split(':').next() == Some(name));
    let examples = families().filter(|family| !here(family.name)).map(|family| family.example);
    SPECS.iter().copied().chain(examples).map(topology).chain([petersen()]).collect()
}

fn cost(name: &str, topology: &Topology) -> ScheduleCost {
    let schedule = find(name).unwrap().build(topology, Collective::Allreduce).unwrap();
    ScheduleCost::from_schedule(&schedule, topology).unwrap()
}

#[test]
fn every_algorithm_works_on_every_family() {
    for topology in networks() {
        for (algorithm, collective) in catalogue().flat_map(|a| a.collectives().map(move |c| (a, c))) {
            let collective = collective.with_root(topology.ranks() - 1);
            for member in brief_members(algorithm, &topology) {
                let what = format!("{member} {collective} on {topology}");
                if member.supports(&topology, collective).is_err() {
                    continue;
                }
                let schedule = member.build(&topology, collective).unwrap_or_else(|e| panic!("{what}: {e}"));
                schedule.verify().unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(
                    schedule.steps.len(),
                    member.cost_line(&topology, collective).unwrap().steps,
                    "{what}"
                );
                for routing in Routing::ALL {
                    let Ok(routed) = topology.clone().with_routing(routing) else { continue };
                    let cost = ScheduleCost::from_schedule(&schedule, &routed)
                        .unwrap_or_else(|e| panic!("{what}: {e}"));
                    assert!(cost.hops() <= schedule.steps.len() * topology.diameter(), "{what}");
                    // The busiest link carries at least an equal share of the load.
                    let least = schedule.max_sent() / topology.max_degree().max(1) as f64;
                    let capacity = topology.links().iter().map(|link| link.capacity).fold(1.0, f64::max);
                    assert!(cost.link_load() * capacity > least - 1e-9, "{what}: {}", cost.link_load());
                }
                for send in schedule.expand().steps.iter().flat_map(|step| &step.sends) {
                    let link = topology.port_link(send.source, send.port);
                    assert!(link.is_none_or(|link| topology.links()[link].source == send.source), "{what}");
                }
            }
        }
    }
}

#[test]
fn a_grid_is_what_algorithms_see() {
    let check = |spec: &str, sizes: &[usize]| {
        assert_eq!(Shape::from_topology(&topology(spec)).sizes(), sizes, "{spec}")
    };
    check("mesh:4x3", &[4, 3]);
    check("twisted-torus:4x8", &[4, 8]);
    check("hyperx:3x2x2", &[3, 2, 2]);
    check("hammingmesh:2x3:5x4", &[10, 12]);
    check("hypercube:3", &[2, 2, 2]);
    check("twisted-hypercube:3", &[2, 2, 2]);
    check("fattree:4x4", &[16]);
    assert_eq!(Shape::from_topology(&petersen()).sizes(), [10]);
}

/// The networks whose costs the snapshot shows.
const SHOWN: [&str; 3] = ["mesh:5", "hyperx:3x2x2", "hosts:2x4"];

/// The costs of all algorithms on all networks: a digest for each, and the costs themselves of a few. A file beside the
/// tests' programs has all of them, to be compared with the one that the code before a change writes.
#[test]
fn costs_on_every_family() {
    let (mut digests, mut shown, mut all) = (String::new(), String::new(), String::new());
    for topology in networks() {
        let (costs, count) = costs_on(&topology);
        let mut digest = Fnv::new();
        digest.text(&costs);
        digests += &format!("{:<40} {count:>3} {}\n", topology.to_string(), &digest.digits()[..16]);
        if SHOWN.iter().any(|spec| topology.to_string() == *spec) {
            shown += &costs;
        }
        all += &costs;
    }
    std::fs::write(concat!(env!("CARGO_TARGET_TMPDIR"), "/costs-on-every-family.txt"), all).unwrap();
    insta::assert_snapshot!(format!("{digests}\n{shown}"));
}

/// The costs of all algorithms on a network as text, and how many they are.
fn costs_on(topology: &Topology) -> (String, usize) {
    let model = CostModel::default();
    let mut lines = format!("{topology}: {} ranks, {} links, ", topology.ranks(), topology.links().len());
    lines += &format!("degree {}, diameter {}\n", topology.max_degree(), topology.diameter());
    let members = available(topology, Collective::Allreduce);
    for member in &members {
        let cost = cost(&member.name(), topology);
        let micros = |bytes| 1e6 * model.seconds(&cost, bytes);
        lines += &format!("  {:<38}", member.name());
        lines += &format!("{:>4} steps {:>4} hops ", cost.steps.len(), cost.hops());
        lines += &format!(
            "{:>9.4} vectors {:>9.3} us {:>11.3} us\n",
            cost.link_load(),
            micros(1 << 10),
            micros(1 << 20)
        );
    }
    (lines, members.len())
}

/// The sum over the steps of what the most loaded link carries, as a fraction of the message.
fn load(name: &str, topology: &Topology) -> f64 {
    cost(name, topology).link_load()
}

fn assert_load(name: &str, spec: &str, expected: f64) {
    let found = load(name, &topology(spec));
    assert!((found - expected).abs() < 1e-9, "{name} on {spec}: {found} instead of {expected}");
}

/// On a HyperX all ranks of a row are neighbours, and Swing has no congestion (section 5.4 of its paper). On a
/// HammingMesh messages of distance 3 and more, which are 1/16 of the bytes, leave their boards: all messages of a
/// board's row cross its ends, so each end carries as many messages as the row has ranks.
#[test]
fn swing_is_congested_where_boards_end() {
    let check = |spec: &str, row: f64| {
        let network = topology(spec);
        let ranks = network.ranks() as f64;
        let congestion = 15.0 / 16.0 + row * (1.0 / 16.0 - 1.0 / ranks);
        assert_load("swing", spec, 2.0 * congestion / 4.0);
    };
    check("hyperx:8x8", 1.0);
    check("hyperx:64x64", 1.0);
    check("hammingmesh:1x1:16x16", 1.0);
    check("hammingmesh:2x2:8x8", 2.0);
    check("hammingmesh:2x2:32x32", 2.0);
    check("hammingmesh:4x4:8x8", 4.0);
    check("hammingmesh:4x4:16x16", 4.0);
    let order =
        ["hammingmesh:2x2:8x8", "torus:16x16", "mesh:16x16"].map(|spec| load("swing", &topology(spec)));
    assert!(order.is_sorted() && order[1] < order[2], "{order:?}");
}

#[test]
fn missing_cables_cost_detours() {
    // On a mesh the block that would go around the end goes all the way back.
    assert_load("ring", "mesh:8", 14.0 / 8.0);
    assert_eq!(cost("ring", &topology("mesh:8")).hops(), 14 * 7);
    // Recursive doubling uses the links of a hypercube only.
    assert_load("recursive-doubling", "hypercube:4", 4.0);
    assert_load("halving-doubling", "hypercube:4", 2.0 * 15.0 / 16.0);
    assert_eq!(cost("halving-doubling", &topology("hypercube:4")).hops(), 8);
    // A fat tree with full bandwidth costs as much as a single switch. With half the bandwidth, a step in which all
    // ranks of a switch send upwards costs twice as much.
    assert_load("halving-doubling", "fattree:4x4", load("halving-doubling", &topology("switch:16")));
    let first = |spec: &str| {
        cost("recursive-doubling", &topology(spec)).steps.iter().map(|s| s.link_load).fold(0.0, f64::max)
    };
    assert_eq!((first("fattree:4x4"), first("fattree:4x4:2"), first("fattree:4x4:4")), (1.0, 2.0, 4.0));
}

/// Dimension-ordered routing does not change messages along one dimension. Single-path routing loads links more
/// unevenly.
#[test]
fn routing_is_part_of_the_cost() {
    let check = |name: &str, spec: &str, routing: Routing| {
        let plain = topology(spec);
        let routed = plain.clone().with_routing(routing).unwrap();
        (load(name, &plain), load(name, &routed))
    };
    for (name, spec) in [("swing", "torus:8x8"), ("bucket", "torus:4x4"), ("swing", "hammingmesh:2x2:4x4")] {
        let (minimal, ordered) = check(name, spec, Routing::DimensionOrdered);
        assert_eq!(minimal, ordered, "{name} on {spec}");
    }
    let (minimal, single) = check("recursive-doubling", "torus:8x8", Routing::SinglePath);
    assert!(single > 1.2 * minimal, "{minimal} {single}");
}
