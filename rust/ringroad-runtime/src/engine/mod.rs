//! Runs calls: drives their executors over a transport.
//!
//! The engine starts the operations that executors allow and reports their completions back. Whatever goes wrong
//! becomes one failure of the whole communicator, of which every rank is notified ([`failing`]). The engine never
//! blocks and is used under a lock; [`crate::engine::progress`] decides who waits, and how.

mod any_source;
#[allow(unsafe_code)]
mod buffers;
mod diagnostics;
mod failures;
pub(crate) mod progress;
mod recorder;
mod scratch;
mod task;

pub use recorder::Recorded;
pub(crate) use task::Task;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringroad_core::plan::Command;
use ringroad_core::Rank;

use crate::bootstrap::Card;
use crate::calls::call::{CallKey, Prepared};
use crate::calls::work::Completion;
use crate::choice::choices::Lowering;
use crate::error::Error;
use crate::network::pace::Pace;
use crate::network::watch::{Prediction, Sign, Watch};
use crate::os::liveness::Liveness;
use crate::os::machine::cache;
use crate::transport::buffer::Region;
use crate::transport::notice::{Notice, Reason};
use crate::transport::{
    Arrived, Event, Failure, NearMemory, Posted, RequestId, Tag, Transport, TransportError, ABORTED, AWHILE,
    CLOSED, LOOKED_AT,
};

use self::buffers::Buffers;
use self::recorder::Recorder;
use self::scratch::Scratch;

/// How long a rank that fails waits for the other ranks' answers.
const ANSWER_TIME: Duration = Duration::from_millis(300);
/// How long to wait for a notice that explains a broken connection better, before the connection counts as the
/// failure.
const SUSPICION: Duration = Duration::from_millis(200);
/// How long calls in flight may go on after a peer gave up, if the peer had ended them before. Shorter than
/// [`SUSPICION`].
const GRACE: Duration = Duration::from_millis(100);
/// How long a collective call may go on after a rank has died from which this one needs nothing more. If that rank had
/// ended the call before, the others mostly end it, too, within this time. If not, no call may be left that would report
/// the death: the ranks that need the dead one may be stopped.
const MOURNING: Duration = Duration::from_secs(1);
/// How long ending everything in flight by force may take.
const ABORT: Duration = Duration::from_secs(1);
/// The reason that is given when a peer's process has ended.
const ENDED: &str = "its process has ended";
/// How many of the latest calls are remembered, to answer other ranks that ask what this rank called.
const HISTORY: usize = 64;
/// How many tasks are kept for later calls.
const SPARE_TASKS: usize = 8;

/// A peer whose connection broke while an operation with it was pending, or that died during a collective call.
struct Suspect {
    peer: Rank,
    reason: String,
    since: Instant,
}

pub(crate) struct Engine {
    name: String,
    rank: Rank,
    cards: Arc<Vec<Card>>,
    /// For each rank, whether it is near; empty if none is.
    near: Arc<[bool]>,
    transport: Box<dyn Transport>,
    tasks: Vec<Option<Box<Task>>>,
    active: usize,
    /// Receives that are posted once their messages have come.
    #[expect(clippy::vec_box, reason = "tasks stay in their boxes")]
    waiting: Vec<Box<Task>>,
    /// The completion of a receive that was just removed from `waiting` and is not among `tasks` yet.
    being_posted: Option<Arc<Completion>>,
    liveness: Liveness,
    /// The ranks whose processes have ended.
    dead: Vec<Rank>,
    connected: Vec<bool>,
    broken: Vec<Option<String>>,
    suspects: Vec<Suspect>,
    failure: Option<Error>,
    closed: bool,
    scratch: Scratch,
    /// Tasks of the latest calls, the last one at the end.
    #[expect(clippy::vec_box, reason = "tasks stay in their boxes")]
    spare_tasks: Vec<Box<Task>>,
    events: Vec<Event>,
    /// Notices that have come and are not handled yet.
    notices: VecDeque<(Rank, Notice)>,
    /// The time at which some of them were first put off.
    put_off_since: Option<Instant>,
    /// Whether a rank that is not near has taken part in a call (see [`Engine::needs_driving`]).
    has_far_peers: bool,
    /// Calls with at least this many bytes of input and output write results past the caches.
    uncached: usize,
    /// The latest collective calls, by number.
    history: Vec<(u64, Arc<Prepared>)>,
    /// The number of the last collective call that was submitted, and of the last one that has begun.
    called: u64,
    started: u64,
    /// Whether to spin for a message before other operations are started. Ends with the first message that does not
    /// come soon.
    patient: bool,
    /// Records a trace, if somebody wants one.
    recorder: Option<Box<Recorder>>,
    /// Compares the times of calls with what was predicted, if some ranks are on other hosts.
    watch: Option<Box<Watching>>,
    /// Calls that have ended since [`Engine::take_ended`] was last called.
    ended: Ended,
}

