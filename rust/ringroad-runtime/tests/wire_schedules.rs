//! Schedules with wire formats: for every algorithm, with events in random order, all ranks end with the same bits, and the
//! error is within its bound, which adversarial inputs come near to. One thread runs the plans of all ranks, with the real
//! codecs. By default on small networks and a choice of formats and types; `RINGROAD_TEST_FULL=1` tests all of them, on up to
//! 33 ranks.

#[allow(dead_code)] // Tests of the core use the rest.
#[path = "../../ringroad-core/tests/common/mod.rs"]
mod plans;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use half::{bf16, f16};
use plans::driver::{drive, Machine, Protocol};
use plans::element::{from_bytes, to_bytes, Element};
use plans::graphs::graphs;
use plans::invariants::{check_messages, check_plan};
use plans::twin::{answer, blocks, has_both, input_len, output_len, shared_starts};
use plans::Random;
use ringroad_core::algorithms::{available, find, Member};
use ringroad_core::executor::Executor;
use ringroad_core::plan::LowerOptions;
use ringroad_core::schedule::Rounding;
use ringroad_core::{Collective, Plan, Rank, Schedule, Topology, Wire};
use ringroad_runtime::kernels::wire::{self, dithers, Format};
use ringroad_runtime::DType;

const POISON: u8 = 0xA5;
const DTYPES: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

thread_local! {
    static FORMAT: Cell<Format> = Cell::new(Wire::Int8.into());
}

/// A number of the type of this place in [`DTYPES`], which is encoded in [`FORMAT`].
#[derive(Debug, Clone, Copy, PartialEq)]
struct Number<const TYPE: usize>(f64);

impl<const TYPE: usize> Number<TYPE> {
    const DTYPE: DType = DTYPES[TYPE];

    fn rounded(x: f64) -> Self {
        Number(match Self::DTYPE {
            DType::F16 => f16::from_f64(x).to_f64(),
            DType::BF16 => bf16::from_f64(x).to_f64(),
            DType::F32 => f64::from(x as f32),
            _ => x,
        })
    }

    /// What the type rounds at most, as a fraction.
    fn precision() -> f64 {
        2f64.powi(match Self::DTYPE {
            DType::F16 => -11,
            DType::BF16 => -8,
            DType::F32 => -24,
            _ => -53,
        })
    }
}

impl<const TYPE: usize> Element for Number<TYPE> {
    const BYTES: usize = Self::DTYPE.size();

    fn random(random: &mut Random) -> Self {
        Self::rounded((random.next() >> 40) as f64 / f64::from(1 << 23) - 1.0)
    }

    fn add(self, other: Self) -> Self {
        Self::rounded(self.0 + other.0)
    }

    fn scale(self, factor: u8) -> Self {
        Self::rounded(self.0 * f64::from(factor))
    }

    fn divide(self, ranks: usize) -> Self {
        Self::rounded(self.0 / ranks as f64)
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        Number(match Self::DTYPE {
            DType::F16 => f16::from_le_bytes(bytes.try_into().unwrap()).to_f64(),
            DType::BF16 => bf16::from_le_bytes(bytes.try_into().unwrap()).to_f64(),
            DType::F32 => f32::from_le_bytes(bytes.try_into().unwrap()).into(),
            _ => f64::from_le_bytes(bytes.try_into().unwrap()),
        })
    }

    fn to_bytes(self, bytes: &mut [u8]) {
        match Self::DTYPE {
            DType::F16 => bytes.copy_from_slice(&f16::from_f64(self.0).to_le_bytes()),
            DType::BF16 => bytes.copy_from_slice(&bf16::from_f64(self.0).to_le_bytes()),
            DType::F32 => bytes.copy_from_slice(&(self.0 as f32).to_le_bytes()),
            _ => bytes.copy_from_slice(&self.0.to_le_bytes()),
        }
    }

    fn encode(elements: &[Self]) -> Vec<u8> {
        let (format, source) = (FORMAT.get(), to_bytes(elements));
        let mut bytes = vec![POISON; format.wire.encoded(elements.len())];
        // SAFETY: both have so many elements.
        unsafe {
            wire::encode(format, Self::DTYPE, bytes.as_mut_ptr(), source.as_ptr(), None, elements.len());
        }
        bytes
    }

    fn decode(bytes: &[u8], elements: usize) -> Vec<Self> {
        let format = FORMAT.get();
        assert_eq!(bytes.len(), format.wire.encoded(elements), "the bytes are those of whole records");
        let mut target = vec![POISON; elements * Self::BYTES];
        // SAFETY: both have so many elements.
        unsafe {
            wire::decode(format.wire, Self::DTYPE, target.as_mut_ptr(), None, bytes.as_ptr(), elements);
        }
        from_bytes(&target)
    }

