//! A group of ranks that call collectives together.

mod arrays;
mod carrier;
mod connection;
mod discovery;
mod exchange;
mod holding;
mod paths;
mod patience;
mod recovery;
mod status;

use std::borrow::BorrowMut;
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ringroad_core::cost::{CostModel, Measurement};
use ringroad_core::selection::{Choice, Explanation};
use ringroad_core::{Bytes, Collective, Rank, Wire};

pub use self::arrays::CallShape;
pub use self::carrier::between_hosts;
pub use self::connection::Means;
pub use self::discovery::Discovery;
pub(crate) use self::discovery::{Explored, Group};
pub(crate) use self::exchange::CallExchange;
pub(crate) use self::patience::Patience;
pub use self::patience::{GoOn, Heeding};
use self::recovery::after_pauses::Agreements;
pub use self::status::NetworkView;
use self::status::Reporting;
use crate::adaptation::Adaptation;
use crate::bootstrap::EndpointInfo;
use crate::calls::call::{CallKey, Operation, Prepared, PROC_NULL};
use crate::calls::callbacks::Callbacks;
use crate::calls::request::Request;
use crate::calls::work::{Completion, Message};
use crate::choice::choices::Choices;
use crate::choice::options::Options;
use crate::choice::planner::Planner;
use crate::choice::profile::Profile;
use crate::config::{Config, Debug};
use crate::engine::progress::Driver;
use crate::engine::Engine;
pub use crate::engine::Recorded;
use crate::error::{Error, Result};
use crate::kernels::dtype::{DType, ReduceOp};
use crate::kernels::wire::round;
use crate::os::fork::ProcessOwned;
use crate::os::lock::Mutex;
use crate::os::machine::LEND;
use crate::os::messages::print_message;
use crate::transport::buffer::{Memory, Region};
use crate::transport::shared::Pool;
use crate::transport::{Description, MessageKind, Tag};

/// How long closing the connections may take.
const CLOSE: Duration = Duration::from_secs(2);
/// Longer timeouts are cut to this one, which no clock overflows.
const FOREVER: Duration = Duration::from_secs(365 * 86400);

/// A group of ranks. All of them make the same collective calls in the same order. A clone is the same group.
#[derive(Clone)]
pub struct Communicator {
    name: String,
    rank: Rank,
    endpoints: Arc<Vec<EndpointInfo>>,
    timeout: Duration,
    debug: Debug,
    state: Arc<Mutex<CommunicatorState>>,
    /// Follows changes of the network, if some ranks are on other hosts.
    adaptation: Option<Arc<dyn Adaptation>>,
    /// Memory that local ranks can read.
    pool: Option<Arc<Pool>>,
    /// What rank 0 has decided when the communicator was made.
    choices: Arc<Choices>,
    driver: ProcessOwned<Arc<Driver>>,
    /// Answers who asks how the job stands.
    reporting: Arc<Reporting>,
    /// What it was made with; `None` if the ranks are threads of one process.
    means: Option<Arc<Means>>,
    /// What its ranks share if they are threads of one process.
    family: Option<Arc<ThreadFamily>>,
    /// How it stands in the agreements of its ranks.
    agreements: Arc<Agreements>,
    /// How many times it was split.
    splits: Arc<AtomicU64>,
}

/// Closes a communicator that may be gone already, and waits for its callbacks, which may still run.
pub struct Closer(ProcessOwned<(Weak<Driver>, Arc<Callbacks>)>);

impl Closer {
    /// Whether there is still something to close or to wait for.
    pub fn is_needed(&self) -> bool {
        self.0.get().is_ok_and(|(driver, callbacks)| driver.strong_count() > 0 || callbacks.have_threads())
    }

    /// As [`Communicator::close`].
    pub fn close(&self) {
        if let Some(driver) = self.0.get().ok().and_then(|(driver, _)| driver.upgrade()) {
            driver.close(CLOSE);
        }
    }

