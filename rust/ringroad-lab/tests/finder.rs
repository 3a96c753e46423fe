//! Tests of the topology finder: the costs that it states are right, and as good as in the paper or better.

use ringroad_core::synthesis::{bfb, expand, Digraph, Ratio};
use ringroad_core::topology::moore_steps;
use ringroad_core::{Collective, Topology};
use ringroad_lab::finder::{find, least_bandwidth, lines, pruned, Found, TABLE, TABLE_DEGREE};

/// Compares the stated costs with those of breadth-first broadcast on the network.
fn check(found: &Found) {
    let topology = Topology::parse(&found.spec).unwrap();
    let what = &found.spec;
    assert_eq!(topology.ranks(), found.ranks, "{what}");
    let regular = (0..found.ranks).all(|rank| topology.degree(rank) == found.degree);
    assert_eq!(regular, found.regular, "{what}");
    let (steps, loads) = match found.algorithm {
        "bfb" => {
            let costs = bfb::costs(&topology).unwrap();
            (costs[0].loads.len(), costs.map(|cost| cost.load()))
        }
        "expanded" => {
            let network = Digraph::from_topology(&topology);
            let phases = [Collective::Allgather, Collective::ReduceScatter];
            let phases = phases.map(|phase| expand::schedule("expanded", &topology, phase).unwrap());
            phases.iter().for_each(|phase| phase.verify().unwrap());
            (phases[0].steps.len(), phases.map(|phase| expand::load(&phase, &network)))
        }
        other => panic!("{other}"),
    };
    assert_eq!(steps, found.cost.steps, "{what}");
    let terms = loads.map(|load| load * Ratio::new(found.degree as u64, 1u64));
    assert_eq!(terms, [found.cost.allgather, found.cost.reduce_scatter], "{what}");
    assert!(found.cost.steps >= moore_steps(found.ranks, found.degree, false).unwrap(), "{what}");
    if found.undirected {
        let links = |from: usize, to: usize| {
            topology.links().iter().filter(|l| (l.source, l.target) == (from, to)).count()
        };
        let both = |(a, b): (usize, usize)| links(a, b) == links(b, a);
        assert!(found.ranks > 64 || topology.links().iter().all(|l| both((l.source, l.target))), "{what}");
        assert!(found.cost.steps >= moore_steps(found.ranks, found.degree, true).unwrap(), "{what}");
    }
}

#[test]
fn stated_costs_are_right() {
    let full = std::env::var_os("RINGROAD_TEST_FULL").is_some();
    let sizes: Vec<usize> = if full { (2..=256).collect() } else { (2..=26).chain([48, 60]).collect() };
    for ranks in sizes {
        for degree in if full { 1..=TABLE_DEGREE } else { 1..=5 } {
            for undirected in [false, true] {
                for found in find(ranks, degree, undirected).into_iter().flatten() {
                    assert!(found.undirected || !undirected);
                    check(&found);
                }
            }
        }
    }
}

/// Zhao et al., Table 7, and other named graphs are found by their numbers of ranks and degrees.
#[test]
fn named_graphs_cost_what_is_known() {
    let sizes =
        [(10, 3), (14, 3), (20, 3), (30, 3), (126, 3), (6, 4), (10, 4), (14, 4), (15, 4), (21, 4), (26, 4)];
    let larger = [(32, 4), (35, 4), (45, 4), (70, 4), (80, 4), (189, 4), (728, 4)];
    for (ranks, degree) in sizes.into_iter().chain(larger) {
        let found = find(ranks, degree, true).unwrap();
        found.iter().for_each(check);
        assert!(found.iter().any(|found| found.cost.allgather == least_bandwidth(ranks)), "{ranks} {degree}");
    }
    let largest = &find(728, 4, true).unwrap()[0];
    assert_eq!((largest.spec.as_str(), largest.cost.steps), ("gh33-incidence", 6));
}

/// Zhao et al., Table 5: the found graphs have as few steps, and the least bandwidth term.
#[test]
fn table_5_of_the_paper_is_met() {
    for (ranks, steps) in [(5, 1), (6, 2), (7, 2), (8, 2), (9, 2), (10, 2), (11, 2), (12, 2)] {
        let found = find(ranks, 4, true).unwrap();
        let best = &found[0];
        assert_eq!((best.cost.steps, best.cost.allgather), (steps, least_bandwidth(ranks)), "{ranks}");
    }
}

