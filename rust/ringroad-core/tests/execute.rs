//! Compares plans and executors with their slow twins: every algorithm, with events in random order, by every protocol.
//!
//! By default the larger groups, and the lengths of all, are sampled; `RINGROAD_TEST_FULL=1` runs many times as many calls.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::driver::{drive, Machine, Protocol};
use common::element::{from_bytes, to_bytes, Element};
use common::graphs::graphs;
use common::invariants::{check_messages, check_plan, overlap};
use common::twin::{answer, has_both, input_len, output_len, replay, shared_starts};
use common::Random;
use proptest::prelude::*;
use ringroad_core::algorithms::in_trees::{perform, Give, InTrees, Table};
use ringroad_core::algorithms::{available, catalogue, find, Algorithm, Member, Ports};
use ringroad_core::executor::Executor;
use ringroad_core::interchange::msccl;
use ringroad_core::plan::{Buffer, Command, LocalRanks, LowerError, LowerOptions, MAX_MESSAGES};
use ringroad_core::schedule::Local;
use ringroad_core::{Action, ChunkSet, Collective, Plan, Rank, Schedule, Send, Step, Topology};

/// The value of memory that has not been written.
const POISON: u8 = 0xA5;

/// One call: the number of elements, the options of each rank, the protocols, and the seed of all random choices.
#[derive(Debug, Clone)]
struct Call {
    elements: usize,
    options: Vec<LowerOptions>,
    protocols: Vec<Protocol>,
    seed: u64,
}

impl Call {
    /// Random options that ranks may have for one call. Memory sharing, multiplication, window and areas may differ
    /// between ranks.
    fn any(collective: Collective, ranks: usize, elements: usize, seed: u64) -> Call {
        let mut random = Random(seed);
        let segment = random.pick(&[16, 64, 200, 16 << 10]);
        let pack = random.pick(&[0, 32, 32 << 10]);
        let average = collective.reduces() && random.coin();
        let hosts = hosts(ranks, &mut random);
        let part = random.pick(&[100, 300, 1000, usize::MAX, usize::MAX, usize::MAX]);
        let local_segment = random.pick(&[16, 64, 200, 16 << 10]);
        let (in_place, premultiply) = (random.below(3), random.below(3));
        let mut own = |mode: usize| mode == 1 || mode == 2 && random.coin();
        let mut options: Vec<LowerOptions> = (0..ranks)
            .map(|rank| LowerOptions {
                local: LocalRanks {
                    ranks: hosts.iter().map(|host| *host == hosts[rank] && hosts[rank] > 0).collect(),
                    segment: local_segment,
                    ..LocalRanks::default()
                },
                in_place: own(in_place),
                premultiply: collective.reduces() && own(premultiply),
                average,
                segment,
                pack,
                window: 0,
                part,
                ..LowerOptions::default()
            })
            .collect();
        for o in &mut options {
            (o.window, o.two_areas) = (random.pick(&[0, 64, 300, 4096]), random.coin());
        }
        for local in options.iter_mut().map(|o| &mut o.local) {
            (local.input, local.output, local.zero_copy) =
                (random.coin(), random.coin(), random.pick(&[0, 100]));
            local.copies = random.pick(&[None, Some(1), Some(100)]);
        }
        let all = [Protocol::Eager, Protocol::Rendezvous, Protocol::EagerUpTo(32)];
        let protocols = if ranks <= 8 { all.to_vec() } else { vec![random.pick(&all[..2])] };
        Call { elements, options, protocols, seed }
    }
}

/// The host of each rank: 0 for all where no ranks share memory, the same host for all, or random hosts.
fn hosts(ranks: usize, random: &mut Random) -> Vec<usize> {
    let hosts = random.pick(&[0, 0, 1, 1, 2, 3]);
    (0..ranks).map(|_| if hosts < 2 { hosts } else { random.below(hosts + 1) }).collect()
}

