//! Calls with a wire format: every algorithm, with events in random order, ends with the same bits on all ranks and an
//! error within its bound. The format is int8, with a codec of the tests' own.

#[allow(dead_code)] // Other tests use the rest.
mod common;

use std::sync::Arc;

use common::driver::{drive, Machine, Protocol};
use common::element::{from_bytes, to_bytes};
use common::graphs::graphs;
use common::invariants::{check_messages, check_plan};
use common::twin::{answer, has_both, input_len, output_len, shared_starts};
use common::Random;
use ringroad_core::algorithms::{available, find, Member};
use ringroad_core::executor::Executor;
use ringroad_core::plan::LowerOptions;
use ringroad_core::schedule::Rounding;
use ringroad_core::{Collective, Plan, Rank, Schedule, Topology, Wire};

const POISON: u8 = 0xA5;

/// The options of all ranks of one call.
fn options(random: &mut Random, collective: Collective) -> LowerOptions {
    LowerOptions {
        segment: random.pick(&[64, 600, 5000, 16 << 10]),
        pack: random.pick(&[0, 300, 32 << 10]),
        window: random.pick(&[0, 300, 4096]),
        average: collective.reduces() && !collective.is_prefix() && random.coin(),
        wire: Some(Wire::Int8),
        ..LowerOptions::default()
    }
}

/// Runs one call and returns the ranks' results.
fn run(
    schedule: &Schedule,
    inputs: &[Vec<f32>],
    elements: usize,
    options: &LowerOptions,
    random: &mut Random,
) -> Vec<Vec<f32>> {
    let Schedule { collective, ranks, .. } = *schedule;
    let longest =
        options.segment.max(Wire::Int8.record()).max(elements * ranks * 4 / 2048 * schedule.slots());
    let mut machines = Vec::new();
    for (rank, input) in inputs.iter().enumerate() {
        let options = LowerOptions { in_place: random.coin(), ..options.clone() };
        let plan = Plan::lower(schedule, rank, elements, 4, &options).unwrap();
        let output = output_len(collective, ranks, rank, elements);
        let shared = options.in_place && has_both(collective, rank);
        let sizes = if shared { [0, input.len().max(output)] } else { [input.len(), output] };
        check_plan(
            &plan,
            sizes.map(|size| 4 * size),
            longest + Wire::Int8.record() + schedule.chunks * 8,
            false,
        );
        let scratch = vec![POISON; plan.scratch()];
        let mut memory = vec![POISON; 4 * sizes[1]];
        if shared {
            let start = 4 * shared_starts(collective, rank, elements).0;
            memory[start..start + 4 * input.len()].copy_from_slice(&to_bytes(input));
        }
        let first = if shared { Vec::new() } else { to_bytes(input) };
        let executor = Executor::new(Arc::new(plan));
        machines.push(Machine {
            executor,
            buffers: [first, memory, scratch],
            factor: 1,
            local: vec![false; ranks],
        });
    }
    check_messages(&machines.iter().map(|machine| &**machine.executor.plan()).collect::<Vec<_>>());
    let protocol = random.pick(&[Protocol::Eager, Protocol::Rendezvous, Protocol::EagerUpTo(300)]);
    drive::<f32>(&mut machines, protocol, random).unwrap_or_else(|stuck| panic!("{stuck}"));
    let result = |(rank, machine): (Rank, &Machine)| {
        let len = output_len(collective, ranks, rank, elements);
        let shared = machine.buffers[0].is_empty() && has_both(collective, rank);
        let start = if shared { shared_starts(collective, rank, elements).1 } else { 0 };
        from_bytes(&machine.buffers[1][4 * start..4 * (start + len)])
    };
    machines.iter().enumerate().map(result).collect()
}

fn largest(values: &[f32]) -> f64 {
    values.iter().fold(0.0, |top, x| f64::from(x.abs()).max(top))
}

/// How far the results are from those of exact calls, as a fraction of the sum of the ranks' largest magnitudes.
fn error(
    collective: Collective,
    inputs: &[Vec<f32>],
    results: &[Vec<f32>],
    elements: usize,
    average: bool,
) -> f64 {
    let ranks = inputs.len();
    let exact = answer(collective, inputs, elements, average);
    let tops = inputs.iter().map(|input| largest(input));
    let norm: f64 = if collective.reduces() { tops.sum() } else { tops.fold(0.0, f64::max) };
    let norm = if average { norm / ranks as f64 } else { norm };
    let far = |(result, exact): (&Vec<f32>, &Vec<f32>)| {
        result.iter().zip(exact).fold(0.0, |far, (a, b)| f64::from((a - b).abs()).max(far))
    };
    let most = results.iter().zip(&exact).map(far).fold(0.0, f64::max);
    if most == 0.0 {
        0.0
    } else {
        most / norm
    }
}