    /// Waits until `deadline` for the callbacks of a communicator that is closed. Returns whether all have run.
    pub fn wait(&self, deadline: Instant) -> bool {
        self.0.get().map_or(true, |(_, callbacks)| callbacks.finish(deadline))
    }
}

struct CommunicatorState {
    planner: Planner,
    /// How many collective calls have begun.
    calls: u64,
    /// Whether calls are held until the ranks have voted.
    is_holding: bool,
}

/// What the ranks of a group share that are threads of one process.
struct ThreadFamily {
    config: Config,
    options: Options,
    /// New communicators that wait for their ranks, by the number of the split and the rank in this group.
    made: Mutex<HashMap<(u64, Rank), Result<Communicator>>>,
}

/// The state of a call after its first moment.
pub enum Called {
    /// It has ended, and this is the output. A receive has taken this message.
    Ended(Memory, Option<Message>),
    /// It is still running.
    InFlight(Work),
}

/// A call in flight. Dropping it does not end the call. In a forked child all inherited calls have failed.
pub struct Work {
    driver: ProcessOwned<Arc<Driver>>,
    completion: Arc<Completion>,
    output: Memory,
    /// A call of the same communicator that this one ends with: the send of an exchange.
    other: Option<Arc<Completion>>,
}

impl Communicator {
    /// The communicator's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.endpoints.len()
    }

    /// The timeout of calls that have none of their own.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The endpoints of all ranks.
    pub fn endpoints(&self) -> &[EndpointInfo] {
        &self.endpoints
    }

    /// What it was made with. Ranks that are threads of one process have nothing to regroup with.
    pub(crate) fn means(&self) -> Result<&Means> {
        self.means.as_deref().ok_or_else(|| {
            Error::Argument(
                "ranks that are threads of one process are lost together; none is left to regroup".to_owned(),
            )
        })
    }

    /// A description of the transport.
    pub fn transport(&self) -> Result<Description> {
        Ok(self.driver.get()?.with(|engine| engine.transport().describe()))
    }

    /// The ranks that are known to have died, and how that is known. A death is noticed soon on this host, and on
    /// other hosts when a connection breaks. Ranks that have only given up or closed are not included.
    pub fn lost(&self) -> Result<Vec<(Rank, String)>> {
        Ok(self.driver.get()?.with(Engine::lost))
    }

    /// What rank 0 has decided for all ranks.
    pub fn choices(&self) -> Choices {
        (*self.present()).clone()
    }

    /// The algorithm that a call with a vector of `bytes` bytes would run.
    pub fn algorithm_for(
        &self,
        collective: Collective,
        bytes: Bytes,
        op: ReduceOp,
        dtype: DType,
    ) -> Result<String> {
        if let Some(choice) = self.in_rank_order(collective, op)? {
            return Ok(choice.any.table.pick(bytes).name());
        }
        let any_order = !collective.reduces() || op.order_independent(dtype);
        Ok(self.present().pick(collective, bytes, any_order).name())
    }

    /// The choice for a reduction whose values are combined in the order of the ranks; `None` for others.
    fn in_rank_order(&self, collective: Collective, op: ReduceOp) -> Result<Option<Choice>> {
        if !collective.reduces() || op.is_commutative() {
            return Ok(None);
        }
        self.driver.get()?;
        self.state.lock().planner.in_rank_order(collective).cloned().map(Some)
    }

    /// Why [`Communicator::algorithm_for`] returns what it does.
    pub fn explain(
        &self,
        collective: Collective,
        bytes: Bytes,
        op: ReduceOp,
        dtype: DType,
    ) -> Result<Explanation> {
        if let Some(choice) = self.in_rank_order(collective, op)? {
            return self.present().reasons(&choice, bytes, true);
        }
        let any_order = !collective.reduces() || op.order_independent(dtype);
        self.present().explain(collective, bytes, any_order)
    }

    /// A profile of the place where this communicator runs, from times that were measured with it.
    pub fn calibrate(&self, measurements: Vec<Measurement>) -> Result<Profile> {
        let Choices { topology, model, place, .. } = &*self.present();
        Profile::make(
            topology,
            place.clone(),
            &CostModel { codec_cost: codec_cost(), ..*model },
            measurements,
        )
    }

    /// New memory that the ranks of this host read directly, so that calls copy less. Its content is arbitrary.
    pub fn memory(&self, bytes: usize) -> Result<Memory> {
        self.driver.get()?;
        let region = match &self.pool {
            Some(pool) => pool
                .allocate_to_return(bytes)
                .map_err(|reason| Error::Memory(format!("shared memory: {reason}")))?,
            None => Region::try_zeroed(bytes)?,
        };
        Ok(Memory::new(region))
    }

    /// Whether local ranks can read this memory.
    fn is_readable(&self, memory: &Memory) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.offset_of(memory.region()).is_some())
    }

    /// Whether local ranks can read the input and the output of a call.
    fn readable(&self, request: &Request) -> (bool, bool) {
        match request.key.operation {
            Operation::Collective(_) => (self.is_readable(&request.input), self.is_readable(&request.output)),
            _ => (false, false),
        }
    }

    /// Prepares a call, for [`Request::prepared`]. Sends nothing.
    pub fn prepare(&self, mut request: Request) -> Result<Arc<Prepared>> {
        self.driver.get()?;
        request.key.readable = self.readable(&request);
        self.state.lock().planner.prepare(&request).cloned()
    }

    /// Starts a call. An error leaves the communicator as it was. The memory and the function are taken out of `request`, even
    /// if it is only lent.
    pub fn start(&self, mut request: impl BorrowMut<Request>) -> Result<Work> {
        let (completion, output) = self.begin(request.borrow_mut(), false)?;
        self.work(completion, output)
    }

    fn work(&self, completion: Arc<Completion>, output: Memory) -> Result<Work> {
        Ok(Work { driver: ProcessOwned::new(self.driver.get()?.clone()), completion, output, other: None })
    }

    /// Starts a call and does everything that can be done at once: most short calls end within that. If the call ends
    /// with an error, that error is returned. Takes the same out of `request` as [`Communicator::start`].
    pub fn call(&self, mut request: impl BorrowMut<Request>) -> Result<Called> {
        let (completion, output) = self.begin(request.borrow_mut(), true)?;
        if completion.is_done() {
            return completion
                .result()
                .map(|()| Called::Ended(completion.output(output), completion.message()));
        }
        self.work(completion, output).map(Called::InFlight)
    }

    /// Starts a call, and takes the memory out of `request`, which is too large to be moved in each short call.
    fn begin(&self, request: &mut Request, awaited: bool) -> Result<(Arc<Completion>, Memory)> {
        let driver = self.driver.get()?;
        let timeout = request.timeout.unwrap_or(self.timeout).min(FOREVER);
        let operation = request.key.operation;
        if request.prepared.is_none() {
            request.key.readable = self.readable(request);
        }
        let mut state = self.state.lock();
        let CommunicatorState { planner, calls, is_holding } = &mut *state;
        let ports = match operation {
            Operation::ReceiveAny { .. } => Some(planner.inlets()),
            _ => None,
        };
        // A request that is made again brings its plan along, unless the choices have changed meanwhile.
        let prepared = match &request.prepared {
            Some(prepared) if prepared.lengths == request.lengths() && planner.is_current(prepared) => {
                prepared
            }
            stale => {
                if stale.is_some() {
                    request.key.readable = self.readable(request);
                }
                planner.prepare(request)?
            }
        };
        if self.debug >= Debug::Trace {
            print_message(&format!("{}: rank {}: {prepared}", self.name, self.rank));
        }
        // The call before which a vote is due is held, and those after it; they get their numbers when they begin. Messages
        // between two ranks go on, since a rank may need them before it comes to the vote.
        let (mut held, mut votes) = (false, false);
        if let Some(adaptation) = &self.adaptation {
            if operation.ends().is_none() && !request.key.internal {
                votes = !*is_holding && !adaptation.before_call(prepared);
                *is_holding |= votes;
                held = *is_holding;
            }
        }
        let (number, tag) = match operation.ends() {
            Some((_, tag)) => {
                let tag = Tag::for_message(self.rank, tag.unwrap_or(0));
                (0, Tag { check: prepared.check(0), ..tag })
            }
            None if held => (0, tag(self.rank, 0, prepared)),
            None => (*calls + 1, tag(self.rank, *calls + 1, prepared)),
        };
        // A short message is copied, wherever it lies, so that its send ends without the receiver.
        let short = request.input.region().len() < LEND;
        let input = match operation {
            Operation::Send { .. } if short && self.is_readable(&request.input) => {
                Memory::from_slice(&request.input.to_vec::<u8>())
            }
            _ => request.input.take(),
        };
        let (input, output) = (input.into_region(), request.output.take());
        // The clock is read only for calls that may take long; others get their deadline if they are still in flight after a moment.
        let brief = awaited && !held && input.len().max(output.region().len()) < LEND;
        let deadline = (!brief).then(|| Instant::now() + timeout);
        let (submitted, ended) = driver.submit(awaited, |engine| {
            let mut task = engine.calls.take_task(prepared);
            task.ports = ports;
            task.buffers.input = input;
            task.buffers.output = output.region().clone();
            (task.factor, task.shorter) = (request.factor, request.shorter);
            (task.timeout, task.deadline) = (timeout, deadline);
            task.function = request.function.take();
            (task.tag, task.number, task.held) = (tag, number, held);
            task
        });
        if submitted.is_ok() {
            *calls = (*calls).max(number);
        }
        // Callbacks and the vote may start calls of their own, so the lock is released before.
        drop(state);
        driver.call_back(ended);
        let completion = submitted?;
        if let (true, Some(deadline)) = (votes, deadline) {
            self.vote(deadline).unwrap_or_else(|error| self.give_up_held(&error));
        }
        Ok((completion, output))
    }

    /// Starts a send and a receive. If either is not valid, nothing is started.
    pub fn exchange(&self, send: Request, receive: Request) -> Result<(Called, Work)> {
        for request in [&send, &receive] {
            request.check(self.rank, self.size())?;
        }
        let receiving = self.start(receive)?;
        Ok((self.call(send)?, receiving))
    }

    /// As [`Communicator::exchange`]; one value stands for both.
    pub fn start_exchange(&self, send: Request, receive: Request) -> Result<Work> {
        for request in [&send, &receive] {
            request.check(self.rank, self.size())?;
        }
        let receiving = self.start(receive)?;
        Ok(Work { other: Some(self.start(send)?.completion), ..receiving })
    }

    /// Makes a call and waits for its end; returns the output.
    pub fn run(&self, request: Request) -> Result<Memory> {
        match self.call(request)? {
            Called::Ended(output, _) => Ok(output),
            Called::InFlight(work) => work.finish(),
        }
    }

    /// The first message of this source and with this tag that has come and that no receive has taken; `None` means any.
    pub fn glance(&self, peer: Option<Rank>, tag: Option<u32>) -> Result<Option<Message>> {
        let probe = CallKey::new(Operation::Probe { peer, tag }, DType::U8, 0);
        probe.lengths(self.rank, self.size())?;
        if peer == Some(PROC_NULL) {
            return Ok(Some(Message::from_nobody(tag)));
        }
        let driver = self.driver.get()?;
        let seen = driver.with(|engine| Some(engine.glance(probe.operation.subject())));
        driver.hand_over();
        seen.unwrap_or_else(|| Err(Error::Aborted("the communicator has failed".to_owned())))
    }

    /// Returns when all ranks have called it.
    pub fn barrier(&self, timeout: Option<Duration>) -> Result<()> {
        self.run(Request { timeout, ..Request::barrier() }).map(drop)
    }

    /// Fails all calls in flight on all ranks. The communicator cannot be used afterwards. Returns an error in a
    /// forked child, which cannot end its parent's calls.
    pub fn abort(&self, reason: &str) -> Result<()> {
        let driver = self.driver.get()?;
        let who = &self.endpoints[self.rank];
        let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        driver.abort(format!(
            "rank {} ({}, pid {}) aborted communicator {:?}{because}",
            self.rank, who.host, who.pid, self.name
        ));
        Ok(())
    }

    /// Leaves the communicator because the user has interrupted a call. For the other ranks, this one is lost; its memory
    /// may be reused at once.
    pub fn interrupt(&self) -> Result<()> {
        let who = &self.endpoints[self.rank];
        self.driver.get()?.leave(format!(
            "rank {} ({}, pid {}) left communicator {:?}: a signal has interrupted its call",
            self.rank, who.host, who.pid, self.name
        ));
        Ok(())
    }

    /// Closes the connections, and takes no part in agreements any more. Later calls fail. In a forked child this does
    /// nothing: the connections belong to the parent.
    pub fn close(&self) {
        if let Ok(driver) = self.driver.get() {
            driver.close(CLOSE);
            // A rank that cannot listen is not asked.
            let _ = self.resign();
            let unsure = self.agreements.unsure.lock().take();
            drop(unsure);
        }
    }

    /// Begins to record what this rank's calls do, and when.
    pub fn start_trace(&self) -> Result<()> {
        self.traced(Engine::start_trace)
    }

    /// Ends the recording and returns it. Works after a failure, too.
    pub fn end_trace(&self) -> Result<Recorded> {
        self.traced(Engine::end_trace)
    }

    fn traced<T>(&self, action: impl FnOnce(&mut Engine) -> Result<T>) -> Result<T> {
        let done = self.driver.get()?.with(|engine| Some(action(engine)));
        done.unwrap_or_else(|| Err(Error::Aborted("the communicator has failed".to_owned())))
    }

    /// A value that can close the communicator without keeping it alive.
    pub fn closer(&self) -> Closer {
        let parts = |driver: &Arc<Driver>| (Arc::downgrade(driver), driver.callbacks());
        Closer(ProcessOwned::new(self.driver.get().map_or_else(|_| Default::default(), parts)))
    }
}