/// Who looks at the times of calls, and whom that concerns.
struct Watching {
    watch: Watch,
    pace: Arc<Pace>,
    /// When to look at the network in any case.
    due: Option<Instant>,
}

/// Calls that have ended.
#[must_use]
#[derive(Default)]
pub(crate) struct Ended {
    any: bool,
    awaited: Vec<Arc<Completion>>,
}

impl Ended {
    /// Whether any call has ended.
    pub fn any(&self) -> bool {
        self.any
    }

    /// The ended calls for which somebody waits.
    pub fn awaited(self) -> Vec<Arc<Completion>> {
        self.awaited
    }
}

impl Engine {
    pub fn new(
        name: String,
        rank: Rank,
        cards: Arc<Vec<Card>>,
        lowering: &Lowering,
        mut transport: Box<dyn Transport>,
    ) -> Engine {
        let size = cards.len();
        let near = transport.near_memory().map(|memory| memory.ranks()).unwrap_or_default();
        let here = 1 + near.iter().filter(|near| **near).count();
        let uncached = if here > 1 { cache::share_of_last_level(here) / 4 * 3 } else { usize::MAX };
        Engine {
            name,
            rank,
            near,
            transport,
            tasks: Vec::new(),
            active: 0,
            waiting: Vec::new(),
            being_posted: None,
            liveness: Liveness::new(cards[rank].process(), cards.iter().map(Card::process)),
            dead: Vec::new(),
            connected: vec![false; size],
            broken: vec![None; size],
            suspects: Vec::new(),
            failure: None,
            cards,
            closed: false,
            scratch: Scratch::new(lowering.two_areas && here > 1),
            spare_tasks: Vec::new(),
            events: Vec::new(),
            notices: VecDeque::new(),
            put_off_since: None,
            has_far_peers: false,
            uncached,
            history: Vec::new(),
            called: 0,
            started: 0,
            patient: false,
            recorder: None,
            watch: None,
            ended: Ended::default(),
        }
    }

    pub fn transport(&self) -> &dyn Transport {
        &*self.transport
    }

    /// Compares the times of all later calls with what was predicted.
    pub fn watch(&mut self, pace: Arc<Pace>) {
        self.watch = Some(Box::new(Watching { watch: Watch::new(), pace, due: None }));
    }

    /// Does something with what the times of calls have shown.
    pub fn with_watch<T: Default>(&mut self, act: impl FnOnce(&mut Watch) -> T) -> T {
        self.watch.as_mut().map(|watching| act(&mut watching.watch)).unwrap_or_default()
    }

    /// The first call that ends after this time lets somebody look at the network.
    pub fn look_at_network(&mut self, due: Option<Instant>) {
        self.watch.iter_mut().for_each(|watching| watching.due = due);
    }

    /// Whether a collective call is in flight.
    pub fn has_collectives(&self) -> bool {
        self.tasks.iter().flatten().any(|task| task.number > 0)
    }

    /// Whether a call is in flight.
    pub fn is_busy(&self) -> bool {
        self.active > 0
    }

    /// Whether the transport has to be driven even though no call is in flight here. That is so once a rank that is
    /// not near has taken part in a call.
    ///
    /// Such a peer may still wait for the acknowledgement of its messages: UCX 1.13 may not send it until it is
    /// driven again, and its flushes do not tell. The peer may also send for later calls, and its host may fall
    /// silent meanwhile.
    pub fn needs_driving(&mut self) -> bool {
        !self.closed && self.failure.is_none() && (self.has_far_peers || self.has_queued())
    }