fn check(schedule: &Schedule, elements: usize, random: &mut Random) {
    let Schedule { collective, ranks, .. } = *schedule;
    let options = options(random, collective);
    let scale = |rank: Rank| 2f32.powi((rank % 5) as i32);
    let mut input = |rank: Rank| -> Vec<f32> {
        let len = input_len(collective, ranks, rank, elements);
        (0..len).map(|_| ((random.next() >> 40) as f32 / (1 << 23) as f32 - 1.0) * scale(rank)).collect()
    };
    let inputs: Vec<Vec<f32>> = (0..ranks).map(&mut input).collect();
    let results = run(schedule, &inputs, elements, &options, random);
    let rounding = Rounding::of(schedule).expect("it is small");
    let what =
        || format!("{} for {collective} over {ranks} ranks, {elements} elements, {options:?}", schedule.name);
    if collective == Collective::Allreduce && rounding.agrees {
        assert!(results.iter().all(|result| result == &results[0]), "{}: other bits", what());
    }
    assert!(rounding.roundings <= Rounding::most(schedule.steps.len()), "{}", what());
    let found = error(collective, &inputs, &results, elements, options.average);
    let bound = Wire::Int8.bound(rounding.roundings) + f64::from(f32::EPSILON) * ranks as f64;
    assert!(found <= bound, "{}: {found} instead of {bound}, {rounding:?}", what());
}

fn networks() -> Vec<Topology> {
    let sizes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16];
    let rings = sizes.into_iter().map(|ranks| Topology::ring(ranks).unwrap());
    let tori: [&[usize]; 4] = [&[2, 2], &[2, 4], &[3, 3], &[3, 2, 2]];
    let hosts = [(2, 2), (3, 2), (2, 4)].map(|(hosts, per_host)| Topology::hosts(hosts, per_host).unwrap());
    let graphs = graphs().into_iter().filter(|graph| graph.ranks() <= 9);
    rings.chain(tori.map(|sizes| Topology::torus(sizes).unwrap())).chain(hosts).chain(graphs).collect()
}

/// A member of which each parameter is as the catalogue says, but pipelines are short.
fn short(member: Member) -> Member {
    let algorithm = member.algorithm();
    find(&format!("{}:3", algorithm.name)).ok().filter(|_| algorithm.parameter.is_some()).unwrap_or(member)
}

#[test]
fn every_algorithm_ends_with_the_same_bits_within_its_bound() {
    let mut random = Random(17);
    let mut calls = 0;
    for topology in networks() {
        for collective in Collective::ALL.map(|collective| collective.with_root(topology.ranks() / 2)) {
            for member in available(&topology, collective).into_iter().flat_map(|m| [m, short(m)]) {
                let Ok(schedule) = member.build(&topology, collective) else { continue };
                let lengths = [0, 1, topology.ranks() + 1, 700, 3000];
                let elements = random.pick(&lengths);
                check(&schedule, elements, &mut random);
                calls += 1;
            }
        }
    }
    assert!(calls > 1000, "{calls} calls");
}

/// Algorithms in which ranks add up the same values in different ways, some of which they have sent, cannot have a format:
/// calls by them are refused. All others that are bit-identical without a format are so with one, too.
const REFUSED: [&str; 2] = ["generalized", "generalized-xor"];

#[test]
fn replicas_stay_bit_identical() {
    let mut refused = std::collections::BTreeSet::new();
    for topology in networks() {
        for member in available(&topology, Collective::Allreduce) {
            let Ok(schedule) = member.build(&topology, Collective::Allreduce) else { continue };
            let rounding = Rounding::of(&schedule).unwrap();
            if member.bit_identical(&topology, Collective::Allreduce) && !rounding.agrees {
                refused.insert(member.algorithm().name);
            }
        }
    }
    assert!(refused.iter().all(|name| REFUSED.contains(name)), "{refused:?}");
}

/// A ring rounds every sum once per rank and an exchange with all ranks at once rounds twice. The bound is no more than
/// twice the error of the worst input.
#[test]
fn bounds_are_reached() {
    let ranks = 16;
    let topology = Topology::ring(ranks).unwrap();
    let build = |name: &str| find(name).unwrap().build(&topology, Collective::Allreduce).unwrap();
    let options = LowerOptions { wire: Some(Wire::Int8), ..LowerOptions::default() };
    // One rank's outlier sets the scale of a chunk, and all others lie just below half of it. The worst is the rank from
    // which the chunk's sum starts; in a direct exchange all have outliers.
    let elements = 256 * ranks;
    let input = |name: &str, rank: Rank, first: usize| -> Vec<f32> {
        let top = if name == "direct" || rank == first { 127.0 } else { 0.49 };
        (0..elements).map(|i| if i == 0 { top } else { 0.49 * f32::from(u8::from(i < 256)) }).collect()
    };
    for (name, roundings) in [("ring", 16), ("direct", 2)] {
        let schedule = build(name);
        let rounding = Rounding::of(&schedule).unwrap();
        assert_eq!(rounding, Rounding { agrees: true, roundings }, "{name}");
        let errors = (0..ranks).map(|first| {
            let inputs: Vec<Vec<f32>> = (0..ranks).map(|rank| input(name, rank, first)).collect();
            let results = run(&schedule, &inputs, elements, &options, &mut Random(3));
            error(Collective::Allreduce, &inputs, &results, elements, false)
        });
        let found = errors.fold(0.0, f64::max);
        let bound = Wire::Int8.bound(roundings);
        assert!(found <= bound && bound <= 4.0 * found, "{name}: {found} instead of {bound}");
    }
}