impl Work {
    /// Whether the call has ended, successfully or not. Also drives the engine.
    pub fn is_completed(&self) -> bool {
        let Ok(driver) = self.driver.get() else { return true };
        if !self.is_done() {
            // A caller that only polls must also learn of deadlines and failures.
            driver.with(|engine| {
                if !engine.progress() {
                    engine.inspect();
                }
            });
            driver.hand_over();
        }
        self.is_done()
    }

    fn is_done(&self) -> bool {
        self.completion.is_done() && self.other.as_ref().is_none_or(|other| other.is_done())
    }

    /// Waits until the call has ended or `until` has passed. Returns whether the call has ended. Never waits much
    /// longer than until the call's own deadline.
    pub fn wait_until(&self, until: Instant) -> bool {
        self.driver.get().map_or(true, |driver| driver.wait(until, || self.is_done()))
    }

    /// Waits until one of these calls has ended or `until` has passed. Returns the place of the first one that has ended.
    /// Calls of other communicators than the first one's end in the background; see [`Work::wake_by`].
    pub fn wait_any(works: &[&Work], until: Instant) -> Option<usize> {
        let ended = || works.iter().position(|work| work.result().is_some());
        if let Some(driver) = works.first().and_then(|work| work.driver.get().ok()) {
            driver.wait(until, || ended().is_some());
        }
        ended()
    }

