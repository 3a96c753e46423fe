//! Tests of breadth-first broadcast on many graphs: its schedules are valid and cost exactly what its formula says.

#[allow(dead_code)]
mod common;

use common::graphs::graphs;
use common::Random;
use ringroad_core::cost::ScheduleCost;
use ringroad_core::synthesis::{bfb, Ratio};
use ringroad_core::topology::{Link, Routing};
use ringroad_core::{Collective, Schedule, Topology};

fn graph(name: &str, ranks: usize, links: impl IntoIterator<Item = (usize, usize, f64)>) -> Topology {
    let link = |(a, b, capacity)| Link { capacity, ..Link::between(a, b) };
    Topology::from_links(name, ranks, ranks, links.into_iter().map(link).collect()).unwrap()
}

fn cables(name: &str, ranks: usize, cables: impl IntoIterator<Item = (usize, usize)>) -> Topology {
    graph(name, ranks, cables.into_iter().flat_map(|(a, b)| [(a, b, 1.0), (b, a, 1.0)]))
}

/// The Cayley graph of Z_m and Z_k with `(x, c)(y, e) = (x + r^c y, c + e)`.
fn cayley(m: usize, k: usize, r: usize, generators: &[(usize, usize)]) -> Topology {
    let power = |c: usize| (0..c).fold(1, |p, _| p * r % m);
    let all = (0..m).flat_map(|x| (0..k).map(move |c| (x, c)));
    let links = all.flat_map(|(x, c)| {
        let there = move |&(y, e): &(usize, usize)| (x + power(c) * y) % m * k + (c + e) % k;
        generators.iter().map(move |g| (x * k + c, there(g), 1.0))
    });
    graph("cayley", m * k, links)
}

fn petersen() -> Topology {
    cables("petersen", 10, (0..5).flat_map(|i| [(i, (i + 1) % 5), (i, i + 5), (i + 5, (i + 2) % 5 + 5)]))
}

/// A cycle through all ranks with more random links: some are parallel, some have twice the capacity.
fn random_graph(seed: u64) -> Topology {
    let random = &mut Random(seed);
    let ranks = 2 + random.below(if seed.is_multiple_of(10) { 63 } else { 23 });
    let capacities: &[f64] = if seed.is_multiple_of(3) { &[1.0, 2.0] } else { &[1.0] };
    let mut links: Vec<(usize, usize, f64)> = (0..ranks).map(|r| (r, (r + 1) % ranks, 1.0)).collect();
    for _ in 0..random.below(3 * ranks) {
        let (a, b) = (random.below(ranks), random.below(ranks));
        let capacity = capacities[random.below(capacities.len())];
        if a != b {
            links.push((a, b, capacity));
            if seed.is_multiple_of(2) {
                links.push((b, a, capacity));
            }
        }
    }
    graph("chance", ranks, links)
}

/// A torus in which dimensions of two ranks have a single cable, as in the paper.
fn single_torus(sizes: &str) -> Topology {
    let torus = Topology::parse(&format!("torus:{sizes}")).unwrap();
    let mut ends: Vec<(usize, usize)> = torus.links().iter().map(|link| (link.source, link.target)).collect();
    ends.sort_unstable();
    ends.dedup();
    graph(sizes, torus.ranks(), ends.into_iter().map(|(a, b)| (a, b, 1.0)))
}

/// The loads by formula: those of a reduce-scatter, then those of an allgather.
fn formula(topology: &Topology, collective: Collective) -> Vec<f64> {
    let [gather, scatter] = bfb::costs(topology).unwrap();
    let step = |cost: &bfb::BreadthFirstCost, load: &Ratio| load.to_f64() / cost.ranks as f64 / cost.unit;
    let gather: Vec<f64> = gather.loads.iter().map(|load| step(&gather, load)).collect();
    let scatter: Vec<f64> = scatter.loads.iter().rev().map(|load| step(&scatter, load)).collect();
    match collective {
        Collective::Allgather => gather,
        Collective::ReduceScatter => scatter,
        _ => [scatter, gather].concat(),
    }
}

fn check(topology: &Topology) {
    for collective in [Collective::Allgather, Collective::ReduceScatter, Collective::Allreduce] {
        let what = format!("{collective} on {topology}");
        let schedule = bfb::schedule("bfb", topology, collective).unwrap_or_else(|e| panic!("{what}: {e}"));
        schedule.verify().unwrap_or_else(|error| panic!("{what}: {error}"));
        check_ports(topology, &schedule);
        let cost = ScheduleCost::from_schedule(&schedule, topology).unwrap();
        let expected = formula(topology, collective);
        assert_eq!(cost.steps.len(), expected.len(), "{what}");
        for (step, expected) in cost.steps.iter().zip(expected) {
            assert_eq!(step.hops, 1, "{what}");
            let found = step.seconds_per_byte;
            assert!((found - expected).abs() <= 1e-12 * expected, "{what}: {found} instead of {expected}");
        }
        if schedule.symmetry.is_some() && topology.ranks() <= 100 {
            let expanded = schedule.expand();
            expanded.verify().unwrap_or_else(|error| panic!("{what}, written out: {error}"));
            assert_eq!(
                ScheduleCost::from_schedule(&expanded, topology).unwrap().link_load(),
                cost.link_load(),
                "{what}"
            );
            assert_eq!(Schedule::from_json(&schedule.to_json()).unwrap(), schedule, "{what}: JSON");
            for rank in [0, topology.ranks() - 1] {
                assert_eq!(schedule.rows(rank), expanded.rows(rank), "{what}: rank {rank}");
            }
        }
    }
}