    fn has_queued(&mut self) -> bool {
        self.transport.near_memory().is_some_and(|memory| memory.has_queued())
    }

    /// Drives the transport if that is necessary although no call is in flight.
    pub fn drive_idle(&mut self) {
        if self.needs_driving() {
            self.look(|transport, events| transport.inspect(None, events));
        }
    }

    /// Returns the error for later calls if the communicator cannot be used any more.
    pub fn check_usable(&self) -> Result<(), Error> {
        if self.closed {
            return Err(Error::Aborted(format!("communicator {:?} is closed; make a new one", self.name)));
        }
        match &self.failure {
            None => Ok(()),
            Some(cause) => {
                let message = format!(
                    "communicator {:?} failed earlier and can only be replaced by a new one; the cause was: {cause}",
                    self.name
                );
                // A loss may be noticed between calls: no call has raised it then.
                Err(match *cause {
                    Error::Peer { rank, .. } => Error::Peer { rank, message },
                    _ => Error::Aborted(message),
                })
            }
        }
    }

    /// A task for a call that is prepared this way. The caller fills in the memory, the deadline and the tag.
    pub fn take_task(&mut self, prepared: &Arc<Prepared>) -> Box<Task> {
        match self.spare_tasks.iter().rposition(|task| task.is_prepared_by(prepared)) {
            Some(index) => {
                let mut task = self.spare_tasks.remove(index);
                task.restart();
                task
            }
            None => Task::new(prepared.clone()),
        }
    }

    fn keep_task(&mut self, task: Box<Task>) {
        if self.spare_tasks.len() == SPARE_TASKS {
            self.spare_tasks.remove(0);
        }
        self.spare_tasks.push(task);
    }

    /// Starts a call. `patient`: the caller waits for it and has nothing else to do.
    pub fn submit(&mut self, task: Box<Task>, patient: bool) -> Result<(), Error> {
        self.patient = patient;
        let submitted = self.start(task);
        self.patient = false;
        submitted
    }

    fn start(&mut self, task: Box<Task>) -> Result<(), Error> {
        self.check_usable()?;
        // Before notices are handled, so that a rank that asks what this one called is also told of this call.
        self.called = self.called.max(task.number);
        if task.number > 0 {
            self.remember(task.number, &task.completion.prepared);
        }
        // A peer that gives up sends a notice before it reuses its memory. Handle notices first, before messages that
        // it sent earlier are read.
        self.handle_notices();
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        if self.must_wait(&task) {
            self.await_message(task);
            return Ok(());
        }
        self.begin(task)
    }

    /// Sets deadlines for all calls that have none yet. Called once a call has not ended within its first moment.
    pub fn set_deadlines(&mut self) {
        let now = Instant::now();
        for task in self.tasks.iter_mut().flatten().chain(&mut self.waiting) {
            task.deadline.get_or_insert(now + task.timeout);
        }
    }

    fn remember(&mut self, number: u64, prepared: &Arc<Prepared>) {
        if self.history.len() < HISTORY {
            return self.history.push((number, prepared.clone()));
        }
        let oldest = &mut self.history[(number - 1) as usize % HISTORY];
        oldest.0 = number;
        // Calls repeat, so the pointers are often equal.
        if !Arc::ptr_eq(&oldest.1, prepared) {
            oldest.1 = prepared.clone();
        }
    }

    /// Starts a call whose peers are known.
    fn begin(&mut self, mut task: Box<Task>) -> Result<(), Error> {
        let plan = task.executor.plan();
        for peer in plan.peers().iter().copied() {
            if let Err(reason) = self.connect(peer) {
                self.suspect(peer, reason);
            }
            self.has_far_peers |= !is_near(&self.near, peer);
        }
        let Buffers { input, output, past_caches, .. } = &mut task.buffers;
        *past_caches = input.len() + output.len() >= self.uncached;
        let like = if input.is_empty() { output } else { input };
        (task.buffers.scratch, task.buffers.scratch_range) =
            match self.scratch.take(plan.scratch(), like.as_ptr() as usize, &mut *self.transport) {
                Ok(taken) => taken,
                Err(reason) => {
                    self.lack_memory(&task.call().to_string(), &reason);
                    return Err(self.failure.clone().expect("it has just failed"));
                }
            };
        let slot = match self.tasks.iter().position(Option::is_none) {
            Some(slot) => slot,
            None => {
                self.tasks.push(None);
                self.tasks.len() - 1
            }
        };
        self.started = self.started.max(task.number);
        if self.watch.is_some() {
            task.began = task.completion.prepared.prediction.map(|prediction| (prediction, Instant::now()));
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.begin_call(slot, &task);
        }
        self.tasks[slot] = Some(task);
        self.active += 1;
        self.advance(slot);
        Ok(())
    }

