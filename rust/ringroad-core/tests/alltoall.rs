//! Tests of all-to-all synthesis: known rates, bounds, and schedules that follow the flow.

#[allow(dead_code)] // Other tests use the rest.
mod common;

use std::sync::Arc;

use common::driver::{drive, Machine, Protocol};
use common::element::{from_bytes, to_bytes};
use common::Random;
use ringroad_core::algorithms::available;
use ringroad_core::cost::ScheduleCost;
use ringroad_core::executor::Executor;
use ringroad_core::plan::{Counts, LocalRanks, LowerError, LowerOptions, Plan};
use ringroad_core::synthesis::alltoall::{
    concurrent_flow, held_by_relays, in_few_chunks, schedule, Concurrent, Demands, Ended, FlowBounds,
};
use ringroad_core::synthesis::{Budget, Digraph};
use ringroad_core::topology::Routes;
use ringroad_core::{Collective, Schedule, Topology};

fn network(spec: &str) -> Digraph {
    Digraph::from_topology(&Topology::parse(spec).unwrap())
}

fn flow(spec: &str, demands: &Demands, gap: f64) -> Concurrent {
    concurrent_flow(&network(spec), demands, gap, &mut |_| true).unwrap()
}

/// The uniform demands as a matrix, so that no symmetry is known.
fn one_each(ranks: usize) -> Demands {
    Demands::matrix(ranks, vec![1.0; ranks * ranks]).unwrap()
}

/// The rates that linear programs find for these networks.
#[test]
fn rates_are_those_of_linear_programs() {
    for (spec, rate) in [
        ("hypercube:3", 1.0 / 4.0),
        ("complete-bipartite:4", 2.0 / 5.0),
        ("complete:5", 1.0),
        ("ring:8", 1.0 / 8.0),
        ("torus:3x3", 1.0 / 3.0),
        ("torus:4x4", 1.0 / 8.0),
        ("torus:5x5", 1.0 / 15.0),
        ("torus:3x3x3", 1.0 / 9.0),
    ] {
        let exact = flow(spec, &Demands::Uniform, 0.0);
        assert!((exact.rates()[0] - rate).abs() < 1e-6 * rate, "{spec}: {:?}", exact.rates());
        assert!(exact.gap() < 1e-6, "{spec}: {:?}", exact.rates());
        let ranks = network(spec).ranks();
        let found = flow(spec, &one_each(ranks), 0.002);
        assert!(found.gap() <= 0.002, "{spec}: {:?}", found.rates());
        let [least, most] = found.rates();
        assert!(least <= rate * (1.0 + 1e-6) && rate <= most * (1.0 + 1e-6), "{spec}: {:?}", found.rates());
    }
}

/// A demand of one pair takes paths that are much longer than the shortest one, and is solved exactly.
#[test]
fn few_pairs_are_solved_exactly() {
    let mut demands = vec![0.0; 64];
    demands[3] = 1.0;
    let demands = Demands::matrix(8, demands).unwrap();
    let found = flow("generalized-kautz:2:8", &demands, 0.0);
    assert_eq!(found.ended, Ended::Exact);
    assert!((found.load - 0.5).abs() < 1e-6 && found.bound <= 0.5 && found.gap() < 1e-6, "{found:?}");
    let network = network("generalized-kautz:3:40");
    let found = concurrent_flow(&network, &Demands::Uniform, 0.0, &mut |now| now.iteration < 5).unwrap();
    assert_eq!((found.ended, found.iterations), (Ended::Asked, 5));
}

#[test]
fn bounds_are_none_too_low() {
    for spec in ["petersen", "kautz:2:3", "generalized-kautz:4:20", "without(torus:4x4, 0-1)", "mesh:3x4"] {
        let network = network(spec);
        let found = concurrent_flow(&network, &Demands::Uniform, 0.005, &mut |_| true).unwrap();
        assert!(found.gap() <= 0.005, "{spec}: {:?}", found.rates());
        let bounds = FlowBounds::from_network(&network, &Demands::Uniform);
        for bound in [bounds.distance, bounds.rank, bounds.bisection.unwrap(), bounds.degree.unwrap()] {
            assert!(bound >= found.rates()[0] * (1.0 - 1e-9), "{spec}: {bounds:?}");
        }
    }
}