fn check_ports(topology: &Topology, schedule: &Schedule) {
    for step in 0..schedule.steps.len() {
        for transfer in schedule.view().transfers(step) {
            let link = topology.port_link(transfer.source, transfer.port).map(|link| topology.links()[link]);
            let leaves = link.is_some_and(|link| link.source == transfer.source);
            // On a HyperX a port may lead to another rank of the dimension than the destination.
            let arrives = link.is_some_and(|link| link.target == transfer.destination);
            assert!(leaves && (arrives || topology.spec().starts_with("hyperx")), "{topology}: {transfer:?}");
        }
    }
}

/// The bandwidth terms of an allgather and a reduce-scatter, as a fraction of the message: `(n-1)/n` each at best.
fn bandwidths(topology: &Topology) -> [Ratio; 2] {
    bfb::costs(topology).unwrap().map(|cost| cost.bandwidth())
}

fn least(topology: &Topology) -> Ratio {
    let ranks = topology.ranks() as u64;
    Ratio::new(ranks - 1, ranks)
}

#[test]
fn random_graphs() {
    (0..300).for_each(|seed| check(&random_graph(seed)));
}

#[test]
fn networks_of_every_kind() {
    for spec in [
        "ring:2",
        "ring:7",
        "torus:4x4",
        "torus:2x3",
        "torus:5x1x3",
        "mesh:4x3",
        "twisted-torus:8x4",
        "hyperx:3x4",
        "hypercube:4",
        "twisted-hypercube:3",
    ] {
        let topology = Topology::parse(spec).unwrap();
        check(&topology);
        if let Ok(topology) = topology.with_routing(Routing::SinglePath) {
            check(&topology);
        }
    }
    graphs().iter().for_each(check);
    for topology in [petersen(), cayley(8, 2, 3, &[(5, 1), (3, 0)]), cayley(7, 3, 2, &[(1, 0), (0, 1)])] {
        check(&topology);
    }
}

/// On these networks breadth-first broadcast is known to have the least bandwidth term.
#[test]
fn optimal_wherever_it_is_known_to_be() {
    let tori = ["4x4", "3x3x2", "3x3x3x2", "3x3x3", "5x4", "6x4", "8x8", "4x2", "2x2x3", "7x3x2"];
    let mut known: Vec<Topology> = tori.iter().map(|sizes| single_torus(sizes)).collect();
    for spec in
        ["hypercube:3", "hypercube:6", "hyperx:5", "hyperx:3x3", "hyperx:3x3x3", "hyperx:4x4", "ring:9"]
    {
        known.push(Topology::parse(spec).unwrap());
    }
    known.extend((2..=12).map(|a| Topology::twisted_torus(2 * a, a).unwrap()));
    known.extend([
        petersen(),
        cayley(8, 2, 3, &[(5, 1), (3, 0)]),
        cayley(9, 1, 1, &[(1, 0), (3, 0), (4, 0)]),
    ]);
    let large = cayley(64, 16, 11, &[(34, 1), (14, 14), (23, 12), (33, 7)]);
    assert_eq!(bfb::reach(&large), Ok(bfb::BreadthFirstSize { steps: 6, symmetric: true }));
    known.push(large);
    for topology in known {
        assert_eq!(bandwidths(&topology), [least(&topology); 2], "{topology}");
    }
    let twisted = Topology::twisted_hypercube(3).unwrap();
    assert_eq!((bfb::reach(&twisted).unwrap().steps, bandwidths(&twisted)[0]), (2, Ratio::new(7u64, 8u64)));
    let petersen = petersen();
    let allreduce = bfb::schedule("bfb", &petersen, Collective::Allreduce).unwrap();
    assert!((ScheduleCost::from_schedule(&allreduce, &petersen).unwrap().link_load() - 0.6).abs() < 1e-12);
}

#[test]
fn switches_and_too_many_neighbours_are_refused() {
    let switched = bfb::schedule("bfb", &Topology::switch(4).unwrap(), Collective::Allgather).unwrap_err();
    assert!(switched.to_string().contains("rank 1 reaches rank 0 through switches only"), "{switched}");
    let star = cables("star", 200, (1..200).map(|rank| (0, rank)));
    let star = bfb::schedule("bfb", &star, Collective::Allgather).unwrap_err();
    assert!(star.to_string().contains("rank 0 has 199 neighbours"), "{star}");
    let ring = Topology::ring(4).unwrap();
    assert!(bfb::schedule("bfb", &ring, Collective::Alltoall).is_err());
}
