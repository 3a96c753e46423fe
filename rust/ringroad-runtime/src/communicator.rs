//! A group of ranks that call collectives together.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Once, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ringroad_core::collective::Holding;
use ringroad_core::plan::Counts;
use ringroad_core::{algorithms, Bytes, Collective, Plan, Rank, Topology};
use ucx_sys::LoadOptions;

use crate::agreement::{agree, choose};
use crate::bootstrap::{exchange, Card, Meeting, PrefixStore, Store};
use crate::buffer::{Memory, Region};
use crate::call::{Call, Operation, Prepared};
use crate::config::{Cma, Config, Debug, Secret};
use crate::dtype::{DType, ReduceOp};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::neighbourhood::{Neighbourhood, Offered};
use crate::planner::{Choices, Explanation, Key, Planner, LEND};
use crate::progress::Driver;
use crate::scheduler::Crowd;
use crate::transport::in_process::InProcess;
use crate::transport::shared::{Pool, SharedMemory};
use crate::transport::ucx::{UcxSettings, UcxTransport};
use crate::transport::{Kind, Tag, Transport};
use crate::work::Completion;

/// How long saying good-bye may take.
const CLOSE: Duration = Duration::from_secs(2);
/// Longer timeouts are as good as this one, which no clock overflows.
const FOREVER: Duration = Duration::from_secs(365 * 86400);
/// How many of the latest calls are kept prepared: calls repeat.
const RECENT: usize = 8;
/// From so many bytes on for each core, the vectors of all ranks taken together, the kernel's one copy out of private memory
/// is faster than two within the caches.
const COPIED: usize = 4 << 20;
/// User tags of messages between two ranks are below this.
pub const TAGS: u32 = 1 << 28;

/// What a communicator may be told; everything else comes from [`Config`].
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Tells communicators on one store apart; "world" where empty.
    pub name: String,
    /// For every call, and for making the communicator.
    pub timeout: Option<Duration>,
    /// The network. Rank 0's counts.
    pub topology: Option<Topology>,
    /// As `RINGROAD_ALGO`. Rank 0's counts.
    pub algorithm: Option<String>,
    /// As `RINGROAD_DETERMINISTIC`. Rank 0's counts.
    pub size_invariant: Option<bool>,
}

/// One call: what to do, on which memory.
#[derive(Debug)]
pub struct Request {
    /// What.
    pub operation: Operation,
    /// How contributions combine, where they do.
    pub op: ReduceOp,
    /// The elements' type.
    pub dtype: DType,
    /// Elements of the whole vector (allreduce, broadcast, reduce, messages), or of one rank's block (all others).
    pub elements: usize,
    /// Elements of each rank's block where they differ; `elements` does not count then. The same on all ranks.
    pub counts: Option<Arc<[usize]>>,
    /// This rank's data; not used in place.
    pub input: Memory,
    /// Where the result goes. In place the larger of input and output, with the smaller at its natural place within.
    pub output: Memory,
    /// Whether input and output share memory.
    pub in_place: bool,
    /// The algorithm to use instead of the cheapest; the same on all ranks.
    pub algorithm: Option<String>,
    /// Instead of the communicator's.
    pub timeout: Option<Duration>,
}

impl Request {
    /// A call out of place with the cheapest algorithm and the communicator's timeout. Sums.
    pub fn new(
        operation: Operation,
        dtype: DType,
        elements: usize,
        input: Memory,
        output: Memory,
    ) -> Request {
        Request {
            operation,
            op: ReduceOp::Sum,
            dtype,
            elements,
            counts: None,
            input,
            output,
            in_place: false,
            algorithm: None,
            timeout: None,
        }
    }

    fn counts(&self) -> Counts<'_> {
        Counts::of(self.elements, self.counts.as_deref())
    }

    fn lengths(&self) -> [usize; 2] {
        [self.input.region().len(), self.output.region().len()]
    }

    /// A barrier: one byte that everybody waits for.
    pub fn barrier() -> Request {
        let byte = Memory::zeroed(1);
        let request = Request::new(Operation::Barrier, DType::U8, 1, Memory::nothing(), byte);
        Request { op: ReduceOp::Bor, in_place: true, ..request }
    }
}

