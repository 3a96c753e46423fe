//! Collectives between threads, compared with the scalar kernels in the order of the ranks.

mod common;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use common::processes::{child as process, run};
use common::Means::{self, Mailboxes, Shared};
use common::{
    config, each, group, group_with, group_with_pools, patient, pooled, values, watch, Case, Prepared,
    Random, MEANS, SLOW,
};
use half::{bf16, f16};
use ringroad_core::algorithms::{self, Member};
use ringroad_core::{Collective, Topology};
use ringroad_runtime::buffer::Region;
use ringroad_runtime::communicator::TAGS;
use ringroad_runtime::config::Config;
use ringroad_runtime::{Communicator, DType, Error, Memory, Operation, Options, ReduceOp, Request};

const OPS: [ReduceOp; 9] = [
    ReduceOp::Sum,
    ReduceOp::Avg,
    ReduceOp::Product,
    ReduceOp::Min,
    ReduceOp::Max,
    ReduceOp::Band,
    ReduceOp::Bor,
    ReduceOp::Bxor,
    ReduceOp::PremulSum(0.375),
];

/// Shorter than one element per rank, as long, longer, and long.
fn lengths(ranks: usize) -> [usize; 6] {
    [1000, 0, 1, ranks - 1, ranks, ranks + 1]
}

/// The reductions that make a difference to `collective`.
fn ops(collective: Collective, dtype: DType) -> impl Iterator<Item = ReduceOp> {
    let counted = if collective.reduces() { OPS.len() } else { 1 };
    OPS.into_iter().take(counted).filter(move |op| op.supports(dtype))
}

/// Every collective, data type, reduction, and both kinds of place. Lengths and roots take turns.
fn every_call(ranks: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    for collective in Collective::ALL {
        for dtype in DType::ALL {
            for op in ops(collective, dtype) {
                for in_place in [false, true] {
                    let number = cases.len();
                    let longest = if collective.has_blocks() { 1000usize.div_ceil(ranks) } else { 1000 };
                    let elements = lengths(ranks)[number % 6].min(longest);
                    let collective = collective.with_root(number / 6 % ranks);
                    let case = Case::new(ranks, collective, op, dtype, elements);
                    cases.push(Case { in_place, seed: number as u64, ..case });
                }
            }
        }
    }
    cases
}

/// Makes all calls on all ranks. Replicas must be equal bit for bit, unless an algorithm was asked for that says it
/// is not that good.
fn check_all(group: &[Communicator], cases: &[Case]) {
    let prepared: Vec<OnceLock<Prepared>> = cases.iter().map(|_| OnceLock::new()).collect();
    let replicas: Vec<OnceLock<Vec<u8>>> = cases.iter().map(|_| OnceLock::new()).collect();
    let topology = group[0].choices().topology;
    each(group, |communicator| {
        for ((case, prepared), replica) in cases.iter().zip(&prepared).zip(&replicas) {
            let found = case
                .check(communicator, prepared.get_or_init(|| case.prepare()))
                .unwrap_or_else(|error| panic!("rank {} of {case:?}: {error}", communicator.rank()));
            let consistent =
                case.algorithm.is_none_or(|member| member.consistent(&topology, case.collective));
            if case.collective == Collective::Allreduce && consistent {
                let same = *replica.get_or_init(|| found.clone()) == found;
                assert!(same, "rank {} of {case:?} has other bits than another rank", communicator.rank());
            }
        }
    });
}

fn check_every_call(ranks: impl IntoIterator<Item = usize>) {
    for ranks in ranks {
        let cases = every_call(ranks);
        for means in MEANS {
            check_all(&group(ranks, means), &cases);
        }
    }
}

#[test]
fn every_call_on_up_to_5_ranks() {
    let _watchdog = watch();
    check_every_call([1, 2, 3, 4, 5]);
}

#[test]
fn every_call_on_7_and_8_ranks() {
    let _watchdog = watch();
    check_every_call([7, 8]);
}

#[test]
fn every_call_on_16_ranks() {
    let _watchdog = watch();
    check_every_call([16]);
}

/// Every algorithm for every collective that it performs on a network, at so many lengths. Members of families, data
/// types, reductions and roots take turns.
fn every_algorithm(topology: &Topology, count: usize) -> Vec<Case> {
    let ranks = topology.ranks();
    let mut cases = Vec::new();
    for (algorithm, collective) in
        algorithms::catalogue().iter().flat_map(|a| a.collectives().map(move |c| (a, c)))
    {
        let members: Vec<Member> = algorithm
            .members(topology)
            .into_iter()
            .filter(|m| m.supports(topology, collective).is_ok())
            .collect();
        // Every member at least once.
        let rounds = if members.is_empty() { 0 } else { (2 * count).max(members.len()) };
        for round in 0..rounds {
            let elements = lengths(ranks)[round / 2 % count];
            let number = cases.len();
            let dtype = DType::ALL[number % DType::ALL.len()];
            let possible: Vec<ReduceOp> = ops(collective, dtype).collect();
            let op = possible[number / 12 % possible.len()];
            // Every root needs a schedule of its own: one in three lengths changes it.
            let collective = collective.with_root((number / 12 + round / 6) % ranks);
            let longest = if collective.has_blocks() { 1000usize.div_ceil(ranks) } else { 1000 };
            let case = Case::new(ranks, collective, op, dtype, elements.min(longest));
            let algorithm = Some(members[round % members.len()]);
            cases.push(Case { in_place: round % 2 == 1, algorithm, seed: number as u64, ..case });
        }
    }
    cases
}

fn ring(ranks: usize) -> Topology {
    Topology::ring(ranks).unwrap()
}