    /// Makes sure that the end of `peer` would be noticed; the error says why that is impossible.
    fn connect(&mut self, peer: Rank) -> Result<(), String> {
        if let Some(reason) = &self.broken[peer] {
            return Err(reason.clone());
        }
        if !self.connected[peer] {
            self.transport.connect(peer).map_err(|error| error.reason)?;
            self.connected[peer] = true;
        }
        Ok(())
    }

    /// Does everything that can be done now. Returns whether anything has happened.
    pub fn progress(&mut self) -> bool {
        if !self.is_busy() {
            return false;
        }
        let happened = self.look(|transport, events| transport.progress(events));
        (!self.waiting.is_empty() && self.match_waiting()) | happened
    }

    /// Handles the notices that have arrived, together with all other events that the transport has.
    fn handle_notices(&mut self) {
        let next = ((self.started + 1) % u64::from(Tag::SEQUENCES)) as u32;
        self.look(|transport, events| transport.inspect(Some(next), events));
    }

    #[inline]
    fn look<T>(&mut self, at: impl FnOnce(&mut dyn Transport, &mut Vec<Event>) -> T) -> T {
        let mut events = std::mem::take(&mut self.events);
        let seen = at(&mut *self.transport, &mut events);
        self.handle(&mut events);
        self.events = events;
        seen
    }

    /// The slow check: deadlines, notices, and messages of other calls.
    pub fn inspect(&mut self) {
        self.look_everywhere();
        self.check_messages_of_calls_in_flight();
        self.check_messages_of_ended_calls();
        let now = Instant::now();
        self.suspect_the_dead();
        // A peer that has left may have sent everything before.
        let patience = |suspect: &Suspect| match self.is_needed(suspect.peer) {
            true => Some(SUSPICION),
            false => self.is_mourned(suspect.peer).then_some(MOURNING),
        };
        let verdicts: Vec<_> = self.suspects.iter().map(|s| patience(s).map(|p| now - s.since > p)).collect();
        if let Some(index) = verdicts.iter().position(|verdict| *verdict == Some(true)) {
            let suspect = self.suspects.swap_remove(index);
            let (rank, message) = (suspect.peer, self.describe_loss(&suspect));
            self.fail(Error::Peer { rank, message: message.clone() }, Reason::Peer { rank }, message);
        } else {
            let mut verdicts = verdicts.into_iter();
            self.suspects.retain(|_| verdicts.next().flatten().is_some());
        }
        if let Some(task) = self.tasks.iter().flatten().find(|task| task.is_late(now)) {
            let (number, message) = (task.number, self.describe_timeout(task));
            self.late(number, message);
        } else if let Some(task) = self.waiting.iter().find(|task| task.is_late(now)) {
            let (number, message) = (task.number, self.describe_timeout_before(task));
            self.late(number, message);
        }
    }

    fn suspect_the_dead(&mut self) {
        for peer in 0..self.cards.len() {
            if self.is_mourned(peer) {
                let reason = self.broken[peer].clone().expect("the dead are known");
                self.suspect(peer, reason);
            }
        }
    }

    /// Whether a rank has died that belongs to a collective call in flight here. A rank that closed its connections did
    /// so after its last call; its farewell is sure to come only if it is near or connected.
    fn is_mourned(&self, peer: Rank) -> bool {
        let died = self.broken[peer].as_deref().is_some_and(|reason| ![ABORTED, CLOSED].contains(&reason));
        died && (self.connected[peer] || is_near(&self.near, peer))
            && self.tasks.iter().flatten().any(|task| task.number > 0 && !task.executor.is_done())
    }