/// The bisection bound finds the narrow middle of a network.
#[test]
fn narrow_middles_are_found() {
    let pairs = |spec: &str, cables: &[(usize, usize)]| {
        Topology::parse(spec)
            .unwrap()
            .without_links(cables)
            .map(|left| Digraph::from_topology(&left))
            .unwrap()
    };
    for (network, rate) in [
        (network("ring:8"), 1.0 / 8.0),
        (network("torus:4x4"), 1.0 / 8.0),
        (network("torus:8x4"), 1.0 / 32.0),
        (network("hypercube:4"), 1.0 / 8.0),
        // A mesh without three of the four cables across its middle.
        (pairs("mesh:6x4", &[(8, 12), (9, 13), (11, 15)]), 1.0 / 144.0),
    ] {
        let found = FlowBounds::from_network(&network, &Demands::Uniform).bisection.unwrap();
        let flow = concurrent_flow(&network, &Demands::Uniform, 0.01, &mut |_| true).unwrap();
        assert!(found >= flow.rates()[0] * (1.0 - 1e-9), "{:?}: {found}", network.dimensions());
        assert!((found - rate).abs() < 1e-9, "{:?}: {found}, {rate}", network.dimensions());
    }
}

/// A host limits the rate if it sends less than its links carry, and only then.
#[test]
fn hosts_are_bottlenecks() {
    for (spec, rate) in [
        ("bottleneck(torus:3x3, 4)", 1.0 / 3.0),
        ("bottleneck(torus:3x3, 2)", 2.0 / 8.0),
        ("bottleneck(hypercube:3, 1)", 1.0 / 7.0),
        ("bottleneck(hypercube:3, 3)", 1.0 / 4.0),
        ("bottleneck(complete:5, 1)", 1.0 / 4.0),
    ] {
        let topology = Topology::parse(spec).unwrap();
        let network = Digraph::with_switches(&topology);
        let found = concurrent_flow(&network, &Demands::Uniform, 0.005, &mut |_| true).unwrap();
        let [least, most] = found.rates().map(|found| found / rate);
        assert!(
            found.gap() <= 0.005 && least <= 1.0 + 1e-6 && most >= 1.0 - 1e-6,
            "{spec}: {:?}",
            found.rates()
        );
        // `direct` achieves the same rate, because spreading over all shortest paths is optimal on these networks.
        let direct = ringroad_core::algorithms::find("direct").unwrap();
        let schedule = direct.build(&topology, ringroad_core::Collective::Alltoall).unwrap();
        let cost = ScheduleCost::from_schedule(&schedule, &topology).unwrap();
        let whole = cost.link_load() * topology.ranks() as f64;
        assert!((whole * rate - 1.0).abs() < 1e-6, "{spec}: {whole}");
    }
    assert!(Topology::parse("bottleneck(ring:4, 0)").is_err());
    assert!(Topology::parse("bottleneck(ring:4)").is_err());
}

/// Schedules made from a flow are valid, and their load is close to the bound of the flow.
#[test]
fn schedules_follow_the_flow() {
    for spec in [
        "ring:5",
        "torus:3x3",
        "torus:4x4",
        "petersen",
        "hypercube:4",
        "kautz:2:2",
        "generalized-kautz:4:20",
        "without(torus:4x4, 0-1)",
        "mesh:3x4",
        "biring:2:5",
        "complete:5",
        "torus:8x8",
        "generalized-kautz:4:60",
        "hypercube:6",
    ] {
        let network = network(spec);
        let topology = Topology::parse(spec).unwrap();
        let flow = concurrent_flow(&network, &Demands::Uniform, 0.005, &mut |_| true).unwrap();
        let (pieces, trips, load) = in_few_chunks(&network, &flow, 8, 0.03, Budget::UNLIMITED).unwrap();
        let diameter = topology.diameter();
        // On an arc that carries few chunks, one more chunk makes a difference.
        let one = 1.0 / pieces as f64;
        for (steps, most) in [(diameter, 1.5 * flow.bound), (3 * diameter, 1.06 * flow.bound + one)] {
            let made = schedule("flow", &network, &trips, pieces, load, steps, Budget::UNLIMITED).unwrap();
            made.verify().unwrap_or_else(|error| panic!("{spec}: {error}"));
            let longest = trips.iter().map(|trip| trip.arcs.len()).max().unwrap();
            assert!(made.steps.len() <= steps.max(longest), "{spec}: {} steps", made.steps.len());
            let cost = ScheduleCost::from_schedule(&made, &topology).unwrap();
            let whole = cost.link_load() * network.ranks() as f64;
            assert!(whole <= most, "{spec}: {whole} in {steps} steps, not {}", flow.bound);
            assert!(held_by_relays(&made) < 3 * made.chunks / network.ranks(), "{spec}");
        }
    }
}