/// Every algorithm on a network, at so many lengths.
fn check_algorithms(topology: Topology, means: impl Into<Means>, count: usize) {
    let ranks = topology.ranks();
    // Products of many numbers leave the range of the small types, in an order that depends on the algorithm.
    let cases = every_algorithm(&topology, count).into_iter();
    let cases: Vec<Case> = cases.filter(|case| ranks <= 16 || case.op != ReduceOp::Product).collect();
    // A preference keeps the start short: all algorithms are asked for by name.
    let options = Options { topology: Some(topology), algorithm: Some(PLAIN.to_owned()), ..patient() };
    check_all(&group_with(ranks, means, &config(), &options), &cases);
}

/// One algorithm for each collective.
const PLAIN: &str = "ring,binomial,pairwise";

#[test]
fn every_algorithm_on_up_to_8_ranks() {
    let _watchdog = watch();
    for ranks in [1, 2, 3, 4, 5, 7, 8] {
        MEANS.into_iter().for_each(|means| check_algorithms(ring(ranks), means, 6));
    }
}

#[test]
fn every_algorithm_on_16_ranks() {
    let _watchdog = watch();
    check_algorithms(ring(16), 0, 6);
}

#[test]
fn every_algorithm_on_small_tori() {
    let _watchdog = watch();
    for sizes in [&[2, 2][..], &[2, 4], &[3, 3], &[4, 4], &[3, 2, 2], &[5, 3]] {
        MEANS.into_iter().for_each(|means| check_algorithms(Topology::torus(sizes).unwrap(), means, 3));
    }
}

#[test]
fn every_algorithm_on_27_ranks() {
    let _watchdog = watch();
    check_algorithms(ring(27), 0, 1);
}

#[test]
fn every_algorithm_on_a_torus_of_27_ranks() {
    let _watchdog = watch();
    check_algorithms(Topology::torus(&[3, 3, 3]).unwrap(), usize::MAX, 1);
}

#[test]
fn every_algorithm_on_a_torus_of_64_ranks() {
    let _watchdog = watch();
    check_algorithms(Topology::torus(&[4, 4, 4]).unwrap(), usize::MAX, 1);
}

#[test]
fn every_collective_on_64_ranks() {
    let _watchdog = watch();
    let collectives = Collective::ALL.into_iter().enumerate();
    let case = |(index, collective): (usize, Collective)| Case {
        in_place: index.is_multiple_of(2),
        ..Case::new(64, collective.with_root(37), ReduceOp::Sum, DType::F32, 65)
    };
    check_all(&group(64, usize::MAX), &collectives.map(case).collect::<Vec<_>>());
}

/// Blocks of any length each, some of them empty, by every algorithm, apart and in place.
#[test]
fn blocks_of_different_lengths() {
    let _watchdog = watch();
    for (topology, means) in [
        (ring(1), Mailboxes(0)),
        (ring(5), Mailboxes(0)),
        (ring(8), Mailboxes(64)),
        (Topology::torus(&[2, 3]).unwrap(), Mailboxes(0)),
        (ring(3), Shared),
        (ring(8), Shared),
    ] {
        let ranks = topology.ranks();
        let options = Options { topology: Some(topology.clone()), ..patient() };
        let group = group_with(ranks, means, &config(), &options);
        for collective in [Collective::ReduceScatter, Collective::Allgather] {
            let mut members: Vec<Option<String>> = vec![None];
            members.extend(algorithms::available(&topology, collective).iter().map(|m| Some(m.name())));
            for (index, algorithm) in members.into_iter().enumerate() {
                let counts: Vec<usize> =
                    (0..ranks).map(|rank| (rank * 7 + index * 3) % 11 * (index % 3)).collect();
                check_uneven(&group, collective, &counts, algorithm.as_deref());
            }
        }
    }
}

fn check_uneven(group: &[Communicator], collective: Collective, counts: &[usize], algorithm: Option<&str>) {
    let total: usize = counts.iter().sum();
    let starts: Vec<usize> = (0..counts.len()).map(|rank| counts[..rank].iter().sum()).collect();
    let value = |rank: usize, at: usize| (rank * 1000 + at) as i64;
    each(group, |communicator| {
        let (rank, size) = (communicator.rank(), communicator.size());
        let own = starts[rank]..starts[rank] + counts[rank];
        let whole: Vec<i64> = (0..total).map(|at| value(rank, at)).collect();
        let gathers = collective == Collective::Allgather;
        let of_owner = |at: usize| (0..size).rfind(|r| starts[*r] <= at && counts[*r] > 0).unwrap();
        let expected: Vec<i64> = if gathers {
            (0..total).map(|at| value(of_owner(at), at)).collect()
        } else {
            own.clone().map(|at| (0..size).map(|rank| value(rank, at)).sum()).collect()
        };
        let input = if gathers { &whole[own.clone()] } else { &whole[..] };
        for in_place in [false, true] {
            let (from, to) = if in_place {
                (Memory::nothing(), Memory::of(&whole))
            } else {
                (Memory::of(input), Memory::of(&vec![-1i64; expected.len()]))
            };
            let request = Request::new(Operation::Collective(collective), DType::I64, 0, from, to);
            let output = communicator
                .run(Request {
                    counts: Some(counts.into()),
                    in_place,
                    algorithm: algorithm.map(str::to_owned),
                    ..request
                })
                .unwrap_or_else(|error| panic!("{collective} of {counts:?} by {algorithm:?}: {error}"))
                .to_vec::<i64>();
            let found = if in_place && !gathers { &output[own.clone()] } else { &output[..] };
            assert_eq!(found, expected, "{collective} of {counts:?} by {algorithm:?}, in place: {in_place}");
        }
    });
}