/// Lowers for all ranks, runs the plans in an order that the seed determines, and compares with both slow twins.
fn check<T: Element>(schedule: &Schedule, bit_identical: bool, call: &Call) {
    let Schedule { collective, ranks, .. } = *schedule;
    let Call { elements, options, .. } = call;
    let mut random = Random(call.seed ^ 0x5EED);
    let average = options[0].average;
    let inputs: Vec<Vec<T>> = (0..ranks)
        .map(|rank| {
            (0..input_len(collective, ranks, rank, *elements)).map(|_| T::random(&mut random)).collect()
        })
        .collect();
    let factor = |rank: Rank| if options[rank].premultiply { (rank % 4 + 2) as u8 } else { 1 };
    let scaled: Vec<Vec<T>> =
        (0..ranks).map(|rank| inputs[rank].iter().map(|x| x.scale(factor(rank))).collect()).collect();
    let replayed = replay(schedule, &scaled, *elements, average);
    let answered = answer(collective, &scaled, *elements, average);

    let mut machines = machines(schedule, &inputs, call, T::BYTES);
    for protocol in &call.protocols {
        for (rank, machine) in machines.iter_mut().enumerate() {
            machine.factor = factor(rank);
            machine.executor.rewind();
            fill_buffers(machine, collective, rank, ranks, &inputs[rank], call);
        }
        drive::<T>(&mut machines, *protocol, &mut random).unwrap_or_else(|stuck| panic!("{stuck}"));
        for (rank, machine) in machines.iter_mut().enumerate() {
            let shared = options[rank].in_place && has_both(collective, rank);
            let start = if shared { shared_starts(collective, rank, *elements).1 } else { 0 };
            let len = output_len(collective, ranks, rank, *elements);
            let output = &machine.buffers[1][start * T::BYTES..(start + len) * T::BYTES];
            let got: Vec<T> = from_bytes(output);
            assert!(
                output == to_bytes(&replayed[rank]),
                "rank {rank}: {got:?}, replayed {:?}",
                replayed[rank]
            );
            let agrees = got.iter().zip(&answered[rank]).all(|(a, b)| a.agrees(*b, ranks));
            assert!(agrees, "rank {rank}: {got:?}, not {:?}", answered[rank]);
            assert!(shared || machine.buffers[0] == to_bytes(&inputs[rank]), "rank {rank} wrote its input");
        }
        if bit_identical && collective == Collective::Allreduce {
            assert!(
                machines.iter().all(|m| m.buffers[1] == machines[0].buffers[1]),
                "ranks end with other bits"
            );
        }
    }
}

/// Machines with plans, whose invariants are checked, and without memory.
fn machines<T: Element>(schedule: &Schedule, inputs: &[Vec<T>], call: &Call, element: usize) -> Vec<Machine> {
    let Schedule { collective, ranks, .. } = *schedule;
    let Call { elements, options, .. } = call;
    let plans: Vec<Arc<Plan>> = (0..ranks)
        .map(|rank| Arc::new(Plan::lower(schedule, rank, *elements, element, &options[rank]).unwrap()))
        .collect();
    // The documented limit, rounded up to whole elements, and longer for very long vectors.
    let longest = options[0]
        .segment
        .max(options[0].local.segment)
        .max(elements * ranks * element / 2048 * schedule.slots())
        + element
        - 1;
    for (rank, plan) in plans.iter().enumerate() {
        let (input, output) = (inputs[rank].len(), output_len(collective, ranks, rank, *elements));
        let shared = options[rank].in_place && has_both(collective, rank);
        let sizes = if shared { [0, input.max(output)] } else { [input, output] };
        check_plan(plan, sizes.map(|size| size * element), longest, options[0].part < usize::MAX);
    }
    check_messages(&plans.iter().map(|p| &**p).collect::<Vec<_>>());
    let machine = |(rank, plan): (Rank, Arc<Plan>)| Machine {
        executor: Executor::new(plan),
        buffers: Default::default(),
        factor: 1,
        local: (0..ranks).map(|r| options[rank].local.ranks.get(r).copied().unwrap_or(false)).collect(),
    };
    plans.into_iter().enumerate().map(machine).collect()
}

