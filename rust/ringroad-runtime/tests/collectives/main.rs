//! Collectives between threads, compared with the scalar kernels in the order of the ranks.

mod asynchronous;
#[path = "../common/mod.rs"]
mod common;
#[path = "../../../ringroad-core/tests/common/members.rs"]
mod members;
mod messages;
mod options;
mod own;
mod wire;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use common::Means::{self, Mailboxes, Shared};
use common::{
    config, each, group, group_with, group_with_pools, patient, pooled, receive, send, values, watch, Case,
    Prepared, MEANS, SLOW,
};
use half::{bf16, f16};
use members::brief_members;
use ringroad_core::algorithms::{self, Member};
use ringroad_core::random::Random;
use ringroad_core::{Collective, Topology};
use ringroad_runtime::transport::buffer::Region;
use ringroad_runtime::{CallKey, Communicator, DType, Memory, Operation, Options, ReduceOp, Request};

/// Cases of all collectives, with lengths of which some are eager and some are not.
fn mixture(ranks: usize, count: usize) -> Vec<Case> {
    let case = |number: usize| {
        let collective = Collective::ALL[number % Collective::ALL.len()].with_root(number % ranks);
        let dtype = [DType::F32, DType::I16, DType::Complex64][number % 3];
        let case = Case::new(ranks, collective, ReduceOp::Sum, dtype, number * 7 % 200);
        Case { in_place: number.is_multiple_of(5), seed: number as u64, ..case }
    };
    (0..count).map(case).collect()
}

/// The message number `number` from `source` to `target` with `tag`.
fn message(source: usize, target: usize, tag: u32, number: usize) -> Vec<u8> {
    let seed = (source * 64 + target) as u64 * 1_000_003 + u64::from(tag) * 31 + number as u64;
    values(DType::U8, seed as usize % 300, seed)
}

/// Fewer elements than ranks, as many, more, and many.
fn lengths(ranks: usize) -> [usize; 6] {
    [1000, 0, 1, ranks - 1, ranks, ranks + 1]
}

/// The reductions for `collective`: several only if it reduces.
fn ops(collective: Collective, dtype: DType) -> impl Iterator<Item = ReduceOp> {
    let counted = if collective.reduces() { ReduceOp::ALL.len() } else { 1 };
    let refused = move |op: &ReduceOp| collective.is_prefix() && *op == ReduceOp::Avg;
    ReduceOp::ALL.into_iter().take(counted).filter(move |op| op.supports(dtype) && !refused(op))
}

/// Every collective, data type and reduction, in place and out of place. Lengths and roots take turns.
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

/// Makes all calls on all ranks. Replicas must be bit-identical, unless the case names an algorithm that does not
/// promise that.
fn check_all(group: &[Communicator], cases: &[Case]) {
    let prepared: Vec<OnceLock<Prepared>> = cases.iter().map(|_| OnceLock::new()).collect();
    let replicas: Vec<OnceLock<Vec<u8>>> = cases.iter().map(|_| OnceLock::new()).collect();
    let topology = group[0].choices().topology;
    each(group, |communicator| {
        for ((case, prepared), replica) in cases.iter().zip(&prepared).zip(&replicas) {
            let found = case
                .check(communicator, prepared.get_or_init(|| case.prepare()))
                .unwrap_or_else(|error| panic!("rank {} of {case:?}: {error}", communicator.rank()));
            let bit_identical =
                case.algorithm.is_none_or(|member| member.bit_identical(&topology, case.collective));
            if case.collective == Collective::Allreduce && bit_identical {
                let same = *replica.get_or_init(|| found.clone()) == found;
                assert!(same, "rank {} of {case:?} has other bits than another rank", communicator.rank());
            }
        }
    });
}

/// All of these with `RINGROAD_TEST_FULL=1`, otherwise some.
fn some_of<const ALL: usize, const SOME: usize>(all: [usize; ALL], some: [usize; SOME]) -> Vec<usize> {
    if std::env::var_os("RINGROAD_TEST_FULL").is_some() {
        all.to_vec()
    } else {
        some.to_vec()
    }
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
    check_every_call(some_of([1, 2, 3, 4, 5], [1, 3, 4]));
}

#[test]
fn every_call_on_7_and_8_ranks() {
    let _watchdog = watch();
    check_every_call(some_of([7, 8], [8]));
}

#[test]
fn every_call_on_16_ranks() {
    let _watchdog = watch();
    check_every_call([16]);
}