/// Counts that do not fit are refused on every rank, and the communicator goes on.
#[test]
fn counts_that_make_no_sense() {
    let _watchdog = watch();
    each(&group(3, 0), |communicator| {
        let run = |collective, counts: &[usize]| {
            let request = Request::new(
                Operation::Collective(collective),
                DType::U8,
                0,
                Memory::zeroed(6),
                Memory::zeroed(6),
            );
            communicator.run(Request { counts: Some(counts.into()), ..request }).err().unwrap().to_string()
        };
        let error = run(Collective::Allgather, &[1, 2]);
        assert_eq!(error, "allgather over 3 ranks takes one count for each rank, not 2 counts");
        let error = run(Collective::Allreduce, &[1, 2, 3]);
        assert_eq!(error, "allreduce over 3 ranks takes the same count on all ranks, not 3 counts");
        let error = run(Collective::ReduceScatter, &[1, 2, 4]);
        assert!(error.contains("7 bytes of input"), "{error}");
        let error = run(Collective::ReduceScatter, &[usize::MAX, 2, 4]);
        assert!(error.contains("bytes of input"), "{error}");
        communicator.barrier(None).unwrap();
    });
}

#[test]
fn halves_are_reduced_as_singles_and_rounded_once() {
    let _watchdog = watch();
    for means in MEANS {
        each(&group(2, means), |communicator| {
            let run = |dtype, op, mine: [u16; 2]| {
                let request = Request {
                    op,
                    ..Request::new(
                        Operation::Collective(Collective::Allreduce),
                        dtype,
                        2,
                        Memory::of(&mine),
                        Memory::zeroed(4),
                    )
                };
                communicator.run(request).unwrap().to_vec::<u16>()
            };
            let first = communicator.rank() == 0;
            let half = |x: f32| f16::from_f32(x).to_bits();
            let brain = |x: f32| bf16::from_f32(x).to_bits();
            // 2048 + 1 is half-way between two halves, 2048 + 3 as well: both go to the even one.
            let mine = if first { [half(2048.0); 2] } else { [half(1.0), half(3.0)] };
            assert_eq!(run(DType::F16, ReduceOp::Sum, mine), [half(2048.0), half(2052.0)]);
            let mine = if first { [brain(256.0); 2] } else { [brain(1.0), brain(3.0)] };
            assert_eq!(run(DType::BF16, ReduceOp::Sum, mine), [brain(256.0), brain(260.0)]);
            // The sum does not fit, but is rounded before it is divided: infinite on every rank.
            let mine = [half(40000.0), half(3.0)];
            assert_eq!(run(DType::F16, ReduceOp::Avg, mine), [half(f32::INFINITY), half(3.0)]);
            // A third is multiplied in single precision.
            let third = run(DType::BF16, ReduceOp::PremulSum(1.0 / 3.0), [brain(3.0), brain(1.0)]);
            let product = bf16::from_f32(1.0 / 3.0).to_f32();
            assert_eq!(third, [brain(2.0), brain(product + product)]);
        });
    }
}

#[test]
fn averages_and_factors() {
    let _watchdog = watch();
    for means in SLOW {
        let ranks = 5;
        each(&group(ranks, means), |communicator| {
            let rank = communicator.rank();
            let run = |op, in_place| {
                let mine = Memory::of(&[rank as f64, 1.0, -2.0 * rank as f64]);
                let (input, output) =
                    if in_place { (Memory::nothing(), mine) } else { (mine, Memory::zeroed(24)) };
                let request =
                    Request::new(Operation::Collective(Collective::Allreduce), DType::F64, 3, input, output);
                communicator.run(Request { op, in_place, ..request }).unwrap().to_vec::<f64>()
            };
            for in_place in [false, true] {
                assert_eq!(run(ReduceOp::Avg, in_place), [2.0, 1.0, -4.0]);
                // Every rank has a factor of its own: the sum of squares, the sum, and the former again.
                assert_eq!(run(ReduceOp::PremulSum(rank as f64), in_place), [30.0, 10.0, -60.0]);
            }
        });
    }
}

/// Whatever is not zero is true, and true comes out as 1 wherever something was reduced.
#[test]
fn any_byte_but_zero_is_true() {
    let _watchdog = watch();
    for means in SLOW {
        each(&group(3, means), |communicator| {
            let run = |op, mine: [u8; 4]| {
                let call = Operation::Collective(Collective::Allreduce);
                let request = Request::new(call, DType::Bool, 4, Memory::of(&mine), Memory::zeroed(4));
                communicator.run(Request { op, ..request }).unwrap().to_vec::<u8>()
            };
            let mine = match communicator.rank() {
                0 => [0, 2, 255, 0],
                1 => [0, 7, 0, 9],
                _ => [0, 128, 3, 0],
            };
            assert_eq!(run(ReduceOp::Sum, mine), [0, 1, 1, 1]);
            assert_eq!(run(ReduceOp::Max, mine), [0, 1, 1, 1]);
            assert_eq!(run(ReduceOp::Product, mine), [0, 1, 0, 0]);
            assert_eq!(run(ReduceOp::Band, mine), [0, 1, 0, 0]);
            assert_eq!(run(ReduceOp::Bxor, mine), [0, 1, 0, 1]);
        });
    }
}

/// The input belongs to the caller: whatever a rank does on the way, it does elsewhere.
#[test]
fn inputs_are_left_alone() {
    let _watchdog = watch();
    for means in SLOW {
        let ranks = 4;
        let cases = every_algorithm(&ring(ranks), 1);
        each(&group(ranks, means), |communicator| {
            let rank = communicator.rank();
            for case in cases.iter().filter(|case| !case.in_place && case.elements == 1000) {
                let prepared = case.prepare();
                let mine = Arc::new(prepared.inputs[rank].clone());
                // SAFETY: the vector lives as long as its owner, nobody writes it, and inputs are only read.
                #[allow(unsafe_code)]
                let input = unsafe { Memory::foreign(mine.as_ptr().cast_mut(), mine.len(), mine.clone()) };
                let request = Request { input, ..case.request(rank, &mine) };
                prepared.compare(case, rank, &communicator.run(request).unwrap().to_vec::<u8>());
                assert_eq!(*mine, prepared.inputs[rank], "rank {rank} of {case:?}");
            }
        });
    }
}

