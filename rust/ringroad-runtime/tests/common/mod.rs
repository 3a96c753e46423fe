//! What the tests of communicators share: ranks that are threads, data from seeds, reference results, a watchdog.

// Every test binary uses only a part of this module.
#![allow(dead_code)]

pub mod mortal;
pub mod processes;

use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe, Location};
use std::sync::{mpsc, Arc};
use std::thread;
use std::time::Duration;

use half::{bf16, f16};
use ringroad_core::algorithms::{find, Member};
use ringroad_core::collective::Holding;
use ringroad_core::random::Random;
use ringroad_core::Collective;
use ringroad_runtime::config::Config;
use ringroad_runtime::kernels::scalar;
use ringroad_runtime::transport::buffer::Region;
use ringroad_runtime::transport::in_process::InProcess;
use ringroad_runtime::transport::shared::{Pool, SharedMemory};
use ringroad_runtime::transport::Transport;
use ringroad_runtime::{CallKey, Communicator, DType, Memory, Operation, Options, ReduceOp, Request, Result};

/// The transport of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// Mailboxes. Messages of at least this many bytes wait for their receiver.
    Mailboxes(usize),
    /// Memory that all ranks can read.
    Shared,
}

/// Rendezvous for every message, and for none; shared memory.
pub const MEANS: [Means; 3] = [Means::Mailboxes(0), Means::Mailboxes(usize::MAX), Means::Shared];
/// The transports with the most waiting.
pub const SLOW: [Means; 2] = [Means::Mailboxes(0), Means::Shared];

impl From<usize> for Means {
    fn from(eager_limit: usize) -> Means {
        Means::Mailboxes(eager_limit)
    }
}

impl Means {
    pub fn transports(self, ranks: usize) -> Vec<Box<dyn Transport>> {
        match self {
            Means::Mailboxes(eager_limit) => boxed(InProcess::group_with(ranks, eager_limit)),
            Means::Shared => boxed(SharedMemory::group(ranks).unwrap()),
        }
    }
}

/// A test that takes longer than this hangs.
const WATCHDOG_TIMEOUT: Duration = Duration::from_secs(match () {
    () if cfg!(miri) => 3600,
    // ThreadSanitizer also watches what tests do with their data.
    () if cfg!(tsan) => 600,
    () => 180,
});

/// Ends the process and prints the test's name, unless the watchdog is dropped in time.
pub struct Watchdog {
    _alive: mpsc::Sender<()>,
}

/// Watches the calling test until the result is dropped.
#[track_caller]
pub fn watch() -> Watchdog {
    let name = thread::current().name().unwrap_or("a test").to_owned();
    let place = Location::caller();
    let (alive, ended) = mpsc::channel();
    thread::spawn(move || {
        // Second by second, so that the time does not count in which the process is stopped.
        let alive =
            |_: &u64| ended.recv_timeout(Duration::from_secs(1)) == Err(mpsc::RecvTimeoutError::Timeout);
        if (0..WATCHDOG_TIMEOUT.as_secs()).take_while(alive).count() as u64 == WATCHDOG_TIMEOUT.as_secs() {
            // Written directly to the terminal: the output that the harness captures is lost.
            let _ = writeln!(
                io::stderr(),
                "{name} ({place}) hangs: it still runs after {} s",
                WATCHDOG_TIMEOUT.as_secs()
            );
            std::process::abort();
        }
    });
    Watchdog { _alive: alive }
}

/// Options with a timeout that only a call that hangs reaches.
pub fn patient() -> Options {
    // Miri would take minutes to compare all algorithms.
    let algorithm = cfg!(miri).then(|| "ring,binomial,pairwise".to_owned());
    let timeout = Some(WATCHDOG_TIMEOUT * 5 / 6);
    Options { timeout, algorithm, ..Options::default() }
}

/// The configuration of an empty environment.
pub fn config() -> Config {
    Config::default()
}

/// A sum of floats that are 0.
pub fn allreduce(elements: usize) -> Request {
    let call = Operation::Collective(Collective::Allreduce);
    Request::new(call, DType::F32, elements, Memory::zeroed(4 * elements), Memory::zeroed(4 * elements))
}

/// A message of these bytes.
pub fn send(peer: usize, tag: u32, content: &[u8]) -> Request {
    let operation = Operation::Send { peer, tag };
    Request::new(operation, DType::U8, content.len(), Memory::from_slice(content), Memory::nothing())
}

/// A message of so many bytes.
pub fn receive(peer: usize, tag: u32, bytes: usize) -> Request {
    let operation = Operation::Receive { peer, tag };
    Request::new(operation, DType::U8, bytes, Memory::nothing(), Memory::zeroed(bytes))
}