/// Every algorithm for every collective that it performs on a network, at `count` lengths. Members of families, data
/// types, reductions and roots take turns.
fn every_algorithm(topology: &Topology, count: usize) -> Vec<Case> {
    let ranks = topology.ranks();
    let mut cases = Vec::new();
    for (algorithm, collective) in algorithms::catalogue().flat_map(|a| a.collectives().map(move |c| (a, c)))
    {
        let members: Vec<Member> = brief_members(algorithm, topology)
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
            // Every root needs a schedule of its own, so only one in three lengths changes the root.
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

/// Checks every algorithm on a network at `count` lengths.
fn check_algorithms(topology: Topology, means: impl Into<Means>, count: usize) {
    let ranks = topology.ranks();
    // Products of many numbers leave the range of the small types, depending on the order of multiplication.
    let cases = every_algorithm(&topology, count).into_iter();
    let cases: Vec<Case> = cases.filter(|case| ranks <= 16 || case.op != ReduceOp::Product).collect();
    // Restricting the choice keeps the start short: all algorithms are named by the cases.
    let options = Options { topology: Some(topology), algorithm: Some(PLAIN.to_owned()), ..patient() };
    check_all(&group_with(ranks, means, &config(), &options), &cases);
}

/// One algorithm for each collective.
const PLAIN: &str = "ring,binomial,pairwise";

#[test]
fn every_algorithm_on_up_to_8_ranks() {
    let _watchdog = watch();
    for ranks in some_of([1, 2, 3, 4, 5, 7, 8], [2, 3, 5, 8]) {
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

/// Blocks of any length, some of them empty, with every algorithm, out of place and in place.
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
            let mut members = vec![None];
            members.extend(algorithms::available(&topology, collective).into_iter().map(Some));
            for (index, algorithm) in members.into_iter().enumerate() {
                let counts: Vec<usize> =
                    (0..ranks).map(|rank| (rank * 7 + index * 3) % 11 * (index % 3)).collect();
                check_uneven(&group, collective, &counts, algorithm);
            }
        }
    }
}

fn check_uneven(group: &[Communicator], collective: Collective, counts: &[usize], algorithm: Option<Member>) {
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
                (Memory::nothing(), Memory::from_slice(&whole))
            } else {
                (Memory::from_slice(input), Memory::from_slice(&vec![-1i64; expected.len()]))
            };
            let key = CallKey::new(Operation::Collective(collective), DType::I64, 0);
            let key = CallKey { counts: Some(counts.into()), in_place, algorithm, ..key };
            let request = Request::from_key(key, from, to);
            let output = communicator
                .run(request)
                .unwrap_or_else(|error| panic!("{collective} of {counts:?} by {algorithm:?}: {error}"))
                .to_vec::<i64>();
            let found = if in_place && !gathers { &output[own.clone()] } else { &output[..] };
            assert_eq!(found, expected, "{collective} of {counts:?} by {algorithm:?}, in place: {in_place}");
        }
    });
}

/// Counts that do not fit are refused on every rank, and the communicator remains usable.
#[test]
fn counts_that_make_no_sense() {
    let _watchdog = watch();
    each(&group(3, 0), |communicator| {
        let run = |collective, counts: &[usize]| {
            let request = Request::new(
                Operation::Collective(collective),
                DType::U8,
                6,
                Memory::zeroed(6),
                Memory::zeroed(6),
            );
            communicator.run(request.in_blocks(counts)).err().unwrap().to_string()
        };
        let error = run(Collective::Allgather, &[1, 2]);
        assert_eq!(error, "allgather over 3 ranks takes one count for each rank, not 2 counts");
        let error = run(Collective::Allreduce, &[1, 2]);
        assert_eq!(error, "allreduce of 6 elements takes no counts of 3");
        let error = run(Collective::ReduceScatter, &[1, 2, 4]);
        assert!(error.contains("7 bytes of input"), "{error}");
        let error = run(Collective::ReduceScatter, &[usize::MAX, 2, 4]);
        assert_eq!(error, "the sum of counts is too large");
        communicator.barrier(None).unwrap();
    });
}