/// Memory that near ranks read where it is: calls leave the input alone, and whoever's call has ended may do with its
/// memory what it likes, whatever the others are doing. Lengths are around those from which on memory is lent, and at
/// which messages are cut.
#[test]
fn memory_that_others_can_read() {
    let _watchdog = watch();
    const LEND: usize = 32 << 10;
    const SEGMENT: usize = 512 << 10;
    /// That of broadcasts is shorter.
    const BROADCAST: usize = 128 << 10;
    let lengths = [
        0,
        1,
        33,
        1000,
        LEND - 4,
        LEND,
        LEND + 4,
        BROADCAST - 4,
        BROADCAST,
        BROADCAST + 4,
        3 * BROADCAST + 20,
        SEGMENT - 4,
        SEGMENT,
        SEGMENT + 4,
        2 * SEGMENT + 20,
    ];
    for ranks in [2, 3, 5, 8] {
        let (group, pools) = group_with_pools(ranks);
        let topology = group[0].choices().topology;
        let mut cases = Vec::new();
        for collective in Collective::ALL {
            let mut members: Vec<Option<Member>> = vec![None];
            members.extend(algorithms::available(&topology, collective).into_iter().map(Some));
            for (index, bytes) in lengths.iter().enumerate() {
                for (lent, (in_input, in_output)) in
                    [(true, true), (true, false), (false, true)].into_iter().enumerate()
                {
                    for in_place in [false, true] {
                        let number = cases.len();
                        // Among many, each length with one of the three.
                        if ranks > 3 && lent != index % 3 {
                            continue;
                        }
                        // The message has the length, or the vector.
                        let whole = collective.has_blocks() && (number + index) % 2 == 0;
                        let dtype = [DType::I32, DType::U8, DType::F32, DType::I64][number % 4];
                        let elements = if whole { bytes / ranks } else { *bytes } / dtype.size();
                        let collective = collective.with_root((number + index) % ranks);
                        let case = Case::new(ranks, collective, ReduceOp::Sum, dtype, elements);
                        let algorithm = members[number % members.len()];
                        let case = Case { in_place, algorithm, seed: number as u64, ..case };
                        cases.push((case, in_input, in_output, number % 3 * dtype.size()));
                    }
                }
            }
        }
        let prepared: Vec<OnceLock<Prepared>> = cases.iter().map(|_| OnceLock::new()).collect();
        each(&group, |communicator| {
            let (rank, pool) = (communicator.rank(), &pools[communicator.rank()]);
            for ((case, in_input, in_output, shift), prepared) in cases.iter().zip(&prepared) {
                let prepared = prepared.get_or_init(|| case.prepare());
                let mut request = case.request(rank, &prepared.inputs[rank]);
                let mut mine = Vec::new();
                let given = request.input.to_vec::<u8>();
                if *in_input {
                    let (memory, region) = pooled(pool, &request.input, *shift);
                    request.input = memory;
                    mine.push(region);
                }
                if *in_output {
                    let (memory, region) = pooled(pool, &request.output, *shift);
                    request.output = memory;
                    mine.push(region);
                }
                let output = communicator.run(request).unwrap_or_else(|error| panic!("{case:?}: {error}"));
                prepared.compare(case, rank, &case.result(rank, &output));
                // SAFETY: the call has ended.
                #[allow(unsafe_code)]
                unsafe {
                    if *in_input {
                        assert!(mine[0].to_vec::<u8>() == given, "rank {rank} of {case:?}: another input");
                    }
                    mine.iter()
                        .for_each(|region| region.copy_from(&Region::of(&vec![0xee_u8; region.len()])));
                }
            }
        });
    }
}

// --------------------------------------------------------------------------------------------------- messages

fn send(peer: usize, tag: u32, content: &[u8]) -> Request {
    let operation = Operation::Send { peer, tag };
    Request::new(operation, DType::U8, content.len(), Memory::of(content), Memory::nothing())
}

fn receive(peer: usize, tag: u32, bytes: usize) -> Request {
    let operation = Operation::Receive { peer, tag };
    Request::new(operation, DType::U8, bytes, Memory::nothing(), Memory::zeroed(bytes))
}

/// What `source` sends to `target` as `number` of `tag`.
fn message(source: usize, target: usize, tag: u32, number: usize) -> Vec<u8> {
    let seed = (source * 64 + target) as u64 * 1_000_003 + u64::from(tag) * 31 + number as u64;
    values(DType::U8, seed as usize % 300, seed)
}

/// Messages meet by source and tag, in the order of posting where both are equal, whoever comes first.
#[test]
fn messages_find_their_receives() {
    let _watchdog = watch();
    let tags = [0, 1, (1 << 14) - 1, 1 << 14, TAGS - 1];
    for ranks in [2, 3, 5] {
        for means in [Mailboxes(0), Mailboxes(100), Mailboxes(usize::MAX), Shared] {
            for seed in 0..6 {
                each(&group(ranks, means), |communicator| exchange(communicator, &tags, seed));
            }
        }
    }
}

fn exchange(communicator: &Communicator, tags: &[u32], seed: u64) {
    let me = communicator.rank();
    let peers: Vec<usize> = (0..communicator.size()).filter(|peer| *peer != me).collect();
    let queues: Vec<(usize, u32)> = peers.iter().flat_map(|p| tags.iter().map(|t| (*p, *t))).collect();
    // Two messages and two receives per peer and tag, posted in an order of this rank's own.
    let mut random = Random(seed * 100 + me as u64);
    let mut order: Vec<(bool, (usize, u32))> =
        queues.iter().flat_map(|q| [(true, *q), (true, *q), (false, *q), (false, *q)]).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, random.bits() as usize % (last + 1));
    }
    let mut counts: HashMap<(bool, (usize, u32)), usize> = HashMap::new();
    let mut works = Vec::new();
    for (sends, (peer, tag)) in order {
        let count = counts.entry((sends, (peer, tag))).or_default();
        let request = if sends {
            send(peer, tag, &message(me, peer, tag, *count))
        } else {
            receive(peer, tag, message(peer, me, tag, *count).len())
        };
        works.push(((!sends).then_some((peer, tag, *count)), communicator.start(request).unwrap()));
        *count += 1;
    }
    while !works.is_empty() {
        let (what, work) = works.swap_remove(random.bits() as usize % works.len());
        let output = work.finish().unwrap();
        if let Some((peer, tag, number)) = what {
            assert_eq!(output.to_vec::<u8>(), message(peer, me, tag, number), "{peer} to {me}, tag {tag}");
        }
    }
}