    fn agrees(self, _: Self, _: usize) -> bool {
        unreachable!("results are compared by their errors")
    }
}

/// The options of all ranks of one call.
fn options(random: &mut Random, collective: Collective) -> LowerOptions {
    LowerOptions {
        segment: random.pick(&[64, 600, 5000, 16 << 10]),
        pack: random.pick(&[0, 300, 32 << 10]),
        window: random.pick(&[0, 300, 4096]),
        average: collective.reduces() && !collective.is_prefix() && random.coin(),
        wire: Some(FORMAT.get().wire),
        ..LowerOptions::default()
    }
}

/// Runs one call and returns the ranks' results.
fn run<T: Element>(
    schedule: &Schedule,
    inputs: &[Vec<T>],
    elements: usize,
    options: &LowerOptions,
    random: &mut Random,
) -> Vec<Vec<T>> {
    let Schedule { collective, ranks, .. } = *schedule;
    let record = FORMAT.get().wire.record();
    let longest = options.segment.max(record).max(elements * ranks * T::BYTES / 2048 * schedule.slots());
    let mut machines = Vec::new();
    for (rank, input) in inputs.iter().enumerate() {
        let options = LowerOptions { in_place: random.coin(), ..options.clone() };
        let plan = Plan::lower(schedule, rank, elements, T::BYTES, &options).unwrap();
        let output = output_len(collective, ranks, rank, elements);
        let shared = options.in_place && has_both(collective, rank);
        let sizes = if shared { [0, input.len().max(output)] } else { [input.len(), output] };
        check_plan(&plan, sizes.map(|size| T::BYTES * size), longest + record + schedule.chunks * 8, false);
        let scratch = vec![POISON; plan.scratch()];
        let mut memory = vec![POISON; T::BYTES * sizes[1]];
        if shared {
            let start = T::BYTES * shared_starts(collective, rank, elements).0;
            memory[start..start + T::BYTES * input.len()].copy_from_slice(&to_bytes(input));
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
    drive::<T>(&mut machines, protocol, random).unwrap_or_else(|stuck| panic!("{stuck}"));
    let result = |(rank, machine): (Rank, &Machine)| {
        let len = output_len(collective, ranks, rank, elements);
        let shared = machine.buffers[0].is_empty() && has_both(collective, rank);
        let start = if shared { shared_starts(collective, rank, elements).1 } else { 0 };
        from_bytes(&machine.buffers[1][T::BYTES * start..T::BYTES * (start + len)])
    };
    machines.iter().enumerate().map(result).collect()
}

/// Runs a call, checks its results, and returns their error and its bound, as fractions of the sum of the ranks' largest
/// magnitudes. Results may also be off by what the type rounds without a format.
fn check<const TYPE: usize>(
    schedule: &Schedule,
    inputs: &[Vec<Number<TYPE>>],
    elements: usize,
    options: &LowerOptions,
    random: &mut Random,
) -> [f64; 2] {
    let Schedule { collective, ranks, .. } = *schedule;
    let results = run(schedule, inputs, elements, options, random);
    let Rounding { agrees, roundings } = Rounding::from_schedule(schedule).expect("it is small");
    let (format, dtype) = (FORMAT.get(), Number::<TYPE>::DTYPE);
    let name = &schedule.name;
    let what = || {
        format!("{format:?} of {elements} {dtype} by {name} for {collective} over {ranks} ranks, {options:?}")
    };
    if collective == Collective::Allreduce && agrees {
        assert!(results.iter().all(|result| result == &results[0]), "{}: other bits", what());
    }
    assert!(roundings <= Rounding::most(schedule.steps.len()), "{}", what());
    // A rounding at random errs like two to the nearest.
    let bound =
        format.wire.bound(if format.seed.is_some() { 2 * roundings } else { roundings }, dtype.size());
    let found = error(collective, inputs, &results, elements, options.average);
    let own = Number::<TYPE>::precision() * (2 * roundings as usize + ranks) as f64;
    assert!(found <= bound + own, "{}: {found} instead of {bound}, {roundings} roundings", what());
    [found, bound]
}

/// How far the results are from the exact ones, as a fraction of the sum of the ranks' largest magnitudes.
fn error<const TYPE: usize>(
    collective: Collective,
    inputs: &[Vec<Number<TYPE>>],
    results: &[Vec<Number<TYPE>>],
    elements: usize,
    average: bool,
) -> f64 {
    // In double precision.
    let exact: Vec<Vec<Number<1>>> =
        inputs.iter().map(|input| input.iter().map(|x| Number(x.0)).collect()).collect();
    let exact = answer(collective, &exact, elements, average);
    let tops = inputs.iter().map(|input| input.iter().fold(0.0, |top, x| x.0.abs().max(top)));
    let norm: f64 = if collective.reduces() { tops.sum() } else { tops.fold(0.0, f64::max) };
    let norm = if average { norm / inputs.len() as f64 } else { norm };
    let pairs = results.iter().flatten().zip(exact.iter().flatten());
    let most = pairs.fold(0.0, |most, (a, b)| f64::max(most, (a.0 - b.0).abs()));
    if most == 0.0 {
        0.0
    } else {
        most / norm
    }
}

/// A call with random inputs.
fn check_random<const TYPE: usize>(schedule: &Schedule, elements: usize, random: &mut Random) {
    let Schedule { collective, ranks, .. } = *schedule;
    let options = options(random, collective);
    let mut input = |rank: Rank| -> Vec<Number<TYPE>> {
        let len = input_len(collective, ranks, rank, elements);
        (0..len).map(|_| Number::random(random).scale(1 << (rank % 5))).collect()
    };
    let inputs: Vec<_> = (0..ranks).map(&mut input).collect();
    check(schedule, &inputs, elements, &options, random);
}

/// The formats of this type, also those that round at random.
fn formats(dtype: DType) -> Vec<Format> {
    let shorter = || Wire::ALL.into_iter().filter(|wire| wire.shortens(dtype.size()));
    let random = shorter().filter(|wire| dithers(*wire, dtype));
    shorter().map(Format::from).chain(random.map(|wire| Format { wire, seed: Some(7) })).collect()
}

fn is_full() -> bool {
    std::env::var_os("RINGROAD_TEST_FULL").is_some()
}

fn networks(most: usize) -> Vec<Topology> {
    let rings =
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 24, 32, 33].map(|ranks| Topology::ring(ranks).unwrap());
    let tori: [&[usize]; 7] = [&[2, 2], &[2, 4], &[3, 3], &[3, 2, 2], &[4, 4], &[3, 3, 3], &[4, 8]];
    let hosts = [(2, 2), (3, 2), (2, 4), (4, 4), (4, 8), (11, 3)];
    let hosts = hosts.map(|(hosts, per_host)| Topology::hosts(hosts, per_host).unwrap());
    let tori = tori.map(|sizes| Topology::torus(sizes).unwrap());
    let all = rings.into_iter().chain(tori).chain(hosts).chain(graphs());
    all.filter(|topology| topology.ranks() <= most).collect()
}

/// A member of which each parameter is as the catalogue says, but pipelines are short.
fn short(member: Member) -> Member {
    let algorithm = member.algorithm();
    find(&format!("{}:3", algorithm.name)).ok().filter(|_| algorithm.parameter.is_some()).unwrap_or(member)
}

/// The schedules of all algorithms on this network.
fn schedules(topology: &Topology, collective: Collective) -> impl Iterator<Item = Schedule> + use<'_> {
    let collective = collective.with_root(topology.ranks() / 2);
    let members: BTreeSet<String> = available(topology, collective)
        .into_iter()
        .flat_map(|member| [member, short(member)].map(|member| member.to_string()))
        .collect();
    members.into_iter().filter_map(move |name| find(&name).unwrap().build(topology, collective).ok())
}