/// Fills the memory of a machine with its contents before a call.
fn fill_buffers<T: Element>(
    machine: &mut Machine,
    collective: Collective,
    rank: Rank,
    ranks: usize,
    input: &[T],
    call: &Call,
) {
    let output = output_len(collective, ranks, rank, call.elements);
    let scratch = vec![POISON; machine.executor.plan().scratch()];
    machine.buffers = if call.options[rank].in_place && has_both(collective, rank) {
        let mut both = vec![POISON; input.len().max(output) * T::BYTES];
        let start = shared_starts(collective, rank, call.elements).0 * T::BYTES;
        both[start..start + input.len() * T::BYTES].copy_from_slice(&to_bytes(input));
        [Vec::new(), both, scratch]
    } else {
        [to_bytes(input), vec![POISON; output * T::BYTES], scratch]
    };
}

/// Prints the call if it fails.
struct Named<'a>(&'a Schedule, &'a Call, &'static str);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Named(schedule, call, element) = self;
            let (name, collective, ranks) = (&schedule.name, schedule.collective, schedule.ranks);
            eprintln!("in {name}, {collective} over {ranks} ranks, elements {element}, {call:?}");
        }
    }
}

/// Checks one call on elements of a random type.
fn check_any(schedule: &Schedule, bit_identical: bool, call: &Call) {
    let (run, element): (fn(&Schedule, bool, &Call), _) = match Random(call.seed ^ 0x717E).below(3) {
        0 => (check::<i64>, "i64"),
        1 => (check::<f32>, "f32"),
        _ => (check::<u8>, "u8"),
    };
    let _named = Named(schedule, call, element);
    run(schedule, bit_identical, call);
}

/// Lengths around those at which the layout changes.
fn lengths(collective: Collective, ranks: usize, random: &mut Random) -> Vec<usize> {
    let long = if collective.has_blocks() { 1000 / ranks + 1 } else { 1000 };
    vec![long, ranks - 1, ranks, ranks + 1, 2 * ranks + 3, random.below(300), 0, 1, 2]
}

/// Networks to run on: every size of ring up to 64, tori and hosts.
fn topologies() -> Vec<Topology> {
    let rings = (1..=64).map(|ranks| Topology::ring(ranks).unwrap());
    let tori: [&[usize]; 9] =
        [&[2, 2], &[2, 4], &[3, 3], &[1, 5], &[3, 2, 2], &[4, 4], &[5, 4], &[3, 9], &[4, 4, 4]];
    let hosts = [(2, 2), (2, 3), (3, 2), (4, 4), (3, 5), (5, 3)];
    let hosts = hosts.map(|(hosts, per_host)| Topology::hosts(hosts, per_host).unwrap());
    rings.chain(tori.map(|sizes| Topology::torus(sizes).unwrap())).chain(hosts).collect()
}

/// The networks for an algorithm. Algorithms for any graph also run on graphs, but on small networks only, because they
/// search.
fn networks_for(algorithm: &Algorithm) -> Vec<Topology> {
    if algorithm.ports != Ports::Any {
        return topologies();
    }
    let small = topologies().into_iter().filter(|topology| topology.ranks() <= 9);
    small.chain(graphs()).collect()
}

/// A random member of a family; of pipelines one with few parts.
fn any_member(algorithm: &'static Algorithm, topology: &Topology, random: &mut Random) -> Member {
    if algorithm.ports == Ports::Any && algorithm.parameter.is_some() {
        return find(&format!("{}:{}", algorithm.name, random.pick(&[1, 5, 40]))).unwrap();
    }
    random.pick(&algorithm.members(topology))
}

fn check_algorithm(name: &str) {
    let full = std::env::var_os("RINGROAD_TEST_FULL").is_some();
    let algorithm = find(name).unwrap().algorithm();
    let mut random = Random(name.bytes().fold(7, |seed: u64, b| seed.wrapping_mul(31) + u64::from(b)));
    let mut networks = networks_for(algorithm);
    if !full {
        // Of the larger networks a random eighth, which differs between algorithms.
        networks.retain(|topology| topology.ranks() <= 9 || random.below(8) == 0);
    }
    for (topology, collective) in networks.iter().flat_map(|t| algorithm.collectives().map(move |c| (t, c))) {
        let ranks = topology.ranks();
        let roots = BTreeSet::from([0, ranks / 2, ranks - 1]);
        let roots = roots.into_iter().take(if collective.root().is_some() { 3 } else { 1 });
        for collective in roots.map(|root| collective.with_root(root)) {
            if algorithm.members(topology).iter().all(|m| m.supports(topology, collective).is_err()) {
                continue;
            }
            let mut lengths = lengths(collective, ranks, &mut random);
            if !full && ranks > 9 {
                // A length at which few chunks are empty, and for groups of medium size any other.
                let any = random.below(lengths.len());
                let picked = [lengths[random.below(2)], lengths[any]];
                lengths = if ranks <= 32 { picked.to_vec() } else { vec![random.pick(&picked)] };
            }
            let times = if full { 8 } else { 1 };
            for elements in lengths.into_iter().flat_map(|e| std::iter::repeat_n(e, times)) {
                let member = any_member(algorithm, topology, &mut random);
                let Ok(schedule) = member.build(topology, collective) else { continue };
                let call = Call::any(collective, ranks, elements, random.next());
                check_any(&schedule, member.bit_identical(topology, collective), &call);
            }
        }
    }
}