/// A group of ranks. All of them make the same collective calls in the same order.
pub struct Communicator {
    name: String,
    rank: Rank,
    cards: Arc<Vec<Card>>,
    timeout: Duration,
    debug: Debug,
    state: Mutex<State>,
    /// Memory that near ranks can read.
    pool: Option<Arc<Pool>>,
    driver: Arc<Driver>,
}

/// Closes a communicator that may be gone already.
pub struct Closer(Weak<Driver>);

impl Closer {
    /// Whether there still is something to close.
    pub fn is_needed(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// As [`Communicator::close`].
    pub fn close(&self) {
        if let Some(driver) = self.0.upgrade() {
            driver.close(CLOSE);
        }
    }
}

struct State {
    planner: Planner,
    calls: u64,
    /// The latest one last.
    recent: VecDeque<Recent>,
}

/// What was asked for, as far as the call does not say it, and what was prepared for it.
struct Recent {
    elements: usize,
    /// Of input and output, in bytes.
    lengths: [usize; 2],
    in_place: bool,
    readable: (bool, bool),
    algorithm: Option<String>,
    prepared: Arc<Prepared>,
}

impl Recent {
    fn fits(&self, request: &Request, readable: (bool, bool)) -> bool {
        let call = &self.prepared.call;
        self.elements == request.elements
            && self.lengths == request.lengths()
            && call.operation == request.operation
            && (call.op, call.dtype) == (request.op, request.dtype)
            && (self.in_place, self.readable) == (request.in_place, readable)
            && self.algorithm == request.algorithm
            && call.counts == request.counts
    }
}

/// What has become of a call in its first moment.
pub enum Called {
    /// It is over, and this is the output.
    Ended(Memory),
    /// It goes on.
    InFlight(Work),
}

/// A call in flight. Dropping it does not end the call.
pub struct Work {
    driver: Arc<Driver>,
    completion: Arc<Completion>,
    output: Memory,
}

impl Communicator {
    /// Meets the other ranks at `store` and connects to them over UCX. Every rank calls this.
    ///
    /// `wheel` is the `libucp.so.0` of an installed `libucx` package, used where the system has none.
    pub fn connect(
        store: Arc<dyn Store>,
        rank: Rank,
        size: usize,
        wheel: Option<PathBuf>,
        config: &Config,
        options: &Options,
    ) -> Result<Communicator> {
        check_group(rank, size)?;
        let timeout = options.timeout.unwrap_or(config.timeout);
        let deadline = Instant::now() + timeout;
        config.warnings.iter().filter(|_| rank == 0).for_each(|w| eprintln!("ringroad: warning: {w}"));
        let secret = config.secret.as_ref().map(Secret::reveal);
        let name = if options.name.is_empty() { "world" } else { &options.name };
        let offered = Offered::new(rank, size, config);
        let meeting = Meeting::join(store, name, rank, deadline)?;
        let store = meeting.store();
        let mut card = Card::new(rank, size, "", "", Vec::new());
        offered.announce(&mut card, config);
        let mut cards = exchange(&store, rank, size, &card, secret, deadline)?;
        let around = Neighbourhood::explore(&store, offered, &cards, rank, config, deadline)?;
        let bell = around.home.as_ref().map(|(home, _)| home.bell()).transpose();
        let bell = bell.map_err(|reason| Error::Transport(format!("shared memory: {reason}")))?;
        let mut network = None;
        if !around.is_complete {
            let transport = open_network(rank, size, wheel, config, bell.into_iter().collect())?;
            let card = Card::new(rank, size, "ucx", transport.version(), transport.addresses());
            cards =
                exchange(&PrefixStore::new("network", store.clone()), rank, size, &card, secret, deadline)?;
            network = Some(transport);
        }
        let choices = agree(&store, rank, &cards, config, options, around.per_host, deadline)?;
        if let Some(network) = &mut network {
            network.set_addresses(cards.iter().map(|c| c.addresses.clone()).collect(), &choices.topology);
        }
        let transport: Box<dyn Transport> = match (around.home, network) {
            (None, Some(network)) => Box::new(network),
            (Some((home, neighbours)), network) => {
                let wanted = match config.cma {
                    Cma::Auto => crowd(&cards, rank).is_crowded(),
                    Cma::On => true,
                    Cma::Off => false,
                };
                let private = wanted && around.unreadable.is_empty();
                let cache = choices.lowering.cache;
                Box::new(SharedMemory::new(home, neighbours, network, private, cache)?)
            }
            // A rank on its own sends nothing.
            (None, None) => Box::new(InProcess::group(1).remove(0)),
        };
        let communicator =
            Communicator::assemble(name, cards, rank, transport, choices, timeout, config.debug);
        // Everybody has come, so the next communicator of this name meets elsewhere.
        drop(meeting);
        // Connects what small collectives use, and finds out now who cannot be reached.
        communicator.barrier(Some(deadline.saturating_duration_since(Instant::now())))?;
        if config.debug >= Debug::Info {
            communicator.introduce(&around.obstacles);
        }
        // Who has asked for it hears that it cannot be had.
        if config.cma == Cma::On || config.cma == Cma::Auto && config.debug >= Debug::Info {
            for reason in &around.unreadable {
                eprintln!("ringroad: {name}: nobody copies out of rank {rank}'s private memory: {reason}");
            }
        }
        Ok(communicator)
    }