/// Messages do not count as collective calls, and pass them.
#[test]
fn messages_between_collectives() {
    let _watchdog = watch();
    for means in MEANS {
        each(&group(3, means), |communicator| {
            let me = communicator.rank();
            let (next, previous) = ((me + 1) % 3, (me + 2) % 3);
            let case = Case::new(3, Collective::Allreduce, ReduceOp::Sum, DType::I32, 100);
            let prepared = case.prepare();
            for round in 0..20 {
                let content = message(me, next, round, 0);
                // Rank 0 sends before the collective what the others take after it.
                let sent = (me == 0).then(|| communicator.start(send(next, round, &content)).unwrap());
                case.check(communicator, &prepared).unwrap();
                let sent = sent.unwrap_or_else(|| communicator.start(send(next, round, &content)).unwrap());
                let expected = message(previous, me, round, 0);
                let found = communicator.run(receive(previous, round, expected.len())).unwrap();
                assert_eq!(found.to_vec::<u8>(), expected);
                sent.wait().unwrap();
            }
        });
    }
}

/// A message that is received late is in nobody's way.
#[test]
fn messages_received_after_large_collectives() {
    let _watchdog = watch();
    for means in SLOW {
        each(&group(2, means), |communicator| {
            let me = communicator.rank();
            let content = vec![me as u8; 100_000];
            let sent = communicator.start(send(1 - me, 3, &content)).unwrap();
            for algorithm in ["ring", "recursive-doubling"] {
                let case =
                    Case::new(2, Collective::Allreduce, ReduceOp::Sum, DType::F32, 300_000).by(algorithm);
                case.check(communicator, &case.prepare()).unwrap();
            }
            communicator.barrier(None).unwrap();
            let found = communicator.run(receive(1 - me, 3, content.len())).unwrap();
            assert!(found.to_vec::<u8>() == vec![1 - me as u8; 100_000]);
            sent.wait().unwrap();
        });
    }
}

// ---------------------------------------------------------------------------------------------------- barriers

#[test]
fn nobody_leaves_a_barrier_before_all_have_entered() {
    let _watchdog = watch();
    for ranks in [1, 2, 3, 7, 8] {
        for means in MEANS {
            let entered = AtomicUsize::new(0);
            each(&group(ranks, means), |communicator| {
                let mut random = Random(communicator.rank() as u64);
                for round in 1..=30 {
                    for _ in 0..random.bits() % 50 {
                        thread::yield_now();
                    }
                    entered.fetch_add(1, Ordering::SeqCst);
                    communicator.barrier(None).unwrap();
                    let found = entered.load(Ordering::SeqCst);
                    assert!(found >= ranks * round, "{found} have entered round {round} of {ranks} ranks");
                }
            });
        }
    }
}

// ------------------------------------------------------------------------------------------------ asynchronous

/// Cases of all collectives, with lengths that make some eager and some not.
fn mixture(ranks: usize, count: usize) -> Vec<Case> {
    let case = |number: usize| {
        let collective = Collective::ALL[number % 8].with_root(number % ranks);
        let dtype = [DType::F32, DType::I16, DType::Complex64][number % 3];
        let case = Case::new(ranks, collective, ReduceOp::Sum, dtype, number * 7 % 200);
        Case { in_place: number.is_multiple_of(5), seed: number as u64, ..case }
    };
    (0..count).map(case).collect()
}

#[test]
fn many_calls_in_flight_are_waited_for_in_reverse() {
    let _watchdog = watch();
    for ranks in [2, 5] {
        for means in [Mailboxes(0), Mailboxes(300), Mailboxes(usize::MAX), Shared] {
            let cases = mixture(ranks, 100);
            let prepared: Vec<Prepared> = cases.iter().map(Case::prepare).collect();
            each(&group(ranks, means), |communicator| {
                let rank = communicator.rank();
                let start =
                    |(case, p): (&Case, &Prepared)| communicator.start(case.request(rank, &p.inputs[rank]));
                let mut works: Vec<_> =
                    cases.iter().zip(&prepared).map(|both| start(both).unwrap()).collect();
                for (case, prepared) in cases.iter().zip(&prepared).rev() {
                    let output = works.pop().unwrap().finish().unwrap();
                    prepared.compare(case, rank, &case.result(rank, &output));
                }
            });
        }
    }
}

#[test]
fn several_threads_of_a_rank_wait() {
    let _watchdog = watch();
    let ranks = 3;
    let cases = mixture(ranks, 96);
    let prepared: Vec<Prepared> = cases.iter().map(Case::prepare).collect();
    for means in MEANS {
        each(&group(ranks, means), |communicator| {
            let rank = communicator.rank();
            let (sender, receiver) = mpsc::channel();
            let receiver = Mutex::new(receiver);
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| loop {
                        let Ok((number, work)) = receiver.lock().unwrap().recv() else { return };
                        let work: ringroad_runtime::Work = work;
                        let (case, prepared): (&Case, &Prepared) = (&cases[number], &prepared[number]);
                        prepared.compare(case, rank, &case.result(rank, &work.finish().unwrap()));
                    });
                }
                for (number, (case, prepared)) in cases.iter().zip(&prepared).enumerate() {
                    let work = communicator.start(case.request(rank, &prepared.inputs[rank])).unwrap();
                    sender.send((number, work)).unwrap();
                }
                drop(sender);
            });
        });
    }
}