/// Calls this with every network of at most so many ranks, on all cores, and with random numbers of its own.
fn on_networks<T: Send>(most: usize, run: impl Fn(&Topology, &mut Random) -> T + Sync) -> Vec<T> {
    let networks = networks(most);
    let (next, results) = (Mutex::new(networks.iter().zip(17..)), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| loop {
                let Some((topology, seed)) = next.lock().unwrap().next() else { break };
                let result = run(topology, &mut Random(seed));
                results.lock().unwrap().push(result);
            });
        }
    });
    results.into_inner().unwrap()
}

#[test]
fn every_algorithm_ends_with_the_same_bits_within_its_bound() {
    let cases: Vec<(usize, Format)> = (0..DTYPES.len())
        .flat_map(|dtype| formats(DTYPES[dtype]).into_iter().map(move |format| (dtype, format)))
        .collect();
    let calls = on_networks(if is_full() { 33 } else { 9 }, |topology, random| {
        let longest = if topology.ranks() > 9 { 700 } else { 3000 };
        let mut calls = 0;
        for schedule in Collective::ALL.into_iter().flat_map(|all| schedules(topology, all)) {
            let some = [random.pick(&cases)];
            for (dtype, format) in if is_full() { &cases[..] } else { &some } {
                FORMAT.set(*format);
                let check = [check_random::<0>, check_random::<1>, check_random::<2>, check_random::<3>];
                let elements = random.pick(&[0, 1, topology.ranks() + 1, 300, longest]);
                check[*dtype](&schedule, elements, random);
                calls += 1;
            }
        }
        calls
    });
    let calls: usize = calls.into_iter().sum();
    assert!(calls > 1000, "{calls} calls");
}