    /// A group of threads of this process.
    pub fn in_process(size: usize, config: &Config, options: &Options) -> Result<Vec<Communicator>> {
        check_group(0, size)?;
        let transports =
            InProcess::group(size).into_iter().map(|t| Box::new(t) as Box<dyn Transport>).collect();
        Communicator::over(transports, config, options)
    }

    /// A group within this process over given transports, one per rank.
    pub fn over(
        transports: Vec<Box<dyn Transport>>,
        config: &Config,
        options: &Options,
    ) -> Result<Vec<Communicator>> {
        let size = transports.len();
        check_group(0, size)?;
        let cards: Vec<Card> = (0..size).map(|r| Card::new(r, size, "in-process", "", Vec::new())).collect();
        let choices = choose(&cards, config, options, 1)?;
        let name = if options.name.is_empty() { "world" } else { &options.name };
        let timeout = options.timeout.unwrap_or(config.timeout);
        let assemble = |(rank, transport)| {
            Communicator::assemble(
                name,
                cards.clone(),
                rank,
                transport,
                choices.clone(),
                timeout,
                config.debug,
            )
        };
        Ok(transports.into_iter().enumerate().map(assemble).collect())
    }

    fn assemble(
        name: &str,
        cards: Vec<Card>,
        rank: Rank,
        transport: Box<dyn Transport>,
        choices: Choices,
        timeout: Duration,
        debug: Debug,
    ) -> Communicator {
        let (near, pool) = (transport.near(), transport.pool());
        let crowd = crowd(&cards, rank);
        let copies = transport.private().then(|| COPIED * crowd.cores.min(crowd.ranks) / crowd.ranks);
        let crowd = Some(crowd).filter(Crowd::is_crowded);
        let cards = Arc::new(cards);
        let engine = Engine::new(name.to_owned(), rank, cards.clone(), &choices.lowering, transport);
        Communicator {
            name: name.to_owned(),
            rank,
            cards,
            timeout,
            debug,
            state: Mutex::new(State {
                planner: Planner::new(rank, near, copies, choices),
                calls: 0,
                recent: VecDeque::new(),
            }),
            pool,
            driver: Driver::new(engine, rank, crowd),
        }
    }

    /// Says on standard error what was found and chosen.
    fn introduce(&self, obstacles: &[String]) {
        let Communicator { name, rank, .. } = self;
        eprintln!("ringroad: {name}: rank {rank} of {}: {}", self.size(), self.transport());
        for obstacle in obstacles {
            eprintln!("ringroad: {name}: rank {rank} shares no memory with others of its host: {obstacle}");
        }
        if *rank > 0 {
            return;
        }
        let choices = self.choices();
        match &choices.profile {
            Some(file) => eprintln!("ringroad: {name}: costs as measured, from {file}"),
            None => eprintln!("ringroad: {name}: costs are assumed; `ringroad tune` measures them"),
        }
        for collective in Collective::ALL {
            let points: Vec<String> = choices
                .switch_points(collective)
                .iter()
                .map(|r| format!("{} from {} bytes ({})", r.algorithm, r.from_bytes, r.origin))
                .collect();
            eprintln!(
                "ringroad: {name}: {} on {}: {}",
                collective.name(),
                choices.topology,
                points.join(", ")
            );
        }
    }