include!("common/every_algorithm.rs");
every_algorithm!(check_algorithm);

/// Default options, with vectors of several segments.
#[test]
fn default_options() {
    for topology in [2, 3, 4].map(|ranks| Topology::ring(ranks).unwrap()) {
        for (algorithm, collective) in catalogue().flat_map(|a| a.collectives().map(move |c| (a, c))) {
            for member in algorithm.members(&topology) {
                let Ok(schedule) = member.build(&topology, collective) else { continue };
                let options = vec![LowerOptions::default(); topology.ranks()];
                let protocols = vec![Protocol::EagerUpTo(8 << 10)];
                let call = Call { elements: 150_001, options, protocols, seed: 9 };
                check::<i64>(&schedule, member.bit_identical(&topology, collective), &call);
            }
        }
    }
}

/// Schedules that other programs have made: `MSCCL_FILES=directory cargo test --test execute -- --ignored --nocapture`.
#[test]
#[ignore = "reads files that are not part of the project"]
fn files_of_other_programs() {
    let directory =
        std::env::var_os("MSCCL_FILES").expect("MSCCL_FILES is a directory with XML files of MSCCL");
    let mut random = Random(31);
    let mut paths: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let schedule = match msccl::read(&std::fs::read_to_string(&path).unwrap()) {
            Ok(schedule) => schedule,
            Err(error) => {
                println!("{name}: refused: {error}");
                continue;
            }
        };
        let Schedule { collective, ranks, chunks, .. } = schedule;
        let (steps, slots) = (schedule.steps.len(), schedule.slots());
        println!("{name}: {collective} over {ranks} ranks, {steps} steps, {chunks} chunks, {slots} slots");
        schedule.verify().unwrap();
        let again = msccl::read(&msccl::write(&schedule).unwrap()).unwrap();
        assert_eq!((again.digest(), &again), (schedule.digest(), &schedule));
        for elements in [7, 1000] {
            check_any(&schedule, false, &Call::any(collective, ranks, elements, random.next()));
        }
    }
}

/// Random in-trees: every rank gives to a rank that gives later, or to the block's own rank.
fn any_table(ranks: usize, levels: usize, random: &mut Random) -> Table {
    let mut gives = Vec::new();
    for block in 0..ranks {
        let level: Vec<usize> =
            (0..ranks).map(|rank| if rank == block { levels } else { random.below(levels) }).collect();
        for rank in 0..ranks {
            let later: Vec<Rank> = (0..ranks).filter(|other| level[*other] > level[rank]).collect();
            let parent = if rank == block { rank } else { random.pick(&later) };
            gives.push(Give { level: level[rank], parent, port: random.below(2) });
        }
    }
    Table::new(ranks, |rank, block| gives[block * ranks + rank])
}