/// A million elements, of every format and type, by some algorithms.
#[test]
fn long_vectors_end_with_the_same_bits_within_their_bound() {
    if !is_full() {
        return;
    }
    let mut random = Random(19);
    for topology in networks(9) {
        let all: Vec<Schedule> = schedules(&topology, Collective::Allreduce).collect();
        for dtype in 0..DTYPES.len() {
            for format in formats(DTYPES[dtype]) {
                FORMAT.set(format);
                let check = [check_random::<0>, check_random::<1>, check_random::<2>, check_random::<3>];
                check[dtype](&all[random.below(all.len())], 1_000_000, &mut random);
            }
        }
    }
}

/// Algorithms in which ranks add up the same values in different ways, some of which they have sent, cannot have a format:
/// calls by them are refused. All others that are bit-identical without a format are so with one, too.
const REFUSED: [&str; 2] = ["generalized", "generalized-xor"];

#[test]
fn replicas_stay_bit_identical() {
    let mut refused = BTreeSet::new();
    for topology in networks(16) {
        for member in available(&topology, Collective::Allreduce) {
            let Ok(schedule) = member.build(&topology, Collective::Allreduce) else { continue };
            let rounding = Rounding::from_schedule(&schedule).unwrap();
            if member.bit_identical(&topology, Collective::Allreduce) && !rounding.agrees {
                refused.insert(member.algorithm().name);
            }
        }
    }
    assert!(refused.iter().all(|name| REFUSED.contains(name)), "{refused:?}");
}

/// The elements of a chunk in [`adversary`]'s vectors.
const PIECE: usize = 64;

/// One rank's numbers set the scales of all chunks, and lie on the grid. To them, all other ranks add either nothing or a
/// little less than half of the distance to the next number, which every rounding takes away. Which of them do so differs
/// between elements, at random: of sums that arrive together, only one shall be taken away.
fn adversary<const TYPE: usize>(
    wire: Wire,
    leader: Rank,
    rank: Rank,
    len: usize,
    random: &mut Random,
) -> Vec<Number<TYPE>> {
    let [top, base, less] = match wire {
        Wire::Bf16 => [1.0, 1.0, 0.99 / 256.0],
        Wire::F16 => [1.0, 1.0, 0.99 / 2048.0],
        Wire::Fp8 => [448.0, 256.0, 14.0],
        Wire::Int8 => [127.0, 0.0, 0.49],
        Wire::Int4 => [7.0, 0.0, 0.49],
    };
    let number = |at: usize| {
        let leads = |x| if rank == leader { x } else { 0.0 };
        match at % PIECE {
            0 => leads(top),
            1 => leads(base) + less,
            _ => leads(base) + if random.coin() { less } else { 0.0 },
        }
    };
    (0..len).map(number).map(Number::rounded).collect()
}

/// The largest error over all leaders, several times, until it comes near to the bound.
fn worst<const TYPE: usize>(schedule: &Schedule, random: &mut Random) -> [f64; 2] {
    let Schedule { collective, ranks, chunks, .. } = *schedule;
    let elements = PIECE * chunks / blocks(collective, ranks);
    let options = LowerOptions { average: false, ..options(random, collective) };
    let wire = FORMAT.get().wire;
    let mut worst = [0.0_f64; 2];
    for leader in (0..ranks).cycle().take(8 * ranks) {
        let inputs: Vec<_> = (0..ranks)
            .map(|rank| {
                let len = input_len(collective, ranks, rank, elements);
                adversary::<TYPE>(wire, leader, rank, len, random)
            })
            .collect();
        let [found, bound] = check(schedule, &inputs, elements, &options, random);
        worst = [worst[0].max(found), bound];
        if bound <= 4.0 * worst[0] {
            break;
        }
    }
    worst
}

/// No bound is more than 4 times the error of the worst input.
#[test]
fn bounds_are_reached() {
    let loose = on_networks(if is_full() { 33 } else { 4 }, |topology, random| {
        let mut loose = String::new();
        for schedule in Collective::ALL.into_iter().flat_map(|all| schedules(topology, all)) {
            for dtype in if is_full() { 0..DTYPES.len() } else { 0..1 } {
                for format in formats(DTYPES[dtype]).into_iter().filter(|format| format.seed.is_none()) {
                    FORMAT.set(format);
                    let worst = [worst::<0>, worst::<1>, worst::<2>, worst::<3>];
                    let [found, bound] = worst[dtype](&schedule, random);
                    if bound > 4.0 * found {
                        let Schedule { name, collective, ranks, .. } = &schedule;
                        let Format { wire, .. } = format;
                        let call = format!("{wire} of {} by {name} for {collective}", DTYPES[dtype]);
                        loose += &format!("\n{call} over {ranks} ranks: {found} of {bound}");
                    }
                }
            }
        }
        loose
    })
    .concat();
    assert!(loose.is_empty(), "these bounds are more than 4 times the largest error:{loose}");
}