    /// The communicator's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.cards.len()
    }

    /// The timeout of calls that have none of their own.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// What the ranks have said about themselves.
    pub fn cards(&self) -> &[Card] {
        &self.cards
    }

    /// What carries the bytes.
    pub fn transport(&self) -> String {
        self.driver.with(|engine| engine.transport().describe())
    }

    /// What rank 0 decided.
    pub fn choices(&self) -> Choices {
        self.state.lock().planner.choices.clone()
    }

    /// The algorithm that a call with a vector of `bytes` would run.
    pub fn algorithm_for(&self, collective: Collective, bytes: Bytes, op: ReduceOp, dtype: DType) -> String {
        let any_order = !collective.reduces() || op.order_independent(dtype);
        self.state.lock().planner.choices.pick(collective, bytes, any_order).to_owned()
    }

    /// Why [`Communicator::algorithm_for`] says what it does.
    pub fn explain(
        &self,
        collective: Collective,
        bytes: Bytes,
        op: ReduceOp,
        dtype: DType,
    ) -> Result<Explanation> {
        let any_order = !collective.reduces() || op.order_independent(dtype);
        self.choices().explain(collective, bytes, any_order)
    }

    /// New memory that the ranks of this host read where it is: calls copy less of it. It holds anything.
    pub fn memory(&self, bytes: usize) -> Result<Memory> {
        self.driver.check_process()?;
        let region = match &self.pool {
            Some(pool) => {
                pool.allocate(bytes).map_err(|reason| Error::Transport(format!("shared memory: {reason}")))?
            }
            None => Region::zeroed(bytes),
        };
        Ok(Memory::new(region))
    }