/// Adds random messages and local operations where the result remains right: so memory is written, read and written
/// again, and chunks are exchanged within a step.
fn add_detours(schedule: &mut Schedule, random: &mut Random) {
    let Schedule { ranks, chunks, .. } = *schedule;
    for _ in 0..8 * ranks {
        let (source, up) = (random.below(ranks), 1 + random.below(ranks - 1));
        let chunk = random.below(chunks);
        let reduces = schedule.collective.reduces() && random.below(4) == 0;
        let step = random.below(schedule.steps.len());
        schedule.steps[step].sends.push(Send {
            source,
            destination: (source + up) % ranks,
            chunks: ChunkSet::range(chunk, chunk + 1),
            action: if reduces { Action::Reduce } else { Action::Copy },
            port: 0,
            from: random.below(4) / 3,
            into: random.below(3) % 2,
        });
        if schedule.verify().is_err() {
            schedule.steps[step].sends.pop();
        }
        for _ in 0..4 {
            let (from, up) = (random.below(5), 1 + random.below(4));
            let step = random.below(schedule.steps.len());
            let action = if reduces { Action::Reduce } else { Action::Copy };
            let chunks = ChunkSet::range(chunk, chunk + 1);
            let local = Local { rank: random.below(ranks), chunks, action, from, into: (from + up) % 5 };
            schedule.steps[step].locals.push(local);
            if schedule.verify().is_err() {
                schedule.steps[step].locals.pop();
            }
        }
    }
}

/// A random schedule of one of the three collectives that in-trees perform.
fn any_schedule(random: &mut Random) -> Schedule {
    let ranks = 2 + random.below(9);
    let mut trees = || {
        let levels = 1 + random.below(5);
        any_table(ranks, levels, random)
    };
    let (scatter, gather) = (trees(), trees());
    let both = |scatter: &Table, gather: &Table| {
        (InTrees::from_table(scatter.clone()), InTrees::from_table(gather.clone()))
    };
    let slices = [both(&scatter, &gather), both(&scatter.mirrored(), &gather.mirrored())];
    let collective = random.pick(&[
        Collective::Allreduce,
        Collective::Allreduce,
        Collective::ReduceScatter,
        Collective::Allgather,
    ]);
    perform("any", collective, &slices[..1 + random.below(2)])
}

/// A message of chunk 0 between slots.
fn between(source: (Rank, usize), destination: (Rank, usize), action: Action) -> Send {
    let ((source, from), (destination, into)) = (source, destination);
    Send { source, destination, chunks: ChunkSet::range(0, 1), action, port: 0, from, into }
}

/// A step in which two ranks exchange chunk 0 between these slots, and then perform these local operations `(into,
/// action, from)`.
fn both_ways(sent: Option<(usize, usize)>, own: &[(usize, Action, usize)]) -> Step {
    let sends = sent
        .into_iter()
        .flat_map(|(from, into)| [0, 1].map(|rank| between((rank, from), (1 - rank, into), Action::Copy)));
    let chunks = || ChunkSet::range(0, 1);
    let locals = [0, 1].into_iter().flat_map(|rank| {
        own.iter().map(move |&(into, action, from)| Local { rank, chunks: chunks(), action, from, into })
    });
    Step { sends: sends.collect(), locals: locals.collect() }
}

/// Slots that share their places, which are then written, sent, received into and copied again.
#[test]
fn slots_that_share_places() {
    use Action::{Copy, Reduce};
    let cases: [&[Step]; 5] = [
        &[
            both_ways(Some((0, 1)), &[(3, Copy, 0), (0, Reduce, 1), (2, Copy, 1), (1, Copy, 0)]),
            both_ways(Some((0, 0)), &[(3, Reduce, 2), (0, Copy, 3)]),
        ],
        &[both_ways(Some((0, 1)), &[(2, Copy, 1), (1, Copy, 0), (0, Reduce, 2)])],
        &[both_ways(Some((0, 1)), &[(2, Copy, 1), (1, Copy, 0), (1, Reduce, 2), (0, Copy, 1)])],
        // A rank sends from a slot that shares its place with the slot into which it receives.
        &[both_ways(None, &[(1, Copy, 0)]), both_ways(Some((1, 0)), &[(0, Reduce, 1)])],
        &[both_ways(Some((0, 1)), &[]), both_ways(None, &[(0, Reduce, 1)])],
    ];
    for steps in cases {
        let mut schedule = Schedule::empty("slots", Collective::Allreduce, 2, 1);
        schedule.steps = steps.to_vec();
        schedule.verify().unwrap_or_else(|error| panic!("{error}:\n{schedule}"));
        let halves = Schedule::split("halves", &[schedule.clone(), schedule.clone()]).unwrap();
        for schedule in [schedule, halves] {
            schedule.verify().unwrap();
            (0..60)
                .for_each(|seed| check_any(&schedule, true, &Call::any(Collective::Allreduce, 2, 40, seed)));
        }
    }
}