    /// From now on, the ends of these calls also wake whoever waits for this call.
    pub fn wake_by(&self, others: &[&Work]) {
        let Ok(driver) = self.driver.get() else { return };
        for other in others {
            if !other.driver.get().is_ok_and(|its| Arc::ptr_eq(its, driver)) {
                let driver = Arc::downgrade(driver);
                other.on_complete(move |_| driver.upgrade().iter().for_each(|driver| driver.hand_over()));
            }
        }
    }

    /// Waits for the end; an error is the call's.
    pub fn wait(&self) -> Result<()> {
        // The engine ends every call at its deadline.
        while !self.wait_until(Instant::now() + FOREVER) {}
        self.result().unwrap_or(Ok(()))
    }

    /// Waits for the end; returns the output.
    pub fn finish(self) -> Result<Memory> {
        self.wait()?;
        Ok(self.completion.output(self.output))
    }

    /// How the call ended, or `None` if it has not.
    pub fn result(&self) -> Option<Result<()>> {
        match self.driver.get() {
            Ok(_) => self.is_done().then(|| {
                self.completion.result().and_then(|()| self.other.as_ref().map_or(Ok(()), |o| o.result()))
            }),
            Err(inherited) => Some(Err(inherited)),
        }
    }

    /// The source of a receive's message, once it is known.
    pub fn source(&self) -> Option<Rank> {
        match self.call().key.operation {
            Operation::Receive { peer, .. } => Some(peer),
            _ => self.message().map(|message| message.source),
        }
    }