/// Calls of several threads of a rank have no order among each other, messages with different tags need none.
#[test]
fn several_threads_of_a_rank_send_and_receive() {
    let _watchdog = watch();
    for means in MEANS {
        each(&group(2, means), |communicator| {
            let me = communicator.rank();
            thread::scope(|scope| {
                for tag in 0..4 {
                    scope.spawn(move || {
                        for number in 0..25 {
                            let content = message(me, 1 - me, tag, number);
                            let sent = communicator.start(send(1 - me, tag, &content)).unwrap();
                            let expected = message(1 - me, me, tag, number);
                            let found = communicator.run(receive(1 - me, tag, expected.len())).unwrap();
                            assert_eq!(found.to_vec::<u8>(), expected);
                            sent.wait().unwrap();
                        }
                    });
                }
            });
        });
    }
}

/// One thread starts the calls of all ranks and waits for none: it only listens.
#[test]
fn calls_go_on_in_the_background_and_call_back_once() {
    let _watchdog = watch();
    for means in MEANS {
        let group = group(4, means);
        let cases = mixture(4, 40);
        let (sender, receiver) = mpsc::channel();
        let mut works = Vec::new();
        for (number, case) in cases.iter().enumerate() {
            let prepared = case.prepare();
            for communicator in &group {
                let rank = communicator.rank();
                let work = communicator.start(case.request(rank, &prepared.inputs[rank])).unwrap();
                // Two for each: one may come late.
                for copy in 0..2 {
                    let sender = sender.clone();
                    work.on_complete(move |result| sender.send((number, rank, copy, result)).unwrap());
                }
                works.push(work);
            }
        }
        drop(sender);
        // The channel closes when the last callback is gone.
        let mut called: Vec<(usize, usize, i32)> = receiver
            .iter()
            .map(|(number, rank, copy, result)| {
                result.unwrap();
                (number, rank, copy)
            })
            .collect();
        called.sort_unstable();
        let expected = (0..40).flat_map(|n| (0..4).flat_map(move |r| (0..2).map(move |c| (n, r, c))));
        assert_eq!(called, expected.collect::<Vec<_>>());
        for (number, work) in works.into_iter().enumerate() {
            let (case, rank) = (&cases[number / 4], number % 4);
            let (prepared, result) = (case.prepare(), work.result());
            assert_eq!(result, Some(Ok(())));
            prepared.compare(case, rank, &case.result(rank, &work.finish().unwrap()));
        }
    }
}

#[test]
fn calls_go_on_in_the_background_without_callbacks() {
    let _watchdog = watch();
    for means in SLOW {
        let group = group(3, means);
        let case = Case::new(3, Collective::Allreduce, ReduceOp::Sum, DType::F32, 10_000);
        let prepared = case.prepare();
        let start = |c: &Communicator| c.start(case.request(c.rank(), &prepared.inputs[c.rank()])).unwrap();
        // Time and again, so that the background thread has slept before.
        for _ in 0..20 {
            let works: Vec<_> = group.iter().map(start).collect();
            works.iter().for_each(|work| work.in_background());
            // `result` only looks.
            while works.iter().any(|work| work.result().is_none()) {
                thread::yield_now();
            }
            assert!(works.iter().all(|work| work.result() == Some(Ok(()))));
        }
    }
}

/// A rank's own thread may wait for one call while others go on in the background.
#[test]
fn waiting_and_background_take_turns() {
    let _watchdog = watch();
    for means in SLOW {
        let group = group(2, means);
        let case = Case::new(2, Collective::Allreduce, ReduceOp::Sum, DType::F32, 100);
        let prepared = case.prepare();
        let start = |c: &Communicator| c.start(case.request(c.rank(), &prepared.inputs[c.rank()])).unwrap();
        for _ in 0..50 {
            // Rank 0 waits for its first call and forgets the second; rank 1 forgets both.
            let works: Vec<_> = [0, 0, 1, 1].map(|rank| start(&group[rank])).into();
            works[1..].iter().for_each(|work| work.in_background());
            works[0].wait().unwrap();
            while works.iter().any(|work| work.result().is_none()) {
                thread::yield_now();
            }
        }
    }
}

#[test]
fn polling_completes_calls() {
    let _watchdog = watch();
    for means in SLOW {
        let case = Case::new(3, Collective::Alltoall, ReduceOp::Sum, DType::F32, 1000);
        let prepared = case.prepare();
        each(&group(3, means), |communicator| {
            let rank = communicator.rank();
            let work = communicator.start(case.request(rank, &prepared.inputs[rank])).unwrap();
            while !work.is_completed() {
                thread::yield_now();
            }
            prepared.compare(&case, rank, &work.finish().unwrap().to_vec::<u8>());
        });
    }
}

#[test]
fn a_wait_may_end_before_the_call() {
    let _watchdog = watch();
    for means in SLOW {
        let group = group(2, means);
        let early = group[0].start(Request::barrier()).unwrap();
        assert!(!early.wait_until(Instant::now()));
        assert!(!early.wait_until(Instant::now() + Duration::from_millis(30)));
        assert_eq!(early.result(), None);
        let late = group[1].start(Request::barrier()).unwrap();
        late.in_background();
        early.wait().unwrap();
        late.wait().unwrap();
    }
}

#[test]
fn callbacks_may_make_calls() {
    let _watchdog = watch();
    for means in SLOW {
        let group: Vec<Arc<Communicator>> = group(2, means).into_iter().map(Arc::new).collect();
        let (sender, receiver) = mpsc::channel();
        for communicator in &group {
            let (again, sender) = (communicator.clone(), sender.clone());
            let work = communicator.start(Request::barrier()).unwrap();
            work.on_complete(move |result| {
                result.unwrap();
                let second = again.start(Request::barrier()).unwrap();
                second.on_complete(move |result| sender.send(result).unwrap());
            });
        }
        drop(sender);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [Ok(()), Ok(())]);
    }
}