/// Empty chunks share no place, even at the same position.
#[test]
fn slots_of_nothing() {
    let mut schedule =
        find("pairwise").unwrap().build(&Topology::ring(2).unwrap(), Collective::Alltoall).unwrap();
    schedule = schedule.expand();
    let chunks = ChunkSet::range(1, 2);
    schedule.push(vec![Send { chunks, ..between((1, 0), (0, 1), Action::Copy) }]);
    schedule.verify().unwrap();
    (0..40).for_each(|seed| check_any(&schedule, true, &Call::any(Collective::Alltoall, 2, 0, seed)));
}

/// Corrupts a message of a schedule in which no message is superfluous.
fn spoil(schedule: &mut Schedule, random: &mut Random) {
    let step = random.below(schedule.steps.len());
    let sends = &mut schedule.steps[step].sends;
    let index = random.below(sends.len());
    match random.below(3) {
        0 => drop(sends.remove(index)),
        1 => sends.push(sends[index].clone()),
        _ if schedule.collective == Collective::Allgather => drop(sends.remove(index)),
        _ => {
            let action = &mut sends[index].action;
            *action = if *action == Action::Copy { Action::Reduce } else { Action::Copy };
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if std::env::var_os("RINGROAD_TEST_FULL").is_some() { 20_000 } else { 150 },
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(11),
        ..ProptestConfig::default()
    })]

    /// Schedules that the verifier accepts compute what they claim.
    #[test]
    fn any_verified_schedule(seed in any::<u64>(), elements in 0usize..200) {
        let mut random = Random(seed);
        let mut schedule = any_schedule(&mut random);
        schedule.verify().unwrap();
        let detours = random.coin();
        if detours {
            add_detours(&mut schedule, &mut random);
        }
        let call = Call::any(schedule.collective, schedule.ranks, elements, random.next());
        check_any(&schedule, !detours, &call);
    }

    #[test]
    fn no_spoilt_schedule_is_verified(seed in any::<u64>()) {
        let mut random = Random(seed);
        let mut schedule = any_schedule(&mut random);
        spoil(&mut schedule, &mut random);
        prop_assert!(schedule.verify().is_err(), "{schedule}");
    }

    /// In-trees in which a rank gives too late are invalid.
    #[test]
    fn giving_too_late_loses_data(seed in any::<u64>()) {
        let mut random = Random(seed);
        let (ranks, levels) = (3 + random.below(8), 2 + random.below(4));
        let trees = any_table(ranks, levels, &mut random);
        let pairs = (0..ranks).flat_map(|rank| (0..ranks).map(move |block| (rank, block)));
        let inner: Vec<_> = pairs.filter(|(r, b)| r != b && trees.give(*r, *b).parent != *b).collect();
        prop_assume!(!inner.is_empty());
        let (rank, block) = random.pick(&inner);
        let late = trees.give(trees.give(rank, block).parent, block).level + random.below(2);
        let spoilt = Table::new(ranks, |r, b| {
            let give = trees.give(r, b);
            if (r, b) == (rank, block) { Give { level: late, ..give } } else { give }
        });
        let spoilt = InTrees::from_table(spoilt);
        let schedule = perform("any", Collective::ReduceScatter, &[(spoilt.clone(), spoilt)]);
        prop_assert!(schedule.verify().is_err());
    }
}

fn broadcast(steps: usize) -> Schedule {
    let mut schedule = Schedule::empty("repeated", Collective::Broadcast { root: 0 }, 2, 1);
    let chunks = ChunkSet::range(0, 1);
    let send = Send { source: 0, destination: 1, chunks, action: Action::Copy, port: 0, from: 0, into: 0 };
    (0..steps).for_each(|_| schedule.push(vec![send.clone()]));
    schedule
}