/// Zhao et al., Table 4: 1,024 ranks with four links, a start-up time of 10 us, and 83.886 us per vector.
#[test]
fn table_4_of_the_paper_is_beaten() {
    let found = find(1024, 4, false).unwrap();
    let optimal = found.iter().find(|found| found.cost.allgather == least_bandwidth(1024)).unwrap();
    assert_eq!(optimal.cost.steps, 6);
    assert_eq!(optimal.spec, "cayley:z64*z16^11:34.1,14.14,23.12,33.7");
    let micros = |found: &Found| 20.0 * found.cost.steps as f64 + 83.88608 * found.cost.allreduce().to_f64();
    assert!((micros(optimal) - 287.6).abs() < 0.05, "{}", micros(optimal));
    let best = found.iter().map(micros).fold(f64::INFINITY, f64::min);
    assert!(best < 281.6, "{best}");
    found.iter().for_each(check);
}

/// Graphs are found that are as good as those of the paper that are not published: ranks, degree, steps.
#[test]
fn replacements_are_found() {
    for (ranks, degree, steps) in [(8, 2, 3), (16, 2, 4), (9, 3, 2), (16, 4, 3), (13, 4, 2), (256, 4, 5)] {
        let found = find(ranks, degree, false).unwrap();
        let least = |found: &&Found| found.cost.allgather == least_bandwidth(ranks);
        let best = found.iter().find(least).unwrap();
        assert!(best.cost.steps <= steps, "{ranks} {degree}: {best:?}");
    }
}

/// No generalised Kautz graph takes fewer steps than what is found.
#[test]
fn generalised_kautz_graphs_are_found() {
    let full = std::env::var_os("RINGROAD_TEST_FULL").is_some();
    let small =
        (3..=if full { 200 } else { 30 }).flat_map(|ranks| (2..=6.min(ranks - 1)).map(move |d| (ranks, d)));
    let missed = [(28, 3), (84, 3), (126, 5), (513, 8)];
    for (ranks, degree) in small.chain(missed) {
        let kautz = Topology::parse(&format!("generalized-kautz:{degree}:{ranks}")).unwrap();
        let steps = bfb::reach(&kautz).unwrap().steps;
        let found = find(ranks, degree, false).unwrap();
        assert!(found[0].cost.steps <= steps, "{ranks} {degree}: {found:?}");
    }
    for ((ranks, degree), regular) in [((9, 2), true), ((28, 3), true), ((13, 2), false)] {
        let found = &find(ranks, degree, false).unwrap()[0];
        let spec = format!("generalized-kautz:{degree}:{ranks}");
        assert_eq!((&found.spec, found.regular), (&spec, regular));
        check(found);
    }
}

/// Where expanded schedules load links less than breadth-first broadcast, that is said.
#[test]
fn expanded_schedules_are_found() {
    let found = find(7, 10, false).unwrap();
    found.iter().for_each(check);
    let best = found.iter().find(|found| found.cost.allgather == least_bandwidth(7)).unwrap();
    assert_eq!((best.algorithm, best.cost.steps), ("expanded", 2));
}

/// The entries of a line of the table as (ranks and kind, degree, point).
fn points(line: &str) -> Vec<(String, usize, String)> {
    let mut words = line.splitn(3, ' ');
    let head = format!("{} {}", words.next().unwrap(), words.next().unwrap());
    let entries = words.next().unwrap_or_default().split(' ').zip(2..);
    let point = |(entry, degree): (&str, usize)| {
        let head = head.clone();
        let named = move |point: &str| (head.clone(), degree, point.to_owned());
        entry.split(',').filter(|point| *point != "-").map(named).collect::<Vec<_>>()
    };
    entries.flat_map(point).collect()
}

/// The table contains what its command finds, and no superfluous entries.
#[test]
fn the_table_is_what_its_command_writes() {
    let table = TABLE.as_str();
    let full = std::env::var_os("RINGROAD_TEST_FULL").is_some();
    let sizes: &[usize] = if full { &[7, 12, 16, 27, 35, 60, 101, 256, 1000] } else { &[7, 12, 16, 27] };
    for ranks in sizes {
        let start = format!("{ranks} ");
        let searched: Vec<_> = lines(*ranks).lines().flat_map(points).collect();
        let own: Vec<_> = table.lines().filter(|line| line.starts_with(&start)).flat_map(points).collect();
        assert!(!own.is_empty() && own.iter().all(|point| searched.contains(point)), "{own:?} {searched:?}");
    }
    if full {
        assert_eq!(pruned(table), table);
    }
}

#[test]
fn sizes_out_of_range_are_refused() {
    for (ranks, degree) in [(1, 4), (0, 1), (8, 0), (8, 33), (1 << 20, 4)] {
        let error = find(ranks, degree, false).unwrap_err().to_string();
        assert!(error.contains("ask for"), "{error}");
    }
    assert!(find(7, 3, true).unwrap_err().to_string().contains("even number"));
}