/// A callback may wait for what another callback does, and so on, also while somebody waits for a call of his own.
#[test]
fn callbacks_may_wait_for_callbacks() {
    fn nest(communicator: &Arc<Communicator>, depth: u32, done: mpsc::Sender<u32>) {
        let again = communicator.clone();
        let work = communicator.start(Request::barrier()).unwrap();
        work.on_complete(move |result| {
            result.unwrap();
            if depth > 0 {
                let (sender, receiver) = mpsc::channel();
                nest(&again, depth - 1, sender);
                assert_eq!(receiver.recv().unwrap(), depth - 1);
            }
            done.send(depth).unwrap();
        });
    }
    let _watchdog = watch();
    for means in MEANS {
        let group: Vec<Arc<Communicator>> = group(2, means).into_iter().map(Arc::new).collect();
        thread::scope(|scope| {
            for communicator in &group {
                scope.spawn(move || {
                    let (sender, receiver) = mpsc::channel();
                    nest(communicator, 3, sender);
                    let peer = 1 - communicator.rank();
                    if peer == 1 {
                        communicator.run(receive(peer, 1, 1)).map(drop).unwrap();
                    }
                    assert_eq!(receiver.recv().unwrap(), 3);
                    if peer == 0 {
                        communicator.run(send(peer, 1, b"x")).map(drop).unwrap();
                    }
                });
            }
        });
    }
}

/// A call that is being started may find that another has ended, whose callback starts a third.
#[test]
fn callbacks_may_make_calls_while_calls_are_started() {
    let _watchdog = watch();
    for means in SLOW {
        const ROUNDS: u32 = 250;
        let group: Vec<Arc<Communicator>> = group(2, means).into_iter().map(Arc::new).collect();
        thread::scope(|scope| {
            for communicator in &group {
                scope.spawn(move || {
                    let peer = 1 - communicator.rank();
                    for tag in 0..ROUNDS {
                        let again = communicator.clone();
                        let first = communicator.start(Request::barrier()).unwrap();
                        first.on_complete(move |_| {
                            drop(again.start(send(peer, tag, b"called back")).unwrap())
                        });
                        let others: Vec<_> =
                            (0..4).map(|_| communicator.start(Request::barrier()).unwrap()).collect();
                        others.iter().for_each(|work| work.wait().unwrap());
                        communicator.run(receive(peer, tag, 11)).unwrap();
                    }
                });
            }
        });
    }
}

/// Says to the test `child` that there are no threads.
const ALONE: &str = "RINGROAD_TEST_ALONE";

/// Where no thread can be had, callbacks run on one that makes calls, and may make calls themselves.
#[test]
#[cfg_attr(miri, ignore = "starts a process")]
fn callbacks_need_no_threads() {
    let mut alone = process();
    // Stacks larger than the address space.
    alone.env(ALONE, "1").env("RUST_MIN_STACK", (1u64 << 60).to_string());
    let [(finished, said)] = &run(vec![alone], Duration::from_secs(60))[..] else { panic!("one child") };
    assert!(finished, "{said}");
}

#[test]
#[ignore = "run by the other tests"]
fn child() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    assert!(thread::Builder::new().spawn(|| ()).is_err());
    let group: Vec<Arc<Communicator>> = group(2, usize::MAX).into_iter().map(Arc::new).collect();
    let (sender, receiver) = mpsc::channel();
    let first = group[0].start(receive(1, 1, 1)).unwrap();
    let again = group[0].clone();
    first
        .on_complete(move |result| sender.send(result.and_then(|()| again.start(send(1, 2, b"y")))).unwrap());
    group[1].run(send(0, 1, b"x")).unwrap();
    // This finds that the first call has ended.
    let second = group[0].start(receive(1, 3, 1)).unwrap();
    receiver.try_recv().unwrap().unwrap().wait().unwrap();
    assert_eq!(group[1].run(receive(0, 2, 1)).unwrap().to_vec::<u8>(), b"y");
    group[1].run(send(0, 3, b"z")).unwrap();
    second.wait().unwrap();
    println!("child finished");
}

#[test]
fn callbacks_after_the_end_are_called_at_once() {
    let _watchdog = watch();
    each(&group(2, 0), |communicator| {
        let work = communicator.start(Request::barrier()).unwrap();
        work.wait().unwrap();
        let called = Arc::new(AtomicBool::new(false));
        let flag = called.clone();
        work.on_complete(move |result| flag.store(result.is_ok(), Ordering::SeqCst));
        assert!(called.load(Ordering::SeqCst));
    });
}

/// Who drops the communicator still gets what it has begun.
#[test]
fn works_outlive_their_communicator() {
    let _watchdog = watch();
    for means in MEANS {
        let case = Case::new(3, Collective::Allgather, ReduceOp::Sum, DType::I64, 50);
        let prepared = case.prepare();
        let works: Vec<_> = group(3, means)
            .into_iter()
            .map(|c| c.start(case.request(c.rank(), &prepared.inputs[c.rank()])).unwrap())
            .collect();
        thread::scope(|scope| {
            for (rank, work) in works.into_iter().enumerate() {
                let (case, prepared) = (&case, &prepared);
                scope.spawn(move || prepared.compare(case, rank, &work.finish().unwrap().to_vec::<u8>()));
            }
        });
    }
}

/// The number of a call wraps around in its messages.
#[test]
fn thousands_of_calls() {
    let _watchdog = watch();
    let cases: Vec<Case> =
        (0..7).map(|n| Case::new(2, Collective::Allreduce, ReduceOp::Sum, DType::I32, n)).collect();
    let prepared: Vec<Prepared> = cases.iter().map(Case::prepare).collect();
    for means in MEANS {
        each(&group(2, means), |communicator| {
            for (case, prepared) in cases.iter().zip(&prepared).cycle().take(4200) {
                case.check(communicator, prepared).unwrap();
            }
        });
    }
}