/// A group of ranks that are threads, with default settings.
pub fn group(ranks: usize, means: impl Into<Means>) -> Vec<Communicator> {
    group_with(ranks, means, &config(), &patient())
}

pub fn group_with(
    ranks: usize,
    means: impl Into<Means>,
    config: &Config,
    options: &Options,
) -> Vec<Communicator> {
    Communicator::over(means.into().transports(ranks), config, options).unwrap()
}

/// A group over shared memory, with the pool of each rank.
pub fn group_with_pools(ranks: usize) -> (Vec<Communicator>, Vec<Arc<Pool>>) {
    let mut transports = Means::Shared.transports(ranks);
    let pools = transports.iter_mut().map(|transport| transport.local_memory().unwrap().pool()).collect();
    (Communicator::over(transports, &config(), &patient()).unwrap(), pools)
}

/// Copies the content of `memory` to memory of the pool that begins `shift` bytes after the beginning of a cache
/// line. Returns the new memory twice.
pub fn pooled(pool: &Arc<Pool>, memory: &Memory, shift: usize) -> (Memory, Region) {
    let content = Region::from_slice(&memory.to_vec::<u8>());
    let region = pool.allocate(content.len() + shift).unwrap().part(shift..content.len() + shift);
    // SAFETY: it is new, and lives as long as the memory, which nobody else uses during a call.
    #[allow(unsafe_code)]
    let memory = unsafe {
        region.copy_from(&content);
        Memory::foreign(region.as_ptr(), region.len(), Arc::new(region.clone()))
    };
    (memory, region)
}

pub fn boxed<T: Transport + 'static>(transports: impl IntoIterator<Item = T>) -> Vec<Box<dyn Transport>> {
    transports.into_iter().map(|t| Box::new(t) as Box<dyn Transport>).collect()
}

