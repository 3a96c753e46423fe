//! Expanded schedules perform their collective, with the predicted number of steps and load of the busiest links.

use ringroad_core::algorithms::available;
use ringroad_core::cost::ScheduleCost;
use ringroad_core::synthesis::expand::{allreduce, is_suitable, load, may_help, schedule, Expansion};
use ringroad_core::synthesis::{bfb, Digraph, Ratio};
use ringroad_core::{Collective, Schedule, Topology};

const BASES: [&str; 14] = [
    "ring:3",
    "ring:5",
    "uniring:1:4",
    "uniring:2:3",
    "biring:4:5",
    "complete:3",
    "complete:5",
    "complete-bipartite:3",
    "directed-circulant:8:1,3",
    "circulant:16:3,4",
    "hamming:2:3",
    "kautz:2:1",
    "petersen",
    "cayley:z8*z2^3:5.1,3.0",
];

fn ratio(a: usize, b: usize) -> Ratio {
    Ratio::new(a as u64, b as u64)
}

/// The steps and the bandwidth term of a schedule. Verifies the schedule, and compares its load with the cost model.
fn measured(schedule: &Schedule, topology: &Topology) -> (usize, Ratio) {
    schedule.verify().unwrap_or_else(|error| panic!("{topology}: {error}"));
    let network = Digraph::from_topology(topology);
    let load = load(schedule, &network);
    let cost = ScheduleCost::from_schedule(schedule, topology).unwrap();
    assert!((cost.link_load() - load.to_f64()).abs() < 1e-9, "{topology}: {} {load}", cost.link_load());
    (schedule.steps.len(), load * Ratio::new(network.degree(), 1u64))
}

/// Whether every link has a link back.
fn is_undirected(topology: &Topology) -> bool {
    let has = |a, b| topology.links().iter().any(|l| (l.source, l.target) == (a, b));
    topology.links().iter().all(|l| has(l.target, l.source))
}

fn check(expansion: Expansion, base: &Topology, collective: Collective) {
    let schedule = bfb::schedule("bfb", base, collective).unwrap();
    let (steps, term) = measured(&schedule, base);
    let made = expansion.topology(base).unwrap();
    let expanded = expansion.schedule(base, &schedule).unwrap();
    let (found_steps, found_term) = measured(&expanded, &made);
    let n = base.ranks();
    let what = format!("{made}, {collective}");
    match expansion {
        // The line graph of a one-way ring is the ring itself.
        Expansion::Line if base.links().len() == n => {
            assert_eq!((found_steps, found_term), (steps, term), "{what}")
        }
        Expansion::Line => {
            // Blocks that a rank already has are not sent; with parallel links that may reduce the load of the busiest
            // link.
            assert_eq!(found_steps, steps + 1, "{what}");
            assert!(found_term <= term + ratio(1, n), "{what}: {found_term}");
            let simple = Digraph::from_topology(base).arcs().len() == base.links().len();
            assert!(!simple || found_term == term + ratio(1, n), "{what}: {found_term}");
        }
        Expansion::Degree(copies) => {
            let expected = if is_undirected(base) { steps.max(2) } else { found_steps };
            assert!(found_steps == expected && found_steps <= steps + 1, "{what}: {found_steps}");
            assert_eq!(found_term, term + ratio(copies - 1, copies * n), "{what}");
        }
        Expansion::Power(times) => {
            let all = n.pow(times as u32);
            let factor = ratio(n, n - 1) * ratio(all - 1, all);
            assert_eq!((found_steps, found_term), (times * steps, term * factor), "{what}");
        }
        Expansion::Bidirectional => {
            assert_eq!(found_steps, steps, "{what}");
            assert!(found_term <= term, "{what}: {found_term}");
        }
    }
}

#[test]
fn expansions_cost_what_is_predicted() {
    let full = std::env::var_os("RINGROAD_TEST_FULL").is_some();
    let most = if full { 256 } else { 64 };
    let mut expansions = vec![Expansion::Line, Expansion::Bidirectional];
    expansions.extend((2..=4).flat_map(|n| [Expansion::Degree(n), Expansion::Power(n)]));
    let mut checked = 0;
    for base in BASES.map(|spec| Topology::parse(spec).unwrap()) {
        for expansion in &expansions {
            let Ok(made) = expansion.topology(&base) else { continue };
            if made.ranks() > most || made.links().len() > 8 * most {
                continue;
            }
            for collective in [Collective::Allgather, Collective::ReduceScatter] {
                check(*expansion, &base, collective);
                checked += 1;
            }
        }
    }
    assert!(checked > 60, "{checked}");
}