// -------------------------------------------------------------------------------------- segments and algorithms

fn with_segment(bytes: usize) -> Config {
    let mut config = config();
    config.segment = bytes;
    config
}

#[test]
fn large_vectors_travel_in_segments() {
    let _watchdog = watch();
    let ranks = 4;
    let elements = (8 << 20) / 4;
    let allreduce = Case::new(ranks, Collective::Allreduce, ReduceOp::Sum, DType::F32, elements);
    let cases = [
        allreduce.clone(),
        Case { in_place: true, ..allreduce.clone().by("ring") },
        Case { dtype: DType::I32, ..allreduce.by("bidirectional-ring") },
        Case::new(ranks, Collective::Broadcast { root: 2 }, ReduceOp::Sum, DType::F32, elements),
        Case::new(ranks, Collective::Allgather, ReduceOp::Sum, DType::F32, elements / ranks),
        Case::new(ranks, Collective::Alltoall, ReduceOp::Sum, DType::F32, elements / ranks),
    ];
    check_all(&group(ranks, 64 << 10), &cases);
    check_all(&group(ranks, Shared), &cases);
}

/// The smallest segments cut nearly everything, also where their size is no multiple of the element's.
#[test]
fn small_segments() {
    let _watchdog = watch();
    for (ranks, segment) in [(2, 64), (3, 100), (5, 64), (8, 200)] {
        let cases = every_algorithm(&ring(ranks), 6);
        let cases: Vec<Case> = cases.into_iter().filter(|case| case.elements > ranks + 1).collect();
        for means in MEANS {
            check_all(&group_with(ranks, means, &with_segment(segment), &patient()), &cases);
        }
    }
}

#[test]
fn the_caller_chooses_an_algorithm() {
    let _watchdog = watch();
    for means in SLOW {
        let ranks = 6;
        each(&group(ranks, means), |communicator| {
            let case = Case::new(ranks, Collective::Allreduce, ReduceOp::Sum, DType::F32, 12);
            let prepared = case.prepare();
            let start = |name: Option<&str>| {
                let request = case.request(communicator.rank(), &prepared.inputs[communicator.rank()]);
                communicator.start(Request { algorithm: name.map(str::to_owned), ..request })
            };
            for (asked, expected) in [("ring", "ring"), ("Bidirectional_Ring", "bidirectional-ring")] {
                let work = start(Some(asked)).unwrap();
                assert_eq!(work.algorithm(), expected);
                prepared.compare(&case, communicator.rank(), &work.finish().unwrap().to_vec::<u8>());
            }
            let unknown = start(Some("rung")).err().unwrap();
            assert!(matches!(&unknown, Error::Schedule(text) if text.contains("rung")), "{unknown}");
            let other = start(Some("pairwise")).err().unwrap();
            assert!(matches!(&other, Error::Schedule(text) if text.contains("allreduce")), "{other}");
            let default = start(None).unwrap();
            let choice = communicator.algorithm_for(Collective::Allreduce, 48, ReduceOp::Sum, DType::F32);
            assert_eq!(default.algorithm(), choice);
            default.wait().unwrap();
        });
    }
}

#[test]
fn choices_say_what_runs() {
    let _watchdog = watch();
    let ring = Options { topology: Some(Topology::parse("ring:8").unwrap()), ..patient() };
    let group = group_with(8, 0, &config(), &ring);
    let choices = group[0].choices();
    for communicator in &group {
        assert_eq!(communicator.choices(), choices);
    }
    for collective in Collective::ALL {
        let ranges = choices.switch_points(collective);
        assert_eq!(ranges[0].from_bytes, 0, "{collective}");
        for range in ranges {
            let member = algorithms::find(&range.algorithm).unwrap();
            assert!(member.consistent(&choices.topology, collective), "{collective}");
            assert_eq!(choices.pick(collective, range.from_bytes, false), range.algorithm);
        }
    }
    // On both sides of every switch point, whatever runs is right and is what was announced.
    let switches = choices.switch_points(Collective::Allreduce).to_vec();
    let small = switches.iter().map(|range| range.from_bytes as usize / 4).filter(|e| *e > 0 && *e < 1 << 18);
    let elements: Vec<usize> = small.flat_map(|e| [e - 1, e, e + 1]).collect();
    each(&group, |communicator| {
        for elements in &elements {
            let case = Case::new(8, Collective::Allreduce, ReduceOp::Max, DType::F32, *elements);
            let prepared = case.prepare();
            let rank = communicator.rank();
            let work = communicator.start(case.request(rank, &prepared.inputs[rank])).unwrap();
            let bytes = 4 * *elements as u64;
            assert_eq!(work.algorithm(), choices.pick(Collective::Allreduce, bytes, true));
            prepared.compare(&case, rank, &work.finish().unwrap().to_vec::<u8>());
        }
    });
}

#[test]
fn preferences_decide() {
    let _watchdog = watch();
    let options = Options { algorithm: Some("allreduce:ring;broadcast:binomial".to_owned()), ..patient() };
    let group = group_with(5, 0, &config(), &options);
    for bytes in [0, 100, 1 << 30] {
        let name = |collective| group[3].algorithm_for(collective, bytes, ReduceOp::Sum, DType::I32);
        assert_eq!(name(Collective::Allreduce), "ring");
        assert_eq!(name(Collective::Broadcast { root: 4 }), "binomial");
    }
    check_all(&group, &mixture(5, 40));
}

#[test]
fn topologies_make_no_difference_to_results() {
    let _watchdog = watch();
    for (ranks, spec) in [(8, "ring:8"), (8, "torus:2x4"), (9, "torus:3x3"), (12, "switch:12")] {
        let options = Options { topology: Some(Topology::parse(spec).unwrap()), ..patient() };
        check_all(&group_with(ranks, 0, &config(), &options), &mixture(ranks, 32));
    }
}