    /// The message of a receive or a probe, once it is known.
    pub fn message(&self) -> Option<Message> {
        self.completion.message()
    }

    /// The output, once the call has ended; each caller gets a share of the same memory.
    pub fn output(&self) -> Memory {
        self.completion.output(Memory::new(self.output.region().clone()))
    }

    /// The algorithm that performs it.
    pub fn algorithm(&self) -> &str {
        &self.call().algorithm
    }

    /// The call, which displays as a description.
    pub fn call(&self) -> &Prepared {
        self.completion.prepared()
    }

    /// Lets the call proceed although no thread waits for it, if others may need that it does.
    pub fn let_proceed(&self) {
        if let Ok(driver) = self.driver.get() {
            if !self.is_done() {
                driver.progress_if_needed();
            }
        }
    }

    /// Lets the call proceed although no thread waits for it, and end soon.
    pub fn in_background(&self) {
        if let Ok(driver) = self.driver.get() {
            if !self.is_done() {
                driver.progress_in_background();
            }
        }
    }

    /// Calls `callback` with the result when the call ends, from the thread that notices the end. Makes sure that
    /// some thread does.
    pub fn on_complete(&self, callback: impl FnOnce(Result<()>) + Send + 'static) {
        if let Err(inherited) = self.driver.get() {
            return callback(Err(inherited));
        }
        match self.other.clone() {
            None => self.completion.on_complete(Box::new(callback)),
            Some(other) => self.completion.on_complete(Box::new(move |first| {
                other.on_complete(Box::new(move |second| callback(first.and(second))));
            })),
        }
        self.in_background();
    }
}

/// The tag of the messages of this rank's collective call of this number.
fn tag(rank: Rank, number: u64, call: &Prepared) -> Tag {
    let sequence = (number % u64::from(Tag::SEQUENCES)) as u32;
    Tag { source: rank, kind: MessageKind::Collective, sequence, message: 0, check: call.check(number) }
}

/// The seconds that encoding or decoding a byte of a vector takes here, in the most common format: the shortest of a few
/// times.
fn codec_cost() -> f64 {
    let mut vector = vec![0x3c; 4 << 20];
    let times = (0..5).map(|_| {
        let start = Instant::now();
        round(Wire::Int8, DType::F32, &mut vector);
        start.elapsed().as_secs_f64()
    });
    // Rounding encodes and decodes.
    times.fold(f64::INFINITY, f64::min) / (2 * (4 << 20)) as f64
}