/// Runs an all-to-all in which rank `s` has `counts[s * ranks + t]` elements for rank `t`.
fn exchange(schedule: &Schedule, counts: &[usize], local: bool, random: &mut Random) {
    let ranks = schedule.ranks;
    let value = |s: usize, t: usize, index: usize| ((s * ranks + t) * 1000 + index) as i64;
    let block = |s: usize, t: usize| (0..counts[s * ranks + t]).map(move |index| value(s, t, index));
    let input = |s: usize| (0..ranks).flat_map(move |t| block(s, t)).collect::<Vec<i64>>();
    let output = |t: usize| (0..ranks).flat_map(move |s| block(s, t)).collect::<Vec<i64>>();
    let local = LocalRanks { ranks: vec![local; ranks].into(), ..LocalRanks::default() };
    let options = LowerOptions { segment: 64, local, ..LowerOptions::default() };
    let machine = |rank: usize| {
        let plan = Plan::lower(schedule, rank, Counts::PerBlock(counts), 8, &options).unwrap();
        let buffers =
            [to_bytes(&input(rank)), vec![0xA5; 8 * output(rank).len()], vec![0xA5; plan.scratch()]];
        let executor = Executor::new(Arc::new(plan));
        Machine { executor, buffers, factor: 1, local: options.local.ranks.to_vec() }
    };
    let mut machines: Vec<Machine> = (0..ranks).map(machine).collect();
    drive::<i64>(&mut machines, Protocol::Rendezvous, random).unwrap_or_else(|stuck| panic!("{stuck}"));
    for (rank, machine) in machines.iter().enumerate() {
        assert_eq!(from_bytes::<i64>(&machine.buffers[1]), output(rank), "rank {rank}, {}", schedule.name);
        assert_eq!(from_bytes::<i64>(&machine.buffers[0]), input(rank), "rank {rank}, {}", schedule.name);
    }
}

/// All algorithms deliver blocks of any lengths, including vectors in which most blocks are empty.
#[test]
fn blocks_of_any_length_arrive() {
    let mut random = Random(7);
    for spec in ["torus:2x3", "without(torus:3x3, 0-1)", "hypercube:3", "hosts:2x2", "switch:5", "petersen"] {
        let topology = Topology::parse(spec).unwrap();
        let ranks = topology.ranks();
        for member in available(&topology, Collective::Alltoall) {
            let schedule = member.build(&topology, Collective::Alltoall).unwrap();
            for local in [false, true] {
                let most = random.pick(&[2, 9, 40]);
                let counts: Vec<usize> =
                    (0..ranks * ranks).map(|_| random.below(most) * random.below(3)).collect();
                exchange(&schedule, &counts, local, &mut random);
            }
            exchange(&schedule, &vec![0; ranks * ranks], false, &mut random);
        }
    }
}

#[test]
fn counts_that_make_no_sense_are_refused() {
    let topology = Topology::parse("petersen").unwrap();
    let flow = ringroad_core::algorithms::find("flow").unwrap();
    let schedule = flow.build(&topology, Collective::Alltoall).unwrap();
    let lower = |counts: &[usize]| {
        Plan::lower(&schedule, 0, Counts::PerBlock(counts), 8, &LowerOptions::default()).map(|_| ())
    };
    assert_eq!(lower(&[1; 100]), Ok(()));
    assert!(matches!(lower(&[1; 10]), Err(LowerError::Counts { counts: 10, .. })));
    assert!(matches!(lower(&[usize::MAX; 100]), Err(LowerError::TooLarge { .. })));
}

/// The cost of blocks of unequal lengths follows from their load on links.
#[test]
fn unequal_blocks_cost_what_they_carry() {
    let topology = Topology::parse("torus:3x3").unwrap();
    let ranks = topology.ranks();
    let direct = ringroad_core::algorithms::find("direct").unwrap();
    let schedule = direct.build(&topology, Collective::Alltoall).unwrap();
    let mut routes = Routes::new(&topology);
    let mut counts = vec![5; ranks * ranks];
    let even = ScheduleCost::with_blocks(&schedule, &counts, &mut routes).unwrap();
    let plain = ScheduleCost::from_schedule(&schedule, &topology).unwrap();
    assert!((even.link_load() - plain.link_load()).abs() < 1e-12);
    // Only rank 0 sends, and only to its neighbour: the mean of what ranks send is a ninth of that.
    counts.fill(0);
    counts[1] = 90;
    let one = ScheduleCost::with_blocks(&schedule, &counts, &mut routes).unwrap();
    assert!((one.link_load() - 9.0).abs() < 1e-12, "{}", one.link_load());
}

/// The shares of the paths of every pair are parts of a whole.
#[test]
fn shares_of_paths_add_up_to_1() {
    for spec in ["without(torus:3x4, 0-1)", "generalized-kautz:4:60", "hypercube:4"] {
        let network = network(spec);
        let flow = concurrent_flow(&network, &Demands::Uniform, 0.01, &mut |_| true).unwrap();
        for source in 0..network.ranks() {
            let mut sums = vec![0.0; network.ranks()];
            flow.each_path(source, |target, share, _| sums[target] += share);
            sums[source] = 1.0;
            assert!(sums.iter().all(|sum| (sum - 1.0).abs() < 1e-12), "{spec}, from {source}: {sums:?}");
        }
    }
}