#[test]
fn what_cannot_be_lowered() {
    let lower = |schedule: &Schedule, rank, elements, bytes| {
        Plan::lower(schedule, rank, elements, bytes, &LowerOptions::default())
    };
    let most = broadcast(MAX_MESSAGES as usize);
    most.verify().unwrap();
    for rank in 0..2 {
        assert!(lower(&most, rank, 1, 4).is_ok());
        let peer = 1 - rank;
        let error = lower(&broadcast(MAX_MESSAGES as usize + 1), rank, 1, 4).unwrap_err();
        assert_eq!(error, LowerError::TooManyMessages { peer });
        assert!(error.to_string().contains(&MAX_MESSAGES.to_string()), "{error}");
    }

    let ring = find("ring").unwrap().build(&Topology::ring(4).unwrap(), Collective::ReduceScatter).unwrap();
    assert_eq!(lower(&ring, 4, 1, 4).unwrap_err(), LowerError::NoSuchRank { rank: 4, ranks: 4 });
    for (elements, element_bytes) in [(usize::MAX, 1), (usize::MAX / 4, 8), (1 << 60, 8), (1, usize::MAX)] {
        let error = lower(&ring, 0, elements, element_bytes).unwrap_err();
        assert_eq!(error, LowerError::TooLarge { elements, element_bytes });
    }
    assert!(lower(&ring, 0, 1 << 48, 8).is_ok(), "whatever may exist can be lowered");

    let mut premature = Schedule::empty("premature", Collective::Broadcast { root: 0 }, 2, 1);
    premature.steps = broadcast(1).reverse().unwrap().steps;
    let error = lower(&premature, 1, 1, 4).unwrap_err();
    assert_eq!(error, LowerError::NotHeld { step: 0, rank: 1, chunk: 0 });
}

/// Long vectors are cut into longer segments, so that messages can always be numbered.
#[test]
fn long_vectors_have_few_messages() {
    let options = LowerOptions { segment: 1, ..LowerOptions::default() };
    for topology in [2, 4, 27, 64].map(|ranks| Topology::ring(ranks).unwrap()) {
        for (algorithm, collective) in catalogue().flat_map(|a| a.collectives().map(move |c| (a, c))) {
            for member in algorithm.members(&topology) {
                let Ok(schedule) = member.build(&topology, collective) else { continue };
                let plan = Plan::lower(&schedule, topology.ranks() / 2, 1 << 32, 4, &options);
                assert!(plan.is_ok(), "{member} {collective} on {topology}: {plan:?}");
            }
        }
    }
}

/// Rank 0's plans for 12,000 elements of 4 bytes, by several algorithms, where all ranks are near.
fn local_allreduces(part: usize) -> Vec<(String, Plan)> {
    let lowered = |(name, ranks): (&str, usize)| {
        let topology = Topology::switch(ranks).unwrap();
        let schedule = find(name).unwrap().build(&topology, Collective::Allreduce).unwrap();
        let local = LocalRanks { ranks: vec![true; ranks].into(), segment: 4096, ..LocalRanks::default() };
        let options = LowerOptions { local, part, ..LowerOptions::default() };
        (format!("{name} of {ranks}"), Plan::lower(&schedule, 0, 12_000, 4, &options).unwrap())
    };
    [("direct", 2), ("direct", 4), ("ring", 3), ("recursive_doubling", 4)].map(lowered).into()
}

/// Reductions also write their results where local ranks read them, so no copy is needed.
#[test]
fn reductions_write_where_near_ranks_read() {
    for (name, plan) in local_allreduces(16 << 10) {
        let (mut sums, mut also_written) = (Vec::new(), 0);
        for operation in plan.operations() {
            match operation.command {
                Command::Copy { source, .. } => {
                    assert!(!sums.iter().any(|sum| overlap(*sum, source)), "{name}: {operation:?}");
                }
                Command::Reduce { target, also, .. } => {
                    sums.push(target);
                    also_written += usize::from(also.is_some());
                }
                _ => {}
            }
        }
        assert!(also_written > 1, "{name}");
    }
}