/// Runs `body` for each rank on a thread of its own; returns the results by rank. If one panics, the communicator is
/// aborted.
pub fn each<T: Send>(group: &[Communicator], body: impl Fn(&Communicator) -> T + Sync) -> Vec<T> {
    let run = |communicator: &Communicator| {
        let result = panic::catch_unwind(AssertUnwindSafe(|| body(communicator)));
        if result.is_err() {
            communicator.abort("its thread has panicked").unwrap();
        }
        result
    };
    let run = &run;
    let results: Vec<thread::Result<T>> = thread::scope(|scope| {
        let threads: Vec<_> = group.iter().map(|c| scope.spawn(move || run(c))).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    results.into_iter().map(|r| r.unwrap_or_else(|panic| panic::resume_unwind(panic))).collect()
}

// ------------------------------------------------------------------------------------------------------- data

/// A number of either sign and with a magnitude in 0.5..1.5, so that neither sums nor products leave the range of any
/// type.
pub fn float(random: &mut Random) -> f64 {
    let magnitude = 0.5 + (random.bits() >> 11) as f64 / (1u64 << 53) as f64;
    if random.bits() & 1 == 0 {
        magnitude
    } else {
        -magnitude
    }
}

/// Values of `dtype` from a seed.
pub fn values(dtype: DType, elements: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = Vec::with_capacity(elements * dtype.size());
    while bytes.len() < elements * dtype.size() {
        match dtype {
            DType::F16 => bytes.extend(f16::from_f64(float(&mut random)).to_le_bytes()),
            DType::BF16 => bytes.extend(bf16::from_f64(float(&mut random)).to_le_bytes()),
            DType::F32 | DType::Complex64 => bytes.extend((float(&mut random) as f32).to_le_bytes()),
            DType::F64 | DType::Complex128 => bytes.extend(float(&mut random).to_le_bytes()),
            DType::Bool => bytes.push((random.bits() & 1) as u8),
            // Integers of any width.
            _ => bytes.extend(random.bits().to_le_bytes()),
        }
    }
    bytes.truncate(elements * dtype.size());
    bytes
}

/// Floating-point values as doubles; complex numbers as two.
pub fn doubles(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    match dtype {
        DType::F16 => read::<2>(bytes).map(|b| f16::from_le_bytes(b).to_f64()).collect(),
        DType::BF16 => read::<2>(bytes).map(|b| bf16::from_le_bytes(b).to_f64()).collect(),
        DType::F32 | DType::Complex64 => read::<4>(bytes).map(|b| f64::from(f32::from_le_bytes(b))).collect(),
        DType::F64 | DType::Complex128 => read::<8>(bytes).map(f64::from_le_bytes).collect(),
        _ => panic!("{dtype} is no floating type"),
    }
}

fn read<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.chunks_exact(N).map(|chunk| chunk.try_into().unwrap())
}

// -------------------------------------------------------------------------------------------------- the oracle

/// One collective call of all ranks.
#[derive(Debug, Clone)]
pub struct Case {
    pub ranks: usize,
    pub collective: Collective,
    pub op: ReduceOp,
    /// The factor of rank 0 in a premultiplied sum.
    pub factor: f64,
    pub dtype: DType,
    pub elements: usize,
    pub in_place: bool,
    pub algorithm: Option<Member>,
    pub seed: u64,
}

/// The inputs of all ranks for a case, and the outputs that they must get.
pub struct Prepared {
    pub inputs: Vec<Vec<u8>>,
    pub outputs: Vec<Vec<u8>>,
    /// See [`Case::tolerance`].
    tolerance: (f64, f64),
}

impl Case {
    pub fn new(ranks: usize, collective: Collective, op: ReduceOp, dtype: DType, elements: usize) -> Case {
        let factor = 0.375;
        Case { ranks, collective, op, factor, dtype, elements, in_place: false, algorithm: None, seed: 1 }
    }

    /// The same case with this algorithm.
    pub fn by(self, algorithm: &str) -> Case {
        Case { algorithm: Some(find(algorithm).unwrap()), ..self }
    }

    /// The factor of `rank`: every rank has its own.
    pub fn factor_of(&self, rank: usize) -> f64 {
        match self.op {
            ReduceOp::PremulSum => self.factor + 0.25 * rank as f64,
            _ => 1.0,
        }
    }

    fn block(&self) -> usize {
        self.elements * self.dtype.size()
    }

    fn bytes(&self, holding: Holding) -> usize {
        match holding {
            Holding::Nothing => 0,
            Holding::Block(_) => self.block(),
            Holding::Whole if self.collective.has_blocks() => self.block() * self.ranks,
            Holding::Whole => self.block(),
        }
    }

    /// Whether the last bits of the result depend on the order of reduction.
    pub fn rounds(&self) -> bool {
        self.collective.reduces() && !self.op.order_independent(self.dtype)
    }

    pub fn prepare(&self) -> Prepared {
        let seed = |rank: usize| self.seed.wrapping_mul(1000).wrapping_add(rank as u64);
        let input = |rank| {
            let bytes = self.bytes(self.collective.input(rank));
            values(self.dtype, bytes / self.dtype.size(), seed(rank))
        };
        let inputs: Vec<Vec<u8>> = (0..self.ranks).map(input).collect();
        let whole = match self.collective {
            Collective::Allreduce | Collective::ReduceScatter | Collective::Reduce { .. } => {
                self.reduce(&inputs)
            }
            Collective::Broadcast { root } | Collective::Scatter { root } => inputs[root].clone(),
            Collective::Allgather | Collective::Gather { .. } => inputs.concat(),
            Collective::Alltoall | Collective::Scan | Collective::Exscan => Vec::new(),
        };
        let block = |rank: usize| rank * self.block()..(rank + 1) * self.block();
        let output = |rank: usize| match self.collective.output(rank) {
            _ if self.collective == Collective::Alltoall => {
                inputs.iter().map(|input| &input[block(rank)]).collect::<Vec<_>>().concat()
            }
            Holding::Nothing => Vec::new(),
            _ if self.collective.is_prefix() => {
                self.reduce(&inputs[self.collective.contributors(self.ranks, rank)])
            }
            Holding::Block(own) => whole[block(own)].to_vec(),
            Holding::Whole => whole.clone(),
        };
        let outputs = (0..self.ranks).map(output).collect();
        Prepared { inputs, outputs, tolerance: self.tolerance() }
    }

    /// The reduction of the first ranks' inputs by the scalar kernels, in the order of the ranks.
    fn reduce(&self, inputs: &[Vec<u8>]) -> Vec<u8> {
        let scaled = |rank: usize| {
            let mut to = inputs[rank].clone();
            if self.op == ReduceOp::PremulSum {
                scalar::scale(self.dtype, &mut to, &inputs[rank], self.factor_of(rank)).unwrap();
            }
            to
        };
        let combine = |a: Vec<u8>, b: Vec<u8>| {
            let mut to = vec![0; a.len()];
            scalar::reduce(self.op, self.dtype, &mut to, &a, &b).unwrap();
            to
        };
        let total = (0..inputs.len()).map(scaled).reduce(combine).unwrap();
        if self.op != ReduceOp::Avg {
            return total;
        }
        let mut average = total.clone();
        scalar::divide(self.dtype, &mut average, &total, self.ranks as u32).unwrap();
        average
    }

    /// How far a number may be off, relative to itself and absolutely, for values of [`Random::float`], where every
    /// operation rounds once.
    fn tolerance(&self) -> (f64, f64) {
        if !self.rounds() {
            return (0.0, 0.0);
        }
        let epsilon = match self.dtype {
            DType::F16 => 2f64.powi(-11),
            DType::BF16 => 2f64.powi(-8),
            DType::F32 | DType::Complex64 => 2f64.powi(-24),
            _ => 2f64.powi(-53),
        };
        let n = self.ranks as f64;
        // Both the reference and the result may be off, and there is also a scaling at first or a division at last.
        let each = 2.0 * (n + 1.0) * epsilon;
        match self.op {
            ReduceOp::Product if self.dtype.is_complex() => (4.0 * each, 0.0),
            // Halves are subnormal below 2^-14.
            ReduceOp::Product if self.dtype == DType::F16 => (each, 1e-4),
            ReduceOp::Product => (each, 0.0),
            ReduceOp::PremulSum => (0.0, each * 1.5 * n * (self.factor.abs() + 0.25 * n)),
            _ => (0.0, each * 1.5 * n),
        }
    }

    /// The call as `rank` makes it.
    pub fn request(&self, rank: usize, input: &[u8]) -> Request {
        let (has, gets) = (self.collective.input(rank), self.collective.output(rank));
        let (input_bytes, output_bytes) = (self.bytes(has), self.bytes(gets));
        assert_eq!(input.len(), input_bytes);
        let (input, output) = if self.in_place && input_bytes > 0 && output_bytes > 0 {
            let mut both = vec![0xa5; input_bytes.max(output_bytes)];
            let start = if let Holding::Block(own) = has { own * self.block() } else { 0 };
            both[start..start + input_bytes].copy_from_slice(input);
            (Memory::nothing(), Memory::from_slice(&both))
        } else {
            (Memory::from_slice(input), Memory::from_slice(&vec![0xa5u8; output_bytes]))
        };
        let (in_place, algorithm) = (self.in_place, self.algorithm);
        let key = CallKey::new(Operation::Collective(self.collective), self.dtype, self.elements);
        let key = CallKey { op: self.op, in_place, algorithm, ..key };
        Request { factor: self.factor_of(rank), ..Request::from_key(key, input, output) }
    }

    /// The result of a call, within the memory that the call was given.
    pub fn result(&self, rank: usize, output: &Memory) -> Vec<u8> {
        let bytes = output.to_vec::<u8>();
        match (self.collective.input(rank), self.collective.output(rank)) {
            (Holding::Whole, Holding::Block(own)) if self.in_place && !bytes.is_empty() => {
                bytes[own * self.block()..(own + 1) * self.block()].to_vec()
            }
            _ => bytes,
        }
    }

    /// Makes the call and compares the result with the reference; returns it.
    pub fn check(&self, communicator: &Communicator, prepared: &Prepared) -> Result<Vec<u8>> {
        let rank = communicator.rank();
        let output = communicator.run(self.request(rank, &prepared.inputs[rank]))?;
        let found = self.result(rank, &output);
        prepared.compare(self, rank, &found);
        Ok(found)
    }
}

impl Prepared {
    /// Fails with the first number that differs.
    pub fn compare(&self, case: &Case, rank: usize, found: &[u8]) {
        let expected = &self.outputs[rank];
        assert_eq!(found.len(), expected.len(), "rank {rank} of {case:?}");
        if found == expected {
            return;
        }
        assert!(
            case.rounds(),
            "rank {rank} of {case:?}: {}",
            first_difference(expected, found, case.dtype.size())
        );
        let (relative, absolute) = self.tolerance;
        let (expected, found) = (doubles(case.dtype, expected), doubles(case.dtype, found));
        let parts = if case.dtype.is_complex() { 2 } else { 1 };
        for (index, (e, f)) in expected.chunks(parts).zip(found.chunks(parts)).enumerate() {
            let size = e.iter().fold(0.0, |size: f64, part| size.hypot(*part));
            let allowed = relative * size + absolute;
            let fits = e.iter().zip(f).all(|(e, f)| (e - f).abs() <= allowed);
            assert!(fits, "rank {rank} of {case:?}: element {index} is {f:?}, not {e:?} (within {allowed})");
        }
    }
}

fn first_difference(expected: &[u8], found: &[u8], size: usize) -> String {
    let mut pairs = expected.chunks(size).zip(found.chunks(size)).enumerate();
    let (index, (expected, found)) = pairs.find(|(_, (e, f))| e != f).expect("they differ");
    format!("element {index} is {found:02x?}, not {expected:02x?}")
}