#[test]
fn phases_of_different_parts_make_an_allreduce() {
    let topology = Topology::parse("degree(kautz:2:1, 2)").unwrap();
    let base = Topology::parse("kautz:2:1").unwrap();
    let phase = |collective| {
        let schedule = bfb::schedule("bfb", &base, collective).unwrap();
        Expansion::Degree(2).schedule(&base, &schedule).unwrap()
    };
    let direct = bfb::schedule("bfb", &topology, Collective::ReduceScatter).unwrap();
    let whole = allreduce(&direct, &phase(Collective::Allgather)).unwrap();
    whole.verify().unwrap();
    allreduce(&phase(Collective::ReduceScatter), &phase(Collective::Allgather)).unwrap().verify().unwrap();
}

/// On these graphs breadth-first broadcast loads links more: steps and bandwidth terms of both, for an allgather.
#[test]
fn some_graphs_need_expanded_schedules() {
    for (spec, steps, term, direct_steps, direct_term) in [
        ("degree(generalized-kautz:3:15, 2)", 4, ratio(29, 20), 4, ratio(31, 20)),
        ("power(generalized-kautz:2:8, 2)", 6, ratio(63, 32), 6, ratio(2, 1)),
        ("bidirectional(generalized-kautz:2:17)", 5, ratio(32, 17), 4, ratio(2, 1)),
        // The schedule of the graph inside is itself an expanded one.
        ("degree(degree(generalized-kautz:3:15, 2), 2)", 4, ratio(59, 40), 4, ratio(13, 8)),
    ] {
        let topology = Topology::parse(spec).unwrap();
        let cost = |schedule: &Schedule| measured(schedule, &topology);
        let gather = Collective::Allgather;
        assert_eq!(cost(&schedule("s", &topology, gather).unwrap()), (steps, term), "{spec}");
        assert_eq!(
            cost(&bfb::schedule("s", &topology, gather).unwrap()),
            (direct_steps, direct_term),
            "{spec}"
        );
        let whole = schedule("s", &topology, Collective::Allreduce).unwrap();
        let scatter = schedule("s", &topology, Collective::ReduceScatter).unwrap();
        let [whole, scatter] = [whole, scatter].map(|schedule| cost(&schedule));
        assert_eq!(whole, (steps + scatter.0, term + scatter.1), "{spec}");
        let offers = available(&topology, gather).iter().any(|member| member.name() == "expanded");
        assert!(offers, "{spec}");
    }
    let alike = Topology::parse("degree(ring:5, 2)").unwrap();
    assert!(is_suitable(&alike) && !may_help(&alike));
}

#[test]
fn what_does_not_fit_is_refused() {
    let ring = Topology::ring(4).unwrap();
    let refuse = |topology: &Topology, schedule: &Schedule| {
        Expansion::Line.schedule(topology, schedule).unwrap_err().to_string()
    };
    let whole = bfb::schedule("bfb", &ring, Collective::Allreduce).unwrap();
    assert!(refuse(&ring, &whole).contains("expand those of"));
    let gather = bfb::schedule("bfb", &ring, Collective::Allgather).unwrap();
    assert!(refuse(&Topology::ring(5).unwrap(), &gather).contains("is for 4 ranks"));
    let one_way = Topology::parse("uniring:1:4").unwrap();
    assert!(refuse(&one_way, &gather).contains("no link leads"));
    let unequal = ring.map_links(|id, link| link.capacity = 1.0 + id as f64).unwrap();
    assert!(refuse(&unequal, &gather).contains("different bandwidth"));
    let plain = schedule("s", &one_way, Collective::Allgather).unwrap_err().to_string();
    assert!(plain.contains("not made by line"), "{plain}");
    let large = Topology::parse("degree(generalized-kautz:5:97, 5)").unwrap();
    let large = schedule("s", &large, Collective::Allgather).err().unwrap().to_string();
    assert!(large.contains("is too large; choose bfb"), "{large}");
}