    /// Whether near ranks can read it.
    fn is_readable(&self, memory: &Memory) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.offset_of(memory.region()).is_some())
    }

    /// Starts a call. Errors leave the communicator as it was.
    pub fn start(&self, request: Request) -> Result<Work> {
        let (completion, output) = self.begin(request, false)?;
        Ok(Work { driver: self.driver.clone(), completion, output })
    }

    /// Starts a call and does what can be done at once: short calls are mostly over then. The error is the call's if it is.
    pub fn call(&self, request: Request) -> Result<Called> {
        let (completion, output) = self.begin(request, true)?;
        if completion.is_done() {
            return completion.result().map(|()| Called::Ended(output));
        }
        Ok(Called::InFlight(Work { driver: self.driver.clone(), completion, output }))
    }

    fn begin(&self, request: Request, awaited: bool) -> Result<(Arc<Completion>, Memory)> {
        self.driver.check_process()?;
        let timeout = request.timeout.unwrap_or(self.timeout).min(FOREVER);
        let mut state = self.state.lock();
        let State { planner, calls, recent } = &mut *state;
        let prepared = self.prepare(planner, recent, &request)?;
        let ports = match request.operation {
            Operation::ReceiveAny { .. } => {
                let topology = &planner.choices.topology;
                (0..self.size()).map(|peer| topology.port_to(peer, self.rank).unwrap_or(0)).collect()
            }
            _ => Vec::new(),
        };
        if self.debug >= Debug::Trace {
            eprintln!("ringroad: {}: rank {}: {}", self.name, self.rank, prepared.call);
        }
        let (number, kind, sequence, message) = match request.operation {
            Operation::Send { tag, .. } | Operation::Receive { tag, .. } | Operation::ReceiveAny { tag } => {
                (0, Kind::PointToPoint, tag >> 14, tag & 0x3fff)
            }
            _ => {
                let number = *calls + 1;
                (number, Kind::Collective, (number % u64::from(Tag::SEQUENCES)) as u32, 0)
            }
        };
        let tag = Tag { source: self.rank, kind, sequence, message, check: prepared.check(number) };
        let factor = if let ReduceOp::PremulSum(factor) = request.op { factor } else { 1.0 };
        // A short message leaves a copy, wherever it lies: its send ends without the receiver.
        let short = request.input.region().len() < LEND;
        let input = match request.operation {
            Operation::Send { .. } if short && self.is_readable(&request.input) => {
                Memory::of(&request.input.to_vec::<u8>())
            }
            _ => request.input,
        };
        let (input, output) = (input.into_region(), request.output.region());
        let brief = awaited && input.len().max(output.len()) < LEND;
        let deadline = (!brief).then(|| Instant::now() + timeout);
        let (submitted, ended) = self.driver.submit(awaited, |engine| {
            let mut task = engine.take_task(prepared);
            task.ports = ports;
            task.buffers.input = input;
            task.buffers.output = output.clone();
            (task.factor, task.timeout, task.deadline) = (factor, timeout, deadline);
            (task.tag, task.number) = (tag, number);
            task
        });
        if submitted.is_ok() {
            *calls = (*calls).max(number);
        }
        drop(state);
        self.driver.call_back(ended);
        Ok((submitted?, request.output))
    }

    /// What a call is, and this rank's part in it; an error where it makes no sense.
    fn prepare<'a>(
        &self,
        planner: &mut Planner,
        recent: &'a mut VecDeque<Recent>,
        request: &Request,
    ) -> Result<&'a Arc<Prepared>> {
        let readable = match request.operation {
            Operation::Collective(_) => (self.is_readable(&request.input), self.is_readable(&request.output)),
            _ => (false, false),
        };
        if let Some(index) = recent.iter().rposition(|recent| recent.fits(request, readable)) {
            if index + 1 < recent.len() {
                let again = recent.remove(index);
                recent.extend(again);
            }
        } else {
            let prepared = Arc::new(self.prepare_anew(planner, request, readable)?);
            if recent.len() == RECENT {
                recent.pop_front();
            }
            recent.push_back(Recent {
                elements: request.elements,
                lengths: request.lengths(),
                in_place: request.in_place,
                readable,
                algorithm: request.algorithm.clone(),
                prepared,
            });
        }
        Ok(&recent.back().expect("it is the last one now").prepared)
    }

    fn prepare_anew(
        &self,
        planner: &mut Planner,
        request: &Request,
        readable: (bool, bool),
    ) -> Result<Prepared> {
        self.check(request)?;
        let port = |from, to| planner.choices.topology.port_to(from, to).unwrap_or(0);
        let planned = match request.operation {
            Operation::Send { peer, .. } => {
                direct(Plan::send(peer, port(self.rank, peer), request.input.region().len()))
            }
            Operation::Receive { peer, .. } => {
                direct(Plan::receive(peer, port(peer, self.rank), request.output.region().len()))
            }
            // Of whom, and by which port, is known when a message has come.
            Operation::ReceiveAny { .. } => direct(Plan::receive(0, 0, request.output.region().len())),
            Operation::Barrier => planner.plan(&key(request, Collective::Allreduce, readable)?)?,
            Operation::Collective(collective) => planner.plan(&key(request, collective, readable)?)?,
        };
        let call = Call {
            operation: request.operation,
            op: request.op,
            dtype: request.dtype,
            elements: request.counts.as_ref().map_or(request.elements, |counts| counts.iter().sum()),
            counts: request.counts.clone(),
            algorithm: planned.algorithm,
        };
        Ok(Prepared::new(call, planned.plan))
    }

    /// Makes a call and waits for it; returns the output.
    pub fn run(&self, request: Request) -> Result<Memory> {
        match self.call(request)? {
            Called::Ended(output) => Ok(output),
            Called::InFlight(work) => work.finish(),
        }
    }

    /// Returns when all ranks have called it.
    pub fn barrier(&self, timeout: Option<Duration>) -> Result<()> {
        self.run(Request { timeout, ..Request::barrier() }).map(drop)
    }

    /// Fails all calls in flight on all ranks. The communicator is of no use afterwards.
    pub fn abort(&self, reason: &str) {
        let who = &self.cards[self.rank];
        let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        self.driver.abort(format!(
            "rank {} ({}, pid {}) aborted communicator {:?}{because}",
            self.rank, who.host, who.pid, self.name
        ));
    }

    /// Closes the connections. Later calls fail.
    pub fn close(&self) {
        self.driver.close(CLOSE);
    }

    /// For closing the communicator from elsewhere.
    pub fn closer(&self) -> Closer {
        Closer(Arc::downgrade(&self.driver))
    }

    fn check(&self, request: &Request) -> Result<()> {
        let size = self.size();
        match request.operation {
            Operation::Collective(collective) => {
                if let Some(root) = collective.root().filter(|root| *root >= size) {
                    return Err(Error::Argument(format!("root {root} is not one of the ranks 0..{size}")));
                }
                if collective.reduces() {
                    request.op.check(request.dtype)?;
                }
                self.check_memory(request, collective)
            }
            Operation::Barrier => self.check_bytes("output", &request.output, 1),
            Operation::Send { peer, tag } | Operation::Receive { peer, tag } => {
                if peer >= size || peer == self.rank {
                    let rank = self.rank;
                    let what = format!("peer {peer} is not another rank of 0..{size} than this one, {rank}");
                    return Err(Error::Argument(what));
                }
                self.check_message(request, tag)
            }
            Operation::ReceiveAny { tag } => {
                if size == 1 {
                    return Err(Error::Argument("there is no other rank to receive from".to_owned()));
                }
                self.check_message(request, tag)
            }
        }
    }

    fn check_message(&self, request: &Request, tag: u32) -> Result<()> {
        if tag >= TAGS {
            return Err(Error::Argument(format!("tag {tag} is not below {TAGS}")));
        }
        let bytes = request.elements.saturating_mul(request.dtype.size());
        let sends = matches!(request.operation, Operation::Send { .. });
        let (input, output) = if sends { (bytes, 0) } else { (0, bytes) };
        self.check_bytes("input", &request.input, input)?;
        self.check_bytes("output", &request.output, output)
    }

    fn check_memory(&self, request: &Request, collective: Collective) -> Result<()> {
        let (size, counts) = (self.size(), request.counts());
        if !counts.fits(collective, size) {
            let found = request.counts.as_ref().map_or(0, |counts| counts.len());
            return Err(Error::Argument(format!(
                "{} over {size} ranks takes {}, not {found} counts",
                collective.name(),
                if collective.has_blocks() && collective != Collective::Alltoall {
                    "one count for each rank"
                } else {
                    "the same count on all ranks"
                },
            )));
        }
        let bytes = |holding| {
            let elements = match holding {
                Holding::Nothing => 0,
                Holding::Block(own) => counts.block(own),
                Holding::Whole => counts.total(collective, size).unwrap_or(usize::MAX),
            };
            elements.saturating_mul(request.dtype.size())
        };
        let (has, gets) = (collective.input(self.rank), collective.output(self.rank));
        let (mut input, mut output) = (bytes(has), bytes(gets));
        if request.in_place && has != Holding::Nothing && gets != Holding::Nothing {
            (input, output) = (0, input.max(output));
        }
        self.check_bytes("input", &request.input, input)?;
        self.check_bytes("output", &request.output, output)
    }

    fn check_bytes(&self, what: &str, memory: &Memory, expected: usize) -> Result<()> {
        match memory.region().len() {
            found if found == expected => Ok(()),
            found => Err(Error::Argument(format!(
                "this call needs {expected} bytes of {what} on rank {}, not {found}",
                self.rank
            ))),
        }
    }
}