/// [`Plan::readers`] returns the receivers of all messages out of memory that an operation writes for local ranks.
#[test]
fn readers_of_written_memory_are_known() {
    for (name, plan) in local_allreduces(16 << 10) {
        let mut read = 0;
        for (number, operation) in (0..).zip(plan.operations()) {
            let written = match operation.command {
                Command::Reduce { also: Some(also), .. } => also,
                Command::Copy { target, .. } if target.buffer == Buffer::Scratch => target,
                _ => continue,
            };
            // The same memory may be written again later.
            let again = |command: Command| match command {
                Command::Reduce { also: Some(also), .. } => overlap(also, written),
                Command::Copy { target, .. } => overlap(target, written),
                _ => false,
            };
            let later = &plan.operations()[number as usize + 1..];
            let until = later.iter().position(|later| again(later.command)).unwrap_or(later.len());
            let mut peers: Vec<Rank> = later[..until]
                .iter()
                .filter_map(|later| match later.command {
                    Command::Send { peer, source, .. } if overlap(source, written) => Some(peer),
                    _ => None,
                })
                .collect();
            let mut readers: Vec<Rank> = plan.readers(number, written).collect();
            peers.sort_unstable();
            readers.sort_unstable();
            assert_eq!(readers, peers, "{name}: {number}");
            read += readers.len();
        }
        assert!(read > 1, "{name}");
    }
}

/// [`Command::Expect`] starts only when no other operation may start, to give messages time to arrive.
#[test]
fn expected_messages_start_last() {
    for (name, plan) in local_allreduces(4 << 10) {
        let plan = Arc::new(plan);
        let expects =
            |number: u32| matches!(plan.operations()[number as usize].command, Command::Expect { .. });
        let mut executor = Executor::new(plan.clone());
        let mut run = || {
            let mut pending = plan.pending().to_vec();
            let mut order: Vec<u32> = Vec::new();
            while let Some(number) = executor.start() {
                order.push(number);
                let others = (0..pending.len() as u32).filter(|other| !order.contains(other));
                let mut ready = others.filter(|other| pending[*other as usize] == 0);
                assert!(!expects(number) || ready.all(expects), "{name}: {number} after {order:?}");
                executor.complete(number);
                plan.dependents(number).iter().for_each(|d| pending[*d as usize] -= 1);
            }
            assert!(executor.is_done());
            executor.rewind();
            order
        };
        let order = run();
        assert!(order.iter().any(|number| expects(*number)));
        assert_eq!(run(), order, "{name}, once more");
    }
}

/// Plans with a single message, and the driver's error when the other side is missing.
#[test]
fn single_messages_and_deadlocks() {
    let machine = |plan: Plan, input: &[u8], output: usize| Machine {
        executor: Executor::new(Arc::new(plan)),
        buffers: [input.to_vec(), vec![POISON; output], Vec::new()],
        factor: 1,
        local: vec![false; 2],
    };
    for protocol in [Protocol::Eager, Protocol::Rendezvous] {
        let mut pair = [machine(Plan::send(1, 0, 3), b"abc", 0), machine(Plan::receive(0, 0, 3), b"", 3)];
        drive::<u8>(&mut pair, protocol, &mut Random(1)).unwrap();
        assert_eq!(pair[1].buffers[1], b"abc");

        let mut lonely = [machine(Plan::receive(1, 0, 3), b"", 3), machine(Plan::receive(0, 0, 3), b"", 3)];
        let error = drive::<u8>(&mut lonely, protocol, &mut Random(1)).unwrap_err();
        assert!(error.contains("rank 0 waits for 0") && error.contains("rank 1 waits for 0"), "{error}");

        let mut unheard = [machine(Plan::send(1, 0, 3), b"abc", 0), machine(Plan::send(0, 0, 3), b"abc", 0)];
        assert!(drive::<u8>(&mut unheard, protocol, &mut Random(1)).is_err());
    }
}

/// An allreduce of no elements still sends all its messages.
#[test]
fn barrier() {
    let topology = Topology::ring(8).unwrap();
    for member in available(&topology, Collective::Allreduce) {
        let schedule = member.build(&topology, Collective::Allreduce).unwrap();
        let plan = Plan::lower(&schedule, 0, 0, 1, &LowerOptions::default()).unwrap();
        let receives =
            plan.operations().iter().filter(|o| matches!(o.command, Command::Receive { .. })).count();
        let expected: usize = schedule.rows(0).iter().map(|row| row.receives.len()).sum();
        assert_eq!(receives, expected, "{member}");
    }
}