    fn look_everywhere(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        self.transport.inspect(None, &mut events);
        let gone = |peer| Event::PeerFailed { peer, reason: ENDED.to_owned() };
        events.extend(self.note_dead().iter().copied().map(gone));
        self.handle(&mut events);
        self.events = events;
    }

    /// The ranks whose processes have ended since the last look.
    fn note_dead(&mut self) -> &[Rank] {
        let before = self.dead.len();
        self.dead.extend(self.liveness.ended());
        &self.dead[before..]
    }

    /// The ranks that have died, and how that is known. A rank that has only given up does not count.
    pub fn lost(&mut self) -> Vec<(Rank, String)> {
        let connected = !self.closed && self.failure.is_none();
        if connected {
            self.look_everywhere();
        } else {
            self.note_dead();
        }
        let broken = |peer: Rank| {
            self.broken[peer].as_deref().filter(|_| connected).filter(|reason| *reason != ABORTED)
        };
        let reason = |peer: Rank| {
            let ended = self.dead.contains(&peer).then_some(ENDED);
            ended.or_else(|| broken(peer)).map(|reason| (peer, reason.to_owned()))
        };
        (0..self.cards.len()).filter_map(reason).collect()
    }

    pub fn arm(&mut self) -> bool {
        // A message for a receive from any source may have come along with notices.
        !self.match_waiting() && self.transport.arm()
    }

    /// Closes the connections after the last call. Calls that are still in flight fail.
    pub fn close(&mut self, timeout: Duration) {
        if self.closed {
            return;
        }
        if self.failure.is_none() {
            if self.active > 0 {
                self.leave(format!(
                    "rank {} closed the communicator during a call",
                    self.describe_rank(self.rank)
                ));
            } else {
                self.transport.close(Instant::now() + timeout);
            }
        }
        self.closed = true;
        self.write_trace();
    }

    /// Whether any call has ended since [`Engine::take_ended`] was last called.
    pub fn has_ended(&self) -> bool {
        self.ended.any()
    }

    /// Takes the calls that have ended since the last time, so that their callbacks can run after the lock is
    /// released.
    pub fn take_ended(&mut self) -> Ended {
        std::mem::take(&mut self.ended)
    }

    fn handle(&mut self, events: &mut Vec<Event>) {
        // A notice may have waited for a call that has just been made.
        if events.is_empty() && self.notices.is_empty() {
            return;
        }
        // Notices first: a failure over another event has to know what the other ranks say about it.
        for event in events.iter() {
            if let Event::Notice { from, payload } = event {
                self.note(*from, payload);
            }
        }
        for event in events.drain(..) {
            match event {
                Event::Completed { request, result: Ok(()) } => self.completed(request, None),
                Event::Arrived { request, arrived } => self.completed(request, Some(arrived)),
                Event::Completed { request, result: Err(failure) } => self.request_failed(request, failure),
                Event::PeerFailed { peer, reason } => self.lose(peer, reason),
                Event::Notice { .. } => {}
            }
        }
        while let Some((from, notice)) = self.next_notice() {
            self.fail_as_told(from, notice);
        }
    }

    fn completed(&mut self, request: RequestId, arrived: Option<Arrived>) {
        let (slot, number) = ((request >> 32) as usize, request as u32);
        // After a failure, requests may end whose call is gone.
        if let Some(task) = self.tasks.get_mut(slot).and_then(Option::as_mut) {
            if let Command::Expect { arrival, .. } = task.executor.operation(number).command {
                task.buffers.arrived[arrival as usize] = arrived;
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.end_operation(request);
            }
            task.executor.complete(number);
            self.advance(slot);
        }
    }