/// Opens UCX, and this rank's devices.
fn open_network(
    rank: Rank,
    size: usize,
    wheel: Option<PathBuf>,
    config: &Config,
    bell: Vec<OwnedFd>,
) -> Result<UcxTransport> {
    prepare_environment(config);
    let ucx = ucx_sys::load(&LoadOptions {
        explicit: config.ucx_library.clone(),
        wheel,
        environment: true,
        tls: None,
    })?;
    let settings = UcxSettings {
        net_devices: config.net_devices.as_ref().map(|d| d.join(",")),
        ports: config.ports.clone().unwrap_or_default(),
        ..UcxSettings::default()
    };
    Ok(UcxTransport::new(ucx, rank, size, settings, bell)?)
}

fn direct(plan: Plan) -> crate::planner::Planned {
    crate::planner::Planned { algorithm: "direct".into(), plan: Arc::new(plan) }
}

fn key(request: &Request, collective: Collective, readable: (bool, bool)) -> Result<Key> {
    let reduces = collective.reduces();
    let algorithm = match &request.algorithm {
        Some(name) => Some(algorithms::find(name)?),
        None => None,
    };
    Ok(Key {
        collective,
        elements: request.elements,
        counts: request.counts.clone(),
        element_bytes: request.dtype.size(),
        any_order: !reduces || request.op.order_independent(request.dtype),
        in_place: request.in_place,
        readable,
        premultiply: reduces && matches!(request.op, ReduceOp::PremulSum(_)),
        average: reduces && request.op == ReduceOp::Avg,
        algorithm,
    })
}