#[test]
fn halves_are_reduced_as_singles_and_rounded_once() {
    let _watchdog = watch();
    for means in MEANS {
        each(&group(2, means), |communicator| {
            let run = |dtype, op, mine: [u16; 2]| {
                let key = CallKey::new(Operation::Collective(Collective::Allreduce), dtype, 2);
                let request =
                    Request::from_key(CallKey { op, ..key }, Memory::from_slice(&mine), Memory::zeroed(4));
                let request = Request { factor: 1.0 / 3.0, ..request };
                communicator.run(request).unwrap().to_vec::<u16>()
            };
            let first = communicator.rank() == 0;
            let half = |x: f32| f16::from_f32(x).to_bits();
            let brain = |x: f32| bf16::from_f32(x).to_bits();
            // 2048 + 1 is half-way between two halves, and so is 2048 + 3: both are rounded to even.
            let mine = if first { [half(2048.0); 2] } else { [half(1.0), half(3.0)] };
            assert_eq!(run(DType::F16, ReduceOp::Sum, mine), [half(2048.0), half(2052.0)]);
            let mine = if first { [brain(256.0); 2] } else { [brain(1.0), brain(3.0)] };
            assert_eq!(run(DType::BF16, ReduceOp::Sum, mine), [brain(256.0), brain(260.0)]);
            // The sum does not fit, but is rounded before it is divided: infinite on every rank.
            let mine = [half(40000.0), half(3.0)];
            assert_eq!(run(DType::F16, ReduceOp::Avg, mine), [half(f32::INFINITY), half(3.0)]);
            // A third is multiplied in single precision.
            let third = run(DType::BF16, ReduceOp::PremulSum, [brain(3.0), brain(1.0)]);
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
                let mine = Memory::from_slice(&[rank as f64, 1.0, -2.0 * rank as f64]);
                let (input, output) =
                    if in_place { (Memory::nothing(), mine) } else { (mine, Memory::zeroed(24)) };
                let key = CallKey::new(Operation::Collective(Collective::Allreduce), DType::F64, 3);
                let request = Request::from_key(CallKey { op, in_place, ..key }, input, output);
                let request = Request { factor: rank as f64, ..request };
                communicator.run(request).unwrap().to_vec::<f64>()
            };
            for in_place in [false, true] {
                assert_eq!(run(ReduceOp::Avg, in_place), [2.0, 1.0, -4.0]);
                // Every rank has a factor of its own: the sum of squares, the sum, and the former again.
                assert_eq!(run(ReduceOp::PremulSum, in_place), [30.0, 10.0, -60.0]);
            }
        });
    }
}

/// Any non-zero byte is true, and reduced values are 0 or 1.
#[test]
fn any_byte_but_zero_is_true() {
    let _watchdog = watch();
    for means in SLOW {
        each(&group(3, means), |communicator| {
            let run = |op, mine: [u8; 4]| {
                let call = Operation::Collective(Collective::Allreduce);
                let request =
                    Request::new(call, DType::Bool, 4, Memory::from_slice(&mine), Memory::zeroed(4));
                communicator.run(request.reducing(op)).unwrap().to_vec::<u8>()
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

/// The input belongs to the caller: ranks keep intermediate values elsewhere.
#[test]
fn inputs_are_left_alone() {
    let _watchdog = watch();
    for means in SLOW {
        let group = group(4, means);
        let cases = every_algorithm(&group[0].choices().topology, 1);
        each(&group, |communicator| {
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

/// Memory that local ranks read directly: calls leave the input alone, and a rank whose call has ended may do with its
/// memory what it likes, whatever the others are doing. Lengths are around those from which on messages are sent
/// without a copy, and those at which messages are cut.
#[test]
fn memory_that_others_can_read() {
    let _watchdog = watch();
    const LEND: usize = 32 << 10;
    const SEGMENT: usize = 512 << 10;
    /// The corresponding length of broadcasts is shorter.
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
                        // With many ranks, each length is tried with one of the three only.
                        if ranks > 3 && lent != index % 3 {
                            continue;
                        }
                        // Either the message has this length, or the vector.
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
                    mine.iter().for_each(|region| {
                        region.copy_from(&Region::from_slice(&vec![0xee_u8; region.len()]))
                    });
                }
            }
        });
    }
}

#[test]
fn nobody_leaves_a_barrier_before_all_have_entered() {
    let _watchdog = watch();
    for ranks in [1, 2, 3, 7, 8] {
        for means in MEANS {
            let entered = AtomicUsize::new(0);
            each(&group(ranks, means), |communicator| {
                let mut random = Random::new(communicator.rank() as u64);
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

/// Runs this binary again, as `asynchronous` needs it.
#[test]
#[ignore = "run by the other tests"]
fn child() {
    asynchronous::child();
}