    /// Starts all operations that the task's executor allows.
    fn advance(&mut self, slot: usize) {
        let Some(task) = self.tasks[slot].as_mut() else { return };
        let mut trouble: Option<(Rank, TransportError)> = None;
        while let Some(number) = task.executor.start() {
            let request = (slot as u64) << 32 | u64::from(number);
            if let Some(recorder) = &mut self.recorder {
                recorder.begin_operation(request, *task.executor.operation(number), task);
            }
            let posted = match task.executor.operation(number).command {
                Command::Send { peer, port, message, source, stays } => {
                    let tag = Tag { source: self.rank, message: task.tag.message | message, ..task.tag };
                    let source = task.buffers.region(source);
                    let posted = if stays && is_near(&self.near, peer) {
                        memory(&mut self.transport).send_zero_copy(peer, port, tag, source, request)
                    } else {
                        self.transport.send(peer, port, tag, source, request)
                    };
                    (peer, posted)
                }
                Command::Receive { peer, port, message, target } => {
                    let tag = Tag { source: peer, message: task.tag.message | message, ..task.tag };
                    let target = task.buffers.target(task.executor.plan(), number, target);
                    (peer, self.transport.receive(port, tag, target, request))
                }
                Command::Expect { peer, message, arrival, bytes, .. } => {
                    let tag = Tag { source: peer, message: task.tag.message | message, ..task.tag };
                    let memory = memory(&mut self.transport);
                    // For a long message, the look that finds it is measured, to learn whether its sender shares a
                    // cache.
                    if self.patient && bytes < LOOKED_AT {
                        memory.spin(tag);
                    }
                    match memory.expect(tag, bytes, request) {
                        Ok(Posted::Arrived(arrived)) => {
                            task.buffers.arrived[arrival as usize] = Some(arrived);
                            (peer, Ok(Posted::Complete))
                        }
                        posted => {
                            self.patient = false;
                            (peer, posted)
                        }
                    }
                }
                Command::Release { arrival } => {
                    let arrived = task.buffers.arrived[arrival as usize].take();
                    let arrived = arrived.expect("it is released once, after it has come");
                    memory(&mut self.transport).release(arrived);
                    task.executor.complete(number);
                    continue;
                }
                local => {
                    if local.bytes() >= AWHILE {
                        self.transport.flush();
                    }
                    let (plan, ranks) = (task.executor.plan(), self.cards.len() as u32);
                    let CallKey { op, dtype, .. } = task.call().key;
                    let distance = |peer| self.transport.near_memory()?.distance(peer);
                    task.buffers.perform(plan, number, op, dtype, task.factor, ranks, distance);
                    if let Some(recorder) = &mut self.recorder {
                        recorder.end_operation(request);
                    }
                    task.executor.complete(number);
                    continue;
                }
            };
            match posted {
                (_, Ok(Posted::Complete)) => {
                    if let Some(recorder) = &mut self.recorder {
                        recorder.end_operation(request);
                    }
                    task.executor.complete(number);
                }
                (_, Ok(Posted::Pending)) => {}
                (_, Ok(Posted::Arrived(_))) => unreachable!("only what is expected arrives"),
                (peer, Err(error)) => trouble = Some((peer, error)),
            }
        }
        self.transport.flush();
        if task.executor.is_done() {
            // As in `start`: the messages that have arrived are valid only if their senders have not given up
            // meanwhile and have made the same calls.
            self.handle_notices();
            self.check_messages_of_ended_calls();
            self.check_for_aborts(slot);
            self.finish(slot, None);
        }
        match trouble {
            Some((peer, error)) if error.lacks_memory => {
                self.lack_memory_for_message(slot, peer, &error.reason)
            }
            Some((peer, error)) => self.suspect(peer, error.reason),
            None => {}
        }
    }

    /// Gives up for lack of memory for a message to or from a peer.
    fn lack_memory_for_message(&mut self, slot: usize, peer: Rank, reason: &str) {
        let Some(task) = self.tasks[slot].as_ref() else { return };
        let bytes = task.buffers.input.len().max(task.buffers.output.len());
        let what = format!(
            "a message between it and rank {} ({}, {bytes} bytes)",
            self.describe_rank(peer),
            task.call()
        );
        self.lack_memory(&what, reason);
    }

    /// Gives up for lack of memory.
    fn lack_memory(&mut self, what: &str, reason: &str) {
        let message = format!(
            "rank {} has no memory for {what}: {reason}. Free arrays of Communicator.empty; receive messages \
             before more are sent, since they wait in shared memory; or allow the process more memory",
            self.describe_rank(self.rank)
        );
        self.fail(Error::Memory(message.clone()), Reason::Abort, message);
    }