/// Sets what UCX reads from the environment only, once and unless the user has. No other thread may be reading the
/// environment meanwhile (see [`ucx_sys::load`]), which holds the better the earlier the first communicator is made.
fn prepare_environment(config: &Config) {
    static ONCE: Once = Once::new();
    let set = |name: &str, value: String| {
        if std::env::var_os(name).is_none() {
            std::env::set_var(name, value);
        }
    };
    ONCE.call_once(|| {
        if let Some((first, last)) = config.port_range {
            set("UCX_TCP_PORT_RANGE", format!("{first}-{last}"));
        }
        if config.debug < Debug::Info {
            // What goes wrong is told by our errors; UCX's own lines appear with RINGROAD_DEBUG=INFO.
            set("UCX_LOG_LEVEL", "fatal".to_owned());
        }
    });
}

/// The ranks on this one's host.
fn crowd(cards: &[Card], rank: Rank) -> Crowd {
    let here: Vec<&Card> = cards.iter().filter(|card| card.host == cards[rank].host).collect();
    let number = here.iter().position(|card| card.rank == rank).expect("it has a card itself");
    Crowd { ranks: here.len(), cores: Card::cores_of(&here), number }
}

fn check_group(rank: Rank, size: usize) -> Result<()> {
    if size == 0 || rank >= size || size > Tag::RANKS {
        return Err(Error::Argument(format!(
            "rank {rank} of {size} makes no sense: ranks are 0..size, and size is 1..={}",
            Tag::RANKS
        )));
    }
    Ok(())
}

impl Work {
    /// Whether the call has ended, well or not. Does what can be done meanwhile.
    pub fn is_completed(&self) -> bool {
        if !self.completion.is_done() {
            // Whoever only asks must hear of deadlines and failures too.
            self.driver.with(|engine| {
                if !engine.progress() {
                    engine.inspect();
                }
            });
            self.driver.hand_over();
        }
        self.completion.is_done()
    }

    /// Waits until the call has ended or `until` has passed; returns whether it has ended. Never longer than a moment
    /// past the call's own deadline.
    pub fn wait_until(&self, until: Instant) -> bool {
        self.driver.wait(&self.completion, until)
    }

    /// Waits for the end; the error is the call's.
    pub fn wait(&self) -> Result<()> {
        // The engine ends every call at its deadline.
        while !self.wait_until(Instant::now() + FOREVER) {}
        self.completion.result()
    }

    /// Waits for the end; returns the output.
    pub fn finish(self) -> Result<Memory> {
        self.wait()?;
        Ok(self.output)
    }

    /// How the call ended, or `None` where it has not.
    pub fn result(&self) -> Option<Result<()>> {
        self.completion.is_done().then(|| self.completion.result())
    }

    /// Who sent the message of a receive, where that is known.
    pub fn source(&self) -> Option<Rank> {
        match self.call().operation {
            Operation::Receive { peer, .. } => Some(peer),
            _ => self.completion.source(),
        }
    }

    /// The algorithm that performs it.
    pub fn algorithm(&self) -> &str {
        &self.call().algorithm
    }

    /// What was called, in words.
    pub fn call(&self) -> &Call {
        self.completion.call()
    }

    /// Lets the call go on although nobody waits for it.
    pub fn in_background(&self) {
        if !self.completion.is_done() {
            self.driver.progress_in_background();
        }
    }

    /// Calls `callback` with the result when the call ends, from whichever thread notices; and see to it that one does.
    pub fn on_complete(&self, callback: impl FnOnce(Result<()>) + Send + 'static) {
        self.completion.on_complete(Box::new(callback));
        self.in_background();
    }
}