    /// Gives up if a peer of this call has aborted and no notice of it has come: the peer's memory may have been read
    /// after it was reused.
    fn check_for_aborts(&mut self, slot: usize) {
        let Some(task) = self.tasks[slot].as_ref() else { return };
        let gave_up = |peer: &&Rank| self.broken[**peer].as_deref() == Some(ABORTED);
        let Some(&peer) = task.executor.plan().peers().iter().find(gave_up) else { return };
        if self.failure.is_none() && !self.notices.iter().any(|(from, _)| *from == peer) {
            let message = format!(
                "rank {} gave up while rank {} was {}",
                self.describe_rank(peer),
                self.describe_rank(self.rank),
                self.describe_call(task)
            );
            self.fail(Error::Aborted(message.clone()), Reason::Abort, message);
        }
    }

    fn finish(&mut self, slot: usize, error: Option<Error>) {
        let Some(mut task) = self.tasks[slot].take() else { return };
        self.active -= 1;
        if let Some(recorder) = self.recorder.as_mut().filter(|_| error.is_none()) {
            recorder.end_call(slot);
        }
        if error.is_some() {
            // The transport may still be using the memory: let its requests be the last owners.
            return self.end(&task.completion, error);
        }
        if let (Some(watching), Some((prediction, began))) = (&mut self.watch, task.began.take()) {
            watching.note(prediction, began, Instant::now());
        }
        debug_assert!(task.buffers.arrived.iter().all(Option::is_none), "what has arrived is released");
        let Buffers { input, output, scratch, .. } = &mut task.buffers;
        (*input, *output) = (Region::nothing(), Region::nothing());
        let scratch = std::mem::replace(scratch, Region::nothing());
        self.scratch.keep(scratch);
        self.end(&task.completion, None);
        if task.is_as_prepared() {
            self.keep_task(task);
        }
    }

    fn end(&mut self, completion: &Arc<Completion>, error: Option<Error>) {
        self.ended.any = true;
        if completion.finish(error) {
            self.ended.awaited.push(completion.clone());
        }
    }

    /// Notes that `peer` is gone: nothing more comes from it or is sent to it.
    fn lose(&mut self, peer: Rank, reason: String) {
        // A farewell says more than the end of the process, which may be noticed before or after it.
        if self.broken[peer].as_deref() != Some(CLOSED) {
            self.broken[peer] = Some(reason.clone());
        }
        if self.is_needed(peer) {
            self.suspect(peer, reason);
        }
    }

    fn suspect(&mut self, peer: Rank, reason: String) {
        if !self.suspects.iter().any(|s| s.peer == peer) {
            self.suspects.push(Suspect { peer, reason, since: Instant::now() });
        }
    }

    fn request_failed(&mut self, request: RequestId, failure: Failure) {
        let slot = (request >> 32) as usize;
        let Some(task) = self.tasks.get(slot).and_then(Option::as_ref) else { return };
        let Some(peer) = task.executor.operation(request as u32).command.peer() else { return };
        match failure {
            Failure::Broken(reason) => self.suspect(peer, reason),
            Failure::Memory(reason) => self.lack_memory_for_message(slot, peer, &reason),
            Failure::Check { bytes, .. } | Failure::Length { found: bytes, .. } => {
                let (number, found) = (task.number, diagnostics::misfit(task.call(), peer, bytes));
                self.mismatch(number, found);
            }
        }
    }
}

impl Watching {
    fn note(&mut self, prediction: Prediction, began: Instant, ended: Instant) {
        let mut sign = self.watch.note(prediction, ended - began);
        if self.due.is_some_and(|due| ended >= due) {
            (self.due, sign) = (None, Sign::Due);
        }
        if sign != Sign::Nothing {
            self.pace.alarm(sign);
        }
    }
}

fn is_near(near: &[bool], peer: Rank) -> bool {
    near.get(peer).copied().unwrap_or(false)
}

/// The operations of near ranks, for commands that plans contain only for those.
fn memory(transport: &mut Box<dyn Transport>) -> &mut dyn NearMemory {
    transport.near_memory().expect("a rank is near")
}
